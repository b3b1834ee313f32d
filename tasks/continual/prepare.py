"""Split the 5,000 digits into a stream of five contexts of two classes, and val and test inputs.

Trusted; runs once, outside the sandbox. Not for grading. Split MNIST after Zenke et al. 2017 (arXiv
1703.04200, section 5.1): digits 0 and 1 come first, then 2 and 3, and so on. Every draw comes from
one fixed seed, so the prepared bytes are the same on every machine.
"""

import gzip
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

SEED = 20170716
CONTEXTS = ((0, 1), (2, 3), (4, 5), (6, 7), (8, 9))
"""Digits of each context, in the order in which they are learned."""
PER_DIGIT = {"val": 100, "test": 100, "train": 300}
"""How many of the 500 images of each digit go where; the three parts share no image."""


def prepare(sources: dict[str, Path], out: Path) -> None:
    """Write train/, val/, test/ and answers/ from `sources["digits"]` (mnist_5k.csv.gz)."""
    rng = np.random.default_rng(SEED)
    images, digits = _read(sources["digits"])
    rows = _split(digits, rng)
    for number, context in enumerate(CONTEXTS):
        own = rows["train"][np.isin(digits[rows["train"]], context)]
        _save(out / "train" / f"context_{number}.npz", images=images[own], labels=digits[own])
    first_id = 0
    for part in ("val", "test"):
        ids = first_id + np.arange(len(rows[part]))
        _save(out / part / "inputs.npz", id=ids, images=images[rows[part]])
        _save(out / "answers" / part / "answers.npz", id=ids, label=digits[rows[part]])
        first_id += len(ids)


def _read(path: Path) -> tuple[Array, Array]:
    """Images (5000, 28, 28) uint8 and digits (5000,) int64."""
    with gzip.open(path, "rt") as lines:
        table = np.loadtxt(lines, delimiter=",", dtype=np.uint8)
    return table[:, :-1].reshape(-1, 28, 28), table[:, -1].astype(np.int64)


def _split(digits: Array, rng: np.random.Generator) -> dict[str, Array]:
    """Row numbers of each part: the same count of every digit, in random order."""
    parts: dict[str, list[Array]] = {part: [] for part in PER_DIGIT}
    for digit in range(10):
        shuffled = rng.permutation(np.flatnonzero(digits == digit))
        bounds = np.cumsum(list(PER_DIGIT.values()))
        for part, piece in zip(PER_DIGIT, np.split(shuffled, bounds)[:-1], strict=True):
            parts[part].append(piece)
    return {part: rng.permutation(np.concatenate(pieces)) for part, pieces in parts.items()}


def _save(path: Path, **arrays: Array) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path, **arrays)
