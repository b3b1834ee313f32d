"""Builds the causality data once: IHDP covariates and treatment with simulated outcomes.

Response surface B of Hill (2011, "Bayesian nonparametric modeling for causal inference", JCGS
20(1)) on the real covariates of the Infant Health and Development Program. All replicates share one
split of the units; each draws its own surface and noise. Not for candidates: it knows the effects.
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

CONTINUOUS = ("bw", "b.head", "preterm", "birth.o", "nnhealth", "momage")
NOT_COVARIATES = ("treat", "momwhite", "momblack", "momhisp", "site8")  # site8: reference site
REPLICATES = 5
N_VAL, N_TEST = 125, 125
EFFECT_ON_TREATED = 4.0
COEFFICIENTS, PROBABILITIES = (0.0, 0.1, 0.2, 0.3, 0.4), (0.6, 0.1, 0.1, 0.1, 0.1)
MAX_SURFACE_SD = 6.0
"""Steeper surfaces (in units of the outcome noise) are redrawn: one would decide the mean error."""
DECIMALS = 6  # hides last-bit differences between machines, so that the prepared bytes agree


def prepare(sources: dict[str, Path], out: Path) -> None:
    """Write train, val, test and answers under `out` from the raw file `sources["ihdp"]`."""
    x, treated = read_covariates(sources["ihdp"])
    rng = np.random.RandomState(2011)  # its streams are frozen across NumPy versions
    order = rng.permutation(len(x))  # also hides the treatment, by which the raw rows are sorted
    x, treated = x[order], treated[order]
    surfaces = [draw_replicate(x, treated, rng) for _ in range(REPLICATES)]
    y = np.column_stack([outcome for outcome, _ in surfaces])
    effect = np.column_stack([tau for _, tau in surfaces])
    ids = np.arange(len(x))
    train, val, test = np.split(ids, [len(x) - N_VAL - N_TEST, len(x) - N_TEST])
    save(out / "train" / "train.npz", id=train, x=x[train], t=treated[train], y=y[train])
    for name, rows in (("val", val), ("test", test)):
        save(out / name / "inputs.npz", id=rows, x=x[rows])
        save(out / "answers" / name / "answers.npz", id=rows, effect=effect[rows])


def read_covariates(path: Path) -> tuple[Array, NDArray[np.int64]]:
    """Standardised covariates (747, 25) and treatment (747,) of the observational subset.

    Hill makes the trial observational by leaving out treated children of non-white mothers.
    """
    with path.open() as file:
        names = file.readline().strip().split(",")
        raw = np.loadtxt(file, delimiter=",")
    column = {name: raw[:, i] for i, name in enumerate(names)}
    keep = (column["treat"] == 0) | (column["momwhite"] == 1)
    covariates = [
        standardise(values[keep]) if name in CONTINUOUS else values[keep]
        for name, values in column.items()
        if name not in NOT_COVARIATES
    ]
    return np.round(np.column_stack(covariates), DECIMALS), column["treat"][keep].astype(np.int64)


def standardise(values: Array) -> Array:
    """Zero mean, unit (sample) standard deviation."""
    return (values - values.mean()) / values.std(ddof=1)


def draw_replicate(
    x: Array, treated: NDArray[np.int64], rng: np.random.RandomState
) -> tuple[Array, Array]:
    """One replicate: factual outcome (n,) with unit noise, and true individual effect (n,)."""
    design = np.column_stack([np.ones(len(x)), x])
    while True:
        beta = rng.choice(COEFFICIENTS, size=design.shape[1], p=PROBABILITIES)
        mu0 = np.exp((design + 0.5) @ beta)
        if mu0.std() <= MAX_SURFACE_SD:
            break
    mu1 = design @ beta
    mu1 += EFFECT_ON_TREATED - (mu1 - mu0)[treated == 1].mean()
    y = np.where(treated == 1, mu1, mu0) + rng.normal(size=len(x))
    return np.round(y, DECIMALS), np.round(mu1 - mu0, DECIMALS)


def save(path: Path, **arrays: NDArray[np.generic]) -> None:
    """Write an npz file, its folder included."""
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, **arrays)  # type: ignore[arg-type]
