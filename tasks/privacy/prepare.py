"""Deal 5,000 digits out into two pools, each with four sets of members, and the queries of attacks.

Trusted; runs once, outside the sandbox. Not for grading. Every draw comes from one fixed seed, so
the prepared bytes are the same on every machine.

Each pool has digits of its own, one for val and one for test: 2,000 that may be members and 500
that never are (the population). The sets come in pairs: the second of a pair holds what the first
does not, and two pairs are independent of each other. So a model of one pair is judged with the two
models of the other as references, and every image is a member of exactly one of the two, as the
online attack of Zarifzadeh et al. 2024 (arXiv 2312.03262) has it.
"""

import gzip
import hashlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

SEED = 20240721
SETS = 4
CANDIDATES = 200
"""Images of each digit that are members of half of the sets."""
POPULATION = 50
"""Images of each digit that no model is trained on."""
SHIFTS = ((0, 0), (-1, 0), (1, 0), (0, -1), (0, 1))
"""Pixels down and right by which an image is moved in a query; the first is the image itself."""
NOISE = 8
"""Largest change of a pixel in a query: no query has the bytes of a training image."""


def prepare(sources: dict[str, Path], out: Path) -> None:
    """Write train/, val/, test/ and answers/ from `sources["digits"]` (mnist_5k.csv.gz)."""
    rng = np.random.default_rng(SEED)
    images, digits = _read(sources["digits"])
    for part, rows in _split(digits, rng).items():
        pool, labels = images[rows], digits[rows]
        member = memberships(labels, rng)
        _write_queries(out, part, pool, labels, member, rng)
        _write_members(out, part, pool, labels, member, rng)


def _read(path: Path) -> tuple[Array, Array]:
    """Images (5000, 28, 28) uint8 and digits (5000,) int64."""
    with gzip.open(path, "rt") as lines:
        table = np.loadtxt(lines, delimiter=",", dtype=np.uint8)
    return table[:, :-1].reshape(-1, 28, 28), table[:, -1].astype(np.int64)


def _split(digits: Array, rng: np.random.Generator) -> dict[str, Array]:
    """Row numbers of each pool: of every digit first the candidates, at the end the population."""
    shuffled = [rng.permutation(np.flatnonzero(digits == digit)) for digit in range(10)]
    size = CANDIDATES + POPULATION
    pools = {"val": [r[:size] for r in shuffled], "test": [r[size : 2 * size] for r in shuffled]}
    return {
        part: np.concatenate([r[:CANDIDATES] for r in rows] + [r[CANDIDATES:] for r in rows])
        for part, rows in pools.items()
    }


def memberships(labels: Array, rng: np.random.Generator) -> Array:
    """Which image is a member of which set, (n, SETS) bool, for labels (n,).

    Of every digit each set has half of the candidates; so has it of the candidates of that digit in
    any set of another pair. Population: a row of False.
    """
    candidates = len(labels) * CANDIDATES // (CANDIDATES + POPULATION)
    member = np.zeros((len(labels), SETS), dtype=bool)
    cell = labels[:candidates].copy()
    for first in range(0, SETS, 2):
        for value in np.unique(cell):
            alike = rng.permutation(np.flatnonzero(cell == value))
            member[alike[: len(alike) // 2], first] = True
        member[:candidates, first + 1] = ~member[:candidates, first]
        cell = 2 * cell + member[:candidates, first]
    return member


def _write_members(
    out: Path, part: str, images: Array, labels: Array, member: Array, rng: np.random.Generator
) -> None:
    """train/<pool>/members_<k>.npz: the images and labels of one set, in random order.

    A pool is named after its queries: whoever is given both can tell which belong together, and the
    queries alone do not show whether they are val's or test's.
    """
    queries = (out / part / "inputs.npz").read_bytes()
    folder = out / "train" / hashlib.sha256(queries).hexdigest()[:16]
    for number in range(SETS):
        rows = rng.permutation(np.flatnonzero(member[:, number]))
        _save(folder / f"members_{number}.npz", images=images[rows], labels=labels[rows])


def _write_queries(
    out: Path, part: str, images: Array, labels: Array, member: Array, rng: np.random.Generator
) -> None:
    """<part>/inputs.npz: every image of the pool in every shift, shuffled; and its answers."""
    image = np.repeat(np.arange(len(images)), len(SHIFTS))
    shift = np.tile(np.arange(len(SHIFTS)), len(images))
    order = rng.permutation(len(image))
    image, shift = image[order], shift[order]
    ids = rng.permutation(10 * len(order))[: len(order)]
    shown = np.stack([np.roll(images, pixels, axis=(1, 2)) for pixels in SHIFTS])[shift, image]
    noise = rng.integers(-NOISE, NOISE + 1, shown.shape, dtype=np.int16)
    _save(out / part / "inputs.npz", id=ids, images=np.clip(shown + noise, 0, 255).astype(np.uint8))
    answers = {"image": image, "shift": shift, "label": labels[image], "member": member[image]}
    _save(out / "answers" / part / "answers.npz", id=ids, **answers)


def _save(path: Path, **arrays: Array) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, **arrays)  # read 17 times in an evaluation: not compressed
