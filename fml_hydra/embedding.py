"""Code as vectors: how far apart code states are, for agents and for the analysis.

Anything with `embed` can stand in; the one here needs no model and no network, and its distances
are comparable with each other only. Not here: models (their own modules), what is embedded when.
"""

import hashlib
import keyword
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from pydantic import PositiveInt
from pydantic.dataclasses import dataclass

from fml_hydra.knobs import STRICT

Vectors = NDArray[np.float64]
_WORD = re.compile(r"[A-Za-z_]\w*|\d[\w.]*|[^\w\s]")
_PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+")


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into vectors; a pure function of each text."""

    @property
    def name(self) -> str:
        """Name in tables."""
        ...

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Vectors of shape (number of texts, dimensions)."""
        ...


@dataclass(frozen=True, config=STRICT)
class HashedEmbedder:
    """Counts of sub-words, numbers and neighbouring words, hashed; unit length, or 0 if empty."""

    name: str
    """Name in tables."""
    dimensions: PositiveInt
    """Length of a vector."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Vectors of shape (number of texts, dimensions), of unit length."""
        vectors = [_vector(text, self.dimensions) for text in texts]
        return np.array(vectors, dtype=np.float64).reshape(len(vectors), self.dimensions)


def code_text(files: Mapping[str, str]) -> str:
    """The text that stands for a code state: its target files in path order."""
    return "\n".join(files[path] for path in sorted(files))


def reach(vectors: Vectors, origin: Vectors) -> float:
    """Largest L2 distance of (n, d) vectors to an origin of shape (d,) (arXiv 2605.17373)."""
    return float(np.linalg.norm(vectors - origin, axis=1).max()) if len(vectors) else 0.0


def effective_dimension(vectors: Vectors) -> float:
    """Participation ratio of the covariance's eigenvalues (arXiv 2605.17373).

    1 when all change lies on a line, up to n - 1; 0 for fewer than two vectors or equal ones.
    """
    if len(vectors) < 2:
        return 0.0
    centred = np.asarray(vectors, dtype=np.float64) - vectors.mean(axis=0)
    values = np.linalg.svd(centred, compute_uv=False) ** 2
    total = float(values.sum())
    return total**2 / float((values**2).sum()) if total > 1e-24 else 0.0


@lru_cache(maxsize=4096)
def _vector(text: str, dimensions: int) -> Vectors:
    vector = np.zeros(dimensions)
    for token, count in sorted(Counter(_tokens(text)).items()):
        digest = int.from_bytes(hashlib.blake2b(token.encode(), digest_size=8).digest(), "big")
        sign = 1.0 if digest & 1 else -1.0
        vector[(digest >> 1) % dimensions] += sign * np.sqrt(count)
    length = float(np.linalg.norm(vector))
    return vector / length if length else vector


def _tokens(text: str) -> list[str]:
    """Sub-words of names, numbers whole, and pairs of neighbouring words; keywords left out."""
    words = [word for word in _WORD.findall(text) if not keyword.iskeyword(word)]
    parts = [part.lower() for word in words for part in _PART.findall(word)]
    numbers = [word for word in words if word[0].isdigit()]
    pairs = [f"{first} {second}" for first, second in zip(words, words[1:], strict=False)]
    return [*parts, *numbers, *pairs]
