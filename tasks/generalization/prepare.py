"""Colour the 5,000 digits: two training environments, and val and test digits in both colours.

Trusted; runs once, outside the sandbox. Not for grading. Every draw comes from one fixed seed, so
the prepared bytes are the same on every machine.

Construction after Arjovsky et al. 2019 (arXiv 1907.02893, section 5.2): label = digit below 5,
flipped with probability 0.25; colour = label, flipped with a probability that depends on the
environment; images at 14 x 14, one of two channels black.
"""

import gzip
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

SEED = 20190705
LABEL_NOISE = 0.25
COLOUR_FLIPS = (0.1, 0.2)
"""Probability that the colour contradicts the label, for each training environment."""
PER_DIGIT = {"val": 70, "test": 70, "train": 360}
"""How many of the 500 images of each digit go where; the three parts share no image."""


def prepare(sources: dict[str, Path], out: Path) -> None:
    """Write train/, val/, test/ and answers/ from `sources["digits"]` (mnist_5k.csv.gz)."""
    rng = np.random.default_rng(SEED)
    images, digits = _read(sources["digits"])
    rows = _split(digits, rng)
    _write_train(out, images, digits, rows["train"], rng)
    first_id = 0
    for part in ("val", "test"):
        _write_eval(out, part, images[rows[part]], digits[rows[part]], first_id, rng)
        first_id += 2 * len(rows[part])


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


def _paint(images: Array, colours: Array) -> Array:
    """(n, 14, 14) grey and (n,) colours in {0, 1} -> (n, 2, 14, 14), the other channel black."""
    painted = np.zeros((len(images), 2, *images.shape[1:]), dtype=np.uint8)
    painted[np.arange(len(images)), colours] = images
    return painted


def _write_train(
    out: Path, images: Array, digits: Array, rows: Array, rng: np.random.Generator
) -> None:
    """train/environments.npz: images, noisy labels, environment; no digit, no clean label."""
    environment = np.repeat(np.arange(len(COLOUR_FLIPS)), len(rows) // len(COLOUR_FLIPS))
    labels = (digits[rows] < 5) ^ (rng.random(len(rows)) < LABEL_NOISE)
    colours = labels ^ (rng.random(len(rows)) < np.array(COLOUR_FLIPS)[environment])
    folder = out / "train"
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(
        folder / "environments.npz",
        images=_paint(images[rows], colours.astype(np.int64)),
        labels=labels.astype(np.int64),
        environment=environment.astype(np.int64),
    )


def _write_eval(
    out: Path, part: str, images: Array, digits: Array, first_id: int, rng: np.random.Generator
) -> None:
    """<part>/inputs.npz and its answers: each image in both colours, rows shuffled.

    With both colours of every image in it, the input file shows nothing about the correlation of
    colour and label in the unseen environment; the grader weighs the rows instead.
    """
    order = rng.permutation(2 * len(images))
    pair = np.tile(np.arange(len(images)), 2)[order]
    colours = np.repeat([0, 1], len(images))[order]
    ids = first_id + np.arange(len(order))
    for folder in (out / part, out / "answers" / part):
        folder.mkdir(parents=True, exist_ok=True)
    np.savez(out / part / "inputs.npz", id=ids, images=_paint(images[pair], colours))
    answers = {"label": (digits[pair] < 5).astype(np.int64), "colour": colours, "pair": pair}
    np.savez(out / "answers" / part / "answers.npz", id=ids, **answers)
