"""Few-shot accuracy, and how far errors repeat from episode to episode.

Trusted; runs in a fresh interpreter that never imports the candidate's code. Not for deciding how
much repetition is allowed: that constraint is in the task's YAML.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fml_hydra.outputs import Spec, align, load_npz

WAYS, QUERIES = 5, 75
_IDS = Spec((None,), "i")
_WAYS = Spec((None, QUERIES), "i", low=0, high=WAYS - 1)

Array = NDArray[Any]


def grade(outputs: Path, answers: Path) -> dict[str, float]:
    """Metrics of `predictions.npz`: `id` (n,) of the episodes and `way` (n, 75) of 0 to 4.

    `accuracy` (primary, higher is better) is the mean over episodes, `ci95` the half width of its
    95% confidence interval over them, as few-shot results are given. `repeated_errors` is explained
    at the function of that name. Raises InvalidOutput for anything malformed.
    """
    truth = load_npz(
        answers / "answers.npz",
        id=_IDS,
        way=_WAYS,
        image=Spec((None, QUERIES), "i"),
        digit=Spec((None, WAYS), "i", low=0, high=WAYS - 1),
        backbone=_IDS,
    )
    handed_in = load_npz(outputs / "predictions.npz", id=_IDS, way=_WAYS)
    way = handed_in["way"][align(handed_in["id"], truth["id"], "predictions.npz")]
    correct = (way == truth["way"]).mean(axis=1)
    return {
        "accuracy": float(correct.mean()),
        "ci95": float(1.96 * correct.std() / np.sqrt(len(correct))),
        "repeated_errors": repeated_errors(way, **{k: v for k, v in truth.items() if k != "id"}),
    }


def repeated_errors(
    predicted: Array, way: Array, image: Array, digit: Array, backbone: Array
) -> float:
    """Given a wrong answer, how often another episode gives the same wrong digit for that image.

    One-shot errors come from the support set, which changes, so an image is mistaken for different
    digits or for none. Whoever learns from the supports of other episodes is wrong in the same way
    everywhere, near 1. 0 if there is no error in an image asked twice. All arrays are (n, 75), but
    `digit` (n, 5), the digit that stands for each way, and `backbone` (n,).
    """
    group = np.unique(backbone[:, None] * (image.max() + 1) + image, return_inverse=True)[1]
    group = group.reshape(image.shape)
    counts = np.zeros((group.max() + 1, WAYS))
    np.add.at(counts, (group, np.take_along_axis(digit, predicted, axis=1)), 1)
    asked = counts.sum(axis=1, keepdims=True)
    wrong = np.ones_like(counts)
    wrong[group, np.take_along_axis(digit, way, axis=1)] = 0
    pairs = (wrong * counts * (asked - 1)).sum()
    return float((wrong * counts * (counts - 1)).sum() / pairs) if pairs else 0.0
