"""Grades individual treatment effects against the simulated truth; never imports candidate code."""

from pathlib import Path

import numpy as np

from fml_hydra.outputs import Spec, align, load_npz

LIMIT = 1e6  # far beyond any effect of the data (tens); keeps the averages finite


def grade(outputs: Path, answers: Path) -> dict[str, float]:
    """Three errors, averaged over replicates, in units of the outcome (its noise has sd 1).

    `mae`: mean absolute error of the individual effects, the primary metric, lower is better.
    `pehe`: their root mean squared error. `ate_error`: absolute error of their average.
    Raises InvalidOutput when outputs/effects.npz is not one effect per unit and replicate.
    """
    with np.load(answers / "answers.npz") as truth:
        ids, effect = truth["id"], truth["effect"]
    spec = Spec(shape=(len(ids), effect.shape[1]), kind="f", low=-LIMIT, high=LIMIT)
    handed = load_npz(outputs / "effects.npz", id=Spec(shape=(None,), kind="i"), effect=spec)
    error = handed["effect"][align(handed["id"], ids, "effects.npz")] - effect
    return {
        "mae": float(np.abs(error).mean()),
        "pehe": float(np.sqrt((error**2).mean(axis=0)).mean()),
        "ate_error": float(np.abs(error.mean(axis=0)).mean()),
    }
