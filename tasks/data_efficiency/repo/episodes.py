"""Reads base features and episodes (protected)."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np


@dataclass(frozen=True)
class Base:
    """Features of the base digits from one backbone."""

    maps: np.ndarray
    """(n, channels, height, width), not negative."""
    label: np.ndarray
    """(n,), 0 to 4 for digits 5 to 9."""
    seen: np.ndarray
    """(n,) bool: whether the backbone was trained on the image."""


@dataclass(frozen=True)
class Episode:
    """One few-shot problem."""

    id: int
    """Number under which the answers are handed in."""
    backbone: int
    """Whose features it has."""
    support: np.ndarray
    """(ways, shots, channels, height, width); the first axis is the label."""
    query: np.ndarray
    """(queries, channels, height, width)."""


def load_base(data: Path) -> list[Base]:
    """Base features, one entry for each backbone."""
    with np.load(data / "train" / "base.npz") as raw:
        label, seen = raw["label"], raw["seen"]
        return [Base(maps.astype(np.float64), label, seen) for maps in raw["features"]]


def load_episodes(data: Path) -> Iterator[Episode]:
    """Every episode of the evaluation part, with copies of its features."""
    with np.load(data / "eval" / "inputs.npz") as raw:
        arrays = {name: raw[name] for name in raw.files}
    maps = arrays.pop("features").astype(np.float64)
    rows = zip(*(arrays[name] for name in ("id", "backbone", "support", "query")), strict=True)
    for number, backbone, support, query in rows:
        own = maps[backbone]
        yield Episode(int(number), int(backbone), own[support][:, None], own[query])
