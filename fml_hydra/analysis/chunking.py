"""Long texts as vectors: cut into chunks of tokens, each chunk encoded once, added up per text.

METRICS: chunks of 510 tokens, each framed by the encoder, summed over the chunks of a text. Not
here: the model that encodes a chunk (graphcodebert), where known vectors are kept (embed_cache).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from fml_hydra.embedding import Vectors

LENGTH = 510
"""Tokens of a chunk: what RoBERTa's 512 positions leave beside `<s>` and `</s>`."""

Chunk = tuple[int, ...]
"""Token ids, without the frame."""
ChunkVectors = NDArray[np.float32]
"""One row per chunk."""
Pooling = Literal["sum", "mean"]
"""How the chunks of a text become one vector; the papers' values are sums."""


class Encoder(Protocol):
    """A tokeniser and a model that sees one chunk at a time."""

    @property
    def dimensions(self) -> int:
        """Length of a vector."""
        ...

    def tokens(self, text: str) -> Sequence[int]:
        """Token ids of a text, without a frame."""
        ...

    def encode(self, chunks: Sequence[Chunk]) -> ChunkVectors:
        """One vector per chunk, shape (number of chunks, dimensions)."""
        ...


class Store(Protocol):
    """Where vectors of chunks are kept."""

    def get(self, chunks: Sequence[Chunk]) -> dict[Chunk, ChunkVectors]:
        """The vectors of those chunks that are known."""
        ...

    def put(self, vectors: Mapping[Chunk, ChunkVectors]) -> None:
        """Keep vectors."""
        ...


def split(tokens: Sequence[int], length: int = LENGTH) -> list[Chunk]:
    """Consecutive chunks of `length` tokens, the last one shorter; none for no tokens."""
    return [tuple(tokens[i : i + length]) for i in range(0, len(tokens), length)]


def embed_chunked(
    texts: Sequence[str], encoder: Encoder, store: Store, pooling: Pooling, batch: int
) -> Vectors:
    """Vectors of shape (number of texts, dimensions); 0 for an empty or blank text.

    Only chunks that the store does not know are encoded, each once, and kept batch by batch, so
    that an interruption loses one batch.
    """
    chunks = {t: split(encoder.tokens(t)) if t.strip() else [] for t in dict.fromkeys(texts)}
    needed = list(dict.fromkeys(chunk for own in chunks.values() for chunk in own))
    known = store.get(needed)
    for group in _batches([chunk for chunk in needed if chunk not in known], batch):
        fresh = dict(zip(group, encoder.encode(group), strict=True))
        store.put(fresh)
        known.update(fresh)
    vectors = np.zeros((len(texts), encoder.dimensions))
    for row, text in enumerate(texts):
        if chunks[text]:
            rows = np.array([known[chunk] for chunk in chunks[text]], dtype=np.float64)
            vectors[row] = rows.sum(axis=0) if pooling == "sum" else rows.mean(axis=0)
    return vectors


def _batches(chunks: Sequence[Chunk], size: int) -> Iterator[list[Chunk]]:
    """Batches of chunks of one length: padding would cost time and change the last digits."""
    by_length: dict[int, list[Chunk]] = {}
    for chunk in chunks:
        by_length.setdefault(len(chunk), []).append(chunk)
    for same in by_length.values():
        for start in range(0, len(same), size):
            yield same[start : start + size]
