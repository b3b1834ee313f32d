"""Grade predictions on COMPAS: fairness between two groups, and accuracy.

Trusted; runs outside the sandbox and never imports the candidate's code. Not for deciding whether an
accuracy is acceptable: that constraint is in the task's YAML.
"""

from pathlib import Path

import numpy as np

from fml_hydra.errors import InvalidOutput
from fml_hydra.outputs import Spec, align, load_npz

REPLICATES = 20


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
    gaps = [rate(predicted, label, group, 0, k) - rate(predicted, label, group, 1, k) for k in (0, 1)]
    return {
        "abs_aod": abs(gaps[0] + gaps[1]) / 2,
        "accuracy": float(np.mean(predicted == label)),
        "average_abs_odds": (abs(gaps[0]) + abs(gaps[1])) / 2,
    }


def rate(
    predicted: np.ndarray, label: np.ndarray, group: np.ndarray, which: int, outcome: int
) -> float:
    """Share predicted 1 among the rows of a group with a given true label."""
    return float(np.mean(predicted[(group == which) & (label == outcome)]))


_ID = Spec(shape=(None,), kind="i")
_BINARY = Spec(shape=(None,), kind="i", low=0, high=1)
