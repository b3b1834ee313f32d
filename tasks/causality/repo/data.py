"""Reads the prepared IHDP files (protected)."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Study:
    """Observational training data: n units, d covariates, r replicates of the outcome."""

    x: NDArray[np.float32]
    """Covariates (n, d): six standardised continuous ones, then binary ones."""
    t: NDArray[np.float32]
    """Treatment (n,), 0 or 1; the same units are treated in every replicate."""
    y: NDArray[np.float32]
    """Factual outcome (n, r): of the arm that the unit was in."""


@dataclass(frozen=True)
class Units:
    """New units whose individual effects are asked for."""

    id: NDArray[np.int64]
    """Identifiers (m,)."""
    x: NDArray[np.float32]
    """Covariates (m, d)."""


def load_study(folder: Path) -> Study:
    """Read data/train."""
    with np.load(folder / "train.npz") as file:
        x, t, y = (file[name].astype(np.float32) for name in ("x", "t", "y"))
    return Study(x, t, y)


def load_units(folder: Path) -> Units:
    """Read data/eval."""
    with np.load(folder / "inputs.npz") as file:
        return Units(file["id"], file["x"].astype(np.float32))
