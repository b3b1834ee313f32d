"""Grade predictions on COMPAS: fairness between two groups, and accuracy.

Trusted; runs outside the sandbox and never imports the candidate's code. Not for deciding whether
an accuracy is acceptable: that constraint is in the task's YAML.
"""

from pathlib import Path

import numpy as np

from fml_hydra.outputs import Spec, align, load_npz

REPLICATES = 20
"""Models whose predictions one evaluation hands in; the same number as in repo/config.py."""

_ID = Spec(shape=(None,), kind="i")
_BINARY = Spec(shape=(None,), kind="i", low=0, high=1)


def grade(outputs: Path, answers: Path) -> dict[str, float]:
    """Means over replicates; `abs_aod` is the primary metric (lower is better).

    Reads outputs/predictions.npz: `id` (n,), `label` (replicates, n) of 0 and 1, and
    answers/answers.npz: `id`, `label`, `group` (n,). Raises InvalidOutput for anything else.
    """
    truth = load_npz(answers / "answers.npz", id=_ID, label=_BINARY, group=_BINARY)
    n = len(truth["id"])
    spec = Spec(shape=(REPLICATES, n), kind="i", low=0, high=1)
    predicted = load_npz(outputs / "predictions.npz", id=_ID, label=spec)
    rows = align(predicted["id"], truth["id"], "predictions.npz")
    replicates = [score(row[rows], truth["label"], truth["group"]) for row in predicted["label"]]
    return {name: float(np.mean([one[name] for one in replicates])) for name in replicates[0]}


def score(predicted: np.ndarray, label: np.ndarray, group: np.ndarray) -> dict[str, float]:
    """Metrics of one model's predictions; all arrays (n,) of 0 and 1.

    With d_k = P(predicted = 1 | group 0, label k) - P(predicted = 1 | group 1, label k), abs_aod is
    |d_0 + d_1| / 2, the absolute value of the average odds difference (AIF360's definition), and
    average_abs_odds is (|d_0| + |d_1|) / 2, which cannot be lowered by letting the two cancel.
    """
    first, second = rates(predicted, label, group, 0), rates(predicted, label, group, 1)
    gaps = first - second
    return {
        "abs_aod": float(abs(gaps.mean())),
        "accuracy": float(np.mean(predicted == label)),
        "average_abs_odds": float(abs(gaps).mean()),
    }


def rates(predicted: np.ndarray, label: np.ndarray, group: np.ndarray, which: int) -> np.ndarray:
    """Shares predicted 1 in group `which`, among true labels 0 and among true labels 1, (2,)."""
    own = group == which
    return np.array([predicted[own & (label == outcome)].mean() for outcome in (0, 1)])
