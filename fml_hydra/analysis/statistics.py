"""Correlation coefficients with what must stand beside them, Holm's correction, and the IQM.

Plain numbers in, facts out: no tables here (correlations, comparison).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

NAN = float("nan")
RESAMPLES = 2000
"""Bootstrap samples."""
LEVEL = 0.95
"""Coverage of the intervals."""
FEWEST_RESAMPLED = 5
"""Pairs below which there is no interval: too few distinct samples to draw."""
_ALL_ORDERS = 7
"""Pairs up to which p of a rank correlation is exact (5,040 orders); with 3, none is below 1/3."""


@dataclass(frozen=True)
class Correlation:
    """How two columns go together; NaN where `undefined` says why."""

    n: int
    """Pairs in which both are known."""
    r: float = NAN
    """Pearson's coefficient."""
    p: float = NAN
    """Its two-sided p."""
    low: float = NAN
    """Lower end of r's 95% bootstrap interval; NaN for n < 5."""
    high: float = NAN
    """Upper end."""
    spearman: float = NAN
    """Spearman's rank coefficient."""
    spearman_p: float = NAN
    """Its two-sided p: exact over all orders for n < 8, else by t with n - 2 degrees of freedom."""
    undefined: str = ""
    """Why there is no coefficient; empty when there is one."""


def pearson_p(r: float, n: int) -> float:
    """Two-sided p of Pearson's r over n pairs (t with n - 2 degrees of freedom); NaN for n < 3."""
    if n < 3:
        return NAN
    if abs(r) >= 1:
        return 0.0
    return float(2 * stats.t.sf(abs(r) * math.sqrt((n - 2) / (1 - r * r)), n - 2))


def correlate(x: ArrayLike, y: ArrayLike, resamples: int = RESAMPLES, seed: int = 0) -> Correlation:
    """Correlate two columns of equal length; pairs with a value that is not finite are left out."""
    pairs = np.column_stack([np.asarray(x, float), np.asarray(y, float)])
    pairs = pairs[np.isfinite(pairs).all(axis=1)]
    n = len(pairs)
    if n < 3:
        return Correlation(n, undefined=f"n = {n} is less than 3")
    for name, column in zip(("first", "second"), pairs.T, strict=True):
        if _constant(column):
            return Correlation(n, undefined=f"the {name} column is constant")
    r = float(np.clip(np.corrcoef(pairs.T)[0, 1], -1, 1))
    low, high = _interval_of_r(pairs, resamples, seed) if n >= FEWEST_RESAMPLED else (NAN, NAN)
    ranks = np.apply_along_axis(stats.rankdata, 0, pairs)
    rho = float(np.clip(np.corrcoef(ranks.T)[0, 1], -1, 1))
    return Correlation(n, r, pearson_p(r, n), low, high, rho, _p_of_ranks(ranks, rho))


def _p_of_ranks(ranks: NDArray[np.float64], rho: float) -> float:
    """Share of all orders of the second column whose correlation is at least as strong."""
    n = len(ranks)
    if n > _ALL_ORDERS:
        return pearson_p(rho, n)
    x, y = (ranks - ranks.mean(axis=0)).T
    orders = np.array(list(permutations(y)))
    found = orders @ x / math.sqrt((x @ x) * (y @ y))
    return float((np.abs(found) >= abs(rho) - 1e-12).mean())


def holm(p: Sequence[float]) -> list[float]:
    """Holm's step-down adjustment; NaN stays NaN and is not counted."""
    known = sorted((value, place) for place, value in enumerate(p) if not math.isnan(value))
    adjusted = [NAN] * len(p)
    highest = 0.0
    for done, (value, place) in enumerate(known):
        highest = max(highest, min(1.0, value * (len(known) - done)))
        adjusted[place] = highest
    return adjusted


def iqm(values: ArrayLike) -> float:
    """Interquartile mean: a quarter of the values (rounded down) is cut off at each end.

    As in rliable (Agarwal et al. 2021); missing values are left out, NaN if none is left.
    """
    known = np.asarray(values, float)
    known = known[np.isfinite(known)]
    return float(stats.trim_mean(known, 0.25)) if len(known) else NAN


def interval(samples: ArrayLike, level: float = LEVEL) -> tuple[float, float]:
    """Percentile interval of bootstrap samples, low and high; NaN without a sample."""
    known = np.asarray(samples, float)
    known = known[np.isfinite(known)]
    if not len(known):
        return NAN, NAN
    low, high = np.quantile(known, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def _interval_of_r(pairs: NDArray[np.float64], resamples: int, seed: int) -> tuple[float, float]:
    """Pairs are drawn anew; samples in which a column is constant have no r and do not count."""
    drawn = np.random.default_rng(seed).integers(len(pairs), size=(resamples, len(pairs)))
    centred = pairs[drawn] - pairs[drawn].mean(axis=1, keepdims=True)
    x, y = centred[..., 0], centred[..., 1]
    size = np.sqrt((x * x).sum(axis=1) * (y * y).sum(axis=1))
    scale = float(np.ptp(pairs[:, 0]) * np.ptp(pairs[:, 1]))
    with np.errstate(invalid="ignore", divide="ignore"):
        r = np.where(size > 1e-12 * scale, (x * y).sum(axis=1) / size, NAN)
    return interval(np.clip(r, -1, 1))


def _constant(column: NDArray[np.float64]) -> bool:
    """Equal up to rounding: a spread below 1e-13 of the values' size is none."""
    return bool(np.ptp(column) <= 1e-13 * np.abs(column).max())
