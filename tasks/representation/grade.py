"""Linear probe: how well a linear classifier reads the digit off the features, from few labels.

Trusted; runs in a fresh interpreter that never imports the candidate's code. The probe is fitted
here because no label may reach the candidate. Not for learning features.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fml_hydra.errors import InvalidOutput
from fml_hydra.outputs import Spec, align, load_npz

CLASSES = 10
DIMENSIONS = 256
"""Most features an image may have; the same number as in repo/encode.py."""
LARGEST = 1e6
"""Bound of a feature's size; the probe standardises, so that scale carries nothing."""
RIDGE = 0.3
"""Strength of the regularisation, the same for all features: unit variance is 1."""

Array = NDArray[Any]


def grade(outputs: Path, answers: Path) -> dict[str, float]:
    """Metrics as shares in 0..1 from `features.npz` (id: (n,), features and untrained: (n, d)).

    `accuracy` (primary, higher is better) is the mean over draws of labelled images of the accuracy
    on all others; `untrained_accuracy` is that of the encoder before training and `learned_gain`
    the difference. Raises InvalidOutput for anything malformed.
    """
    truth = load_npz(
        answers / "answers.npz",
        id=Spec((None,), "i"),
        label=Spec((None,), "i", low=0, high=CLASSES - 1),
        probe=Spec((None, None), "b"),
    )
    vectors = Spec((len(truth["id"]), None), "f", low=-LARGEST, high=LARGEST)
    handed_in = load_npz(
        outputs / "features.npz", id=Spec((None,), "i"), features=vectors, untrained=vectors
    )
    rows = align(handed_in["id"], truth["id"], "features.npz")
    learned, untrained = (
        probe_accuracy(_bounded(handed_in[name], name)[rows], truth["label"], truth["probe"])
        for name in ("features", "untrained")
    )
    return {
        "accuracy": learned,
        "untrained_accuracy": untrained,
        "learned_gain": learned - untrained,
    }


def _bounded(vectors: Array, name: str) -> Array:
    if not 1 <= vectors.shape[1] <= DIMENSIONS:
        raise InvalidOutput(f"{name}: {vectors.shape[1]} dimensions, 1 to {DIMENSIONS} are allowed")
    return vectors


def probe_accuracy(features: Array, label: Array, draws: Array) -> float:
    """Mean accuracy of probes: features (n, d), labels (n,), labelled rows (draws, n) bool."""
    correct = [
        (probe(features[known], label[known], features[~known]) == label[~known]).mean()
        for known in draws
    ]
    return float(np.mean(correct))


def probe(known: Array, label: Array, unknown: Array) -> Array:
    """Classes (m,) of features (m, d), from a ridge regression to one-hot labels.

    Features are standardised by the labelled ones (n, d) and count 1/d each, so that the same ridge
    suits any number of them; a constant is added. Solved in the n x n dual.
    """
    mean, deviation = known.mean(axis=0), known.std(axis=0)
    varies = deviation > 1e-6 * deviation.max()
    scale = np.where(varies, 1.0 / np.where(varies, deviation, 1.0), 0.0)
    scale /= np.sqrt(max(varies.sum(), 1))
    known, unknown = (known - mean) * scale, (unknown - mean) * scale
    kernel = known @ known.T + 1.0
    kernel[np.diag_indices_from(kernel)] += RIDGE
    weights = np.linalg.solve(kernel, np.eye(CLASSES)[label])
    answer: Array = ((unknown @ known.T + 1.0) @ weights).argmax(axis=1)
    return answer
