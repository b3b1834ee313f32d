"""Accuracy in the unseen environment, in expectation over its colours and label noise.

Trusted; runs in a fresh interpreter that never imports the candidate's code. Not for training.

Every image was predicted in both colours, so the accuracy in *any* environment is an exact weighted
mean of the rows: with clean label t, the noisy label y equals t with probability 0.75, and the
colour equals y with probability 1 - flip (flip 0.9 in the unseen environment). No sampling noise.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fml_hydra.outputs import Spec, align, load_npz

REPLICATES = 3
LABEL_NOISE = 0.25
SEEN_FLIP = 0.15
"""Mean of the training environments' 0.1 and 0.2."""
UNSEEN_FLIP = 0.9

Array = NDArray[Any]


def grade(outputs: Path, answers: Path) -> dict[str, float]:
    """Metrics as shares in 0..1 from `predictions.npz` (id: (n,), prediction: (n, 3) of 0 and 1).

    `worst_env_accuracy` (primary) is per replicate the smaller of the unseen and the seen
    environments' accuracy, then the mean: answering the opposite of the colour scores 0.9 unseen
    and 0.15 seen, so it gains nothing. Its bound is 0.75. `colour_sensitivity` is the share of
    images whose prediction changes with the colour. Raises InvalidOutput for anything malformed.
    """
    truth = load_npz(
        answers / "answers.npz",
        **{name: Spec((None,), "i") for name in ("id", "label", "colour", "pair")},
    )
    handed_in = load_npz(
        outputs / "predictions.npz",
        id=Spec((None,), "i"),
        prediction=Spec((len(truth["id"]), REPLICATES), "i", low=0, high=1),
    )
    prediction = handed_in["prediction"][align(handed_in["id"], truth["id"], "predictions.npz")]
    unseen = accuracy(prediction, truth["label"], truth["colour"], UNSEEN_FLIP)
    seen = accuracy(prediction, truth["label"], truth["colour"], SEEN_FLIP)
    return {
        "worst_env_accuracy": float(np.minimum(unseen, seen).mean()),
        "unseen_accuracy": float(unseen.mean()),
        "seen_accuracy": float(seen.mean()),
        "colour_sensitivity": colour_sensitivity(prediction, truth["pair"]),
    }


def accuracy(prediction: Array, label: Array, colour: Array, flip: float) -> Array:
    """Expected accuracy of each replicate, (r,), where colour contradicts the label with `flip`.

    `prediction` is (n, r); each image stands twice in the rows, once per colour.
    """
    p_label = np.where(prediction == label[:, None], 1 - LABEL_NOISE, LABEL_NOISE)
    p_colour = np.where(prediction == colour[:, None], 1 - flip, flip)
    weighted: Array = (p_label * p_colour).sum(axis=0) / (len(label) / 2)
    return weighted


def colour_sensitivity(prediction: Array, pair: Array) -> float:
    """Share of images, over all replicates, that are answered differently in the two colours."""
    by_image = prediction[np.argsort(pair, kind="stable")].reshape(-1, 2, prediction.shape[1])
    return float((by_image[:, 0] != by_image[:, 1]).mean())
