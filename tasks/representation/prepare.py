"""Split the 5,000 digits: 4,000 images without labels, and val and test images for the probe.

Trusted; runs once, outside the sandbox. Not for grading. Every draw comes from one fixed seed, so
the prepared bytes are the same on every machine. No label is written anywhere but to answers/.
"""

import gzip
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

SEED = 20191113
PER_DIGIT = {"val": 50, "test": 50, "train": 400}
"""How many of the 500 images of each digit go where; the three parts share no image."""
LABELS_PER_DIGIT = 20
"""Images of each digit whose label the probe may use; it is tested on the others."""
DRAWS = 30
"""How often these images are drawn anew, so that the result does not depend on one draw."""


def prepare(sources: dict[str, Path], out: Path) -> None:
    """Write train/, val/, test/ and answers/ from `sources["digits"]` (mnist_5k.csv.gz).

    `sources["other_digits"]` is not read: it is named so that the sandbox hides it.
    """
    rng = np.random.default_rng(SEED)
    images, digits = _read(sources["digits"])
    rows = _split(digits, rng)
    _save(out / "train" / "images.npz", images=images[rows["train"]])
    first_id = 0
    for part in ("val", "test"):
        label = digits[rows[part]]
        ids = first_id + np.arange(len(label))
        probe = np.stack([_labelled(label, rng) for _ in range(DRAWS)])
        _save(out / part / "inputs.npz", id=ids, images=images[rows[part]])
        _save(out / "answers" / part / "answers.npz", id=ids, label=label, probe=probe)
        first_id += len(label)


def _read(path: Path) -> tuple[Array, Array]:
    """Images (5000, 14, 14) uint8, means of 2 x 2 pixels, and digits (5000,) int64."""
    with gzip.open(path, "rt") as lines:
        table = np.loadtxt(lines, delimiter=",", dtype=np.uint8)
    pixels = table[:, :-1].reshape(-1, 14, 2, 14, 2).astype(np.float64)
    return np.rint(pixels.mean(axis=(2, 4))).astype(np.uint8), table[:, -1].astype(np.int64)


def _split(digits: Array, rng: np.random.Generator) -> dict[str, Array]:
    """Row numbers of each part: the same count of every digit, in random order."""
    parts: dict[str, list[Array]] = {part: [] for part in PER_DIGIT}
    for digit in range(10):
        shuffled = rng.permutation(np.flatnonzero(digits == digit))
        bounds = np.cumsum(list(PER_DIGIT.values()))
        for part, piece in zip(PER_DIGIT, np.split(shuffled, bounds)[:-1], strict=True):
            parts[part].append(piece)
    return {part: rng.permutation(np.concatenate(pieces)) for part, pieces in parts.items()}


def _labelled(label: Array, rng: np.random.Generator) -> Array:
    """Which rows (n,) bool the probe may learn from: the same count of every digit."""
    chosen = np.zeros(len(label), dtype=bool)
    for digit in range(10):
        own = rng.permutation(np.flatnonzero(label == digit))
        chosen[own[:LABELS_PER_DIGIT]] = True
    return chosen


def _save(path: Path, **arrays: Array) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path, **arrays)
