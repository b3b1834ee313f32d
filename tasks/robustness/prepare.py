"""Poison three training sets each for val and test, and put triggers on half of their inputs.

Trusted; runs once, outside the sandbox. Not for grading. BadNets after Gu et al. 2017 (arXiv
1708.06733): a 3 x 3 patch on 2% of the training images, which are labelled with a target class.
Every draw comes from one fixed seed, so the prepared bytes are the same on every machine.

No digit is in two studies of a split: comparing them would show who was poisoned. No held-out digit
is there both with and without its trigger.
"""

import gzip
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

SEED = 20170822
PER_DIGIT = {"val": 100, "test": 100, "train": 300}
"""How many of the 500 images of each digit go where; val and test poison the same training digits
in different ways, and one evaluation sees only one of them."""
POISONED = 0.02
"""Share of the training images with the trigger."""
TRIGGERED = 0.5
"""Share of the held-out images with the trigger."""


@dataclass(frozen=True)
class Attack:
    """What the attacker of one study does."""

    row: int
    """Top of the patch in the image."""
    column: int
    """Left of the patch in the image."""
    patch: str
    """Nine pixels, row by row: x is white, anything else black."""
    target: int
    """The class that the patch shall mean."""


ATTACKS = {
    "val": (
        Attack(row=23, column=21, patch="x.x.x.x.x", target=7),
        Attack(row=3, column=12, patch="xxxx.xxxx", target=2),
        Attack(row=15, column=3, patch="xxxx.xx..", target=4),
    ),
    "test": (
        Attack(row=2, column=4, patch="xx.xxxx.x", target=8),
        Attack(row=22, column=5, patch="x.xx.xxxx", target=1),
        Attack(row=10, column=22, patch=".xxxxxxx.", target=5),
    ),
}
"""Three studies per split. Somewhere in the image, not only in its empty margin: whoever cuts that
off or looks for one shape is right about some of them by luck."""


def prepare(sources: dict[str, Path], out: Path) -> None:
    """Write val/, test/ and answers/ from `sources["digits"]` (mnist_5k.csv.gz).

    Each split has its own training sets, so they lie beside its inputs and train/ stays empty.
    """
    (out / "train").mkdir(parents=True)
    rng = np.random.default_rng(SEED)
    images, digits = _read(sources["digits"])
    rows = _split(digits, rng)
    first_id = 0
    for split, attacks in ATTACKS.items():
        pools = np.array_split(rng.permutation(rows["train"]), len(attacks))
        for study, (attack, pool) in enumerate(zip(attacks, pools, strict=True)):
            arrays = _poison(images[pool], digits[pool], attack, rng)
            _save(out / split / "training" / f"study_{study}.npz", **arrays)
        inputs, answers = _held_out(images[rows[split]], digits[rows[split]], attacks, rng)
        ids = first_id + np.arange(len(rows[split]))
        _save(out / split / "inputs.npz", id=ids, **inputs)
        _save(out / "answers" / split / "answers.npz", id=ids, **answers)
        first_id += len(ids)


def stamp(images: Array, attack: Attack) -> Array:
    """Copies of `images` (n, 28, 28) with the patch in its place."""
    stamped = images.copy()
    patch = np.array([255 * (pixel == "x") for pixel in attack.patch]).reshape(3, 3)
    stamped[:, attack.row : attack.row + 3, attack.column : attack.column + 3] = patch
    return stamped


def _poison(
    images: Array, digits: Array, attack: Attack, rng: np.random.Generator
) -> dict[str, Array]:
    """A training set: some images that are not of the target class get trigger and target label."""
    others = np.flatnonzero(digits != attack.target)
    chosen = rng.choice(others, size=round(POISONED * len(digits)), replace=False)
    images, labels = images.copy(), digits.copy()
    images[chosen] = stamp(images[chosen], attack)
    labels[chosen] = attack.target
    return {"images": images, "labels": labels}


def _held_out(
    images: Array, digits: Array, attacks: tuple[Attack, ...], rng: np.random.Generator
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Inputs and answers: every image in one study only, and there with or without the trigger."""
    study = rng.permutation(np.arange(len(images)) % len(attacks))
    triggered = rng.random(len(images)) < TRIGGERED
    images = images.copy()
    for number, attack in enumerate(attacks):
        chosen = triggered & (study == number)
        images[chosen] = stamp(images[chosen], attack)
    target = np.array([attack.target for attack in attacks])[study]
    answers = {"study": study, "label": digits, "triggered": triggered, "target": target}
    return {"study": study, "images": images}, answers


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
