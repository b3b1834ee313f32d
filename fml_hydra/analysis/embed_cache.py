"""Vectors of chunks on disk, for several processes at a time.

One sqlite file. A chunk is kept under the hash of its token ids and the *space* it lies in (model,
revision and dtype), so that vectors of different models never mix. Not here: what a space is
called (graphcodebert), and texts: those are not kept.
"""

import hashlib
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np

from fml_hydra.analysis.chunking import Chunk, ChunkVectors
from fml_hydra.errors import DataError

_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS vectors"
    " (space TEXT, chunk BLOB, vector BLOB NOT NULL, PRIMARY KEY (space, chunk)) WITHOUT ROWID"
)
_PATIENCE = 60.0
"""Seconds to wait for another process that writes."""
_AT_ONCE = 500
"""Chunks asked for in one query; sqlite's oldest limit of variables is 999."""


class ChunkCache:
    """A Store in a file, which is made when needed; raises DataError if that cannot be used."""

    def __init__(self, path: Path, space: str) -> None:
        self._path, self._space = path, space

    def get(self, chunks: Sequence[Chunk]) -> dict[Chunk, ChunkVectors]:
        """The vectors of those chunks that are known."""
        by_key = {chunk_key(chunk): chunk for chunk in chunks}
        keys, found = list(by_key), dict[Chunk, ChunkVectors]()
        with self._connect() as connection:
            for start in range(0, len(keys), _AT_ONCE):
                some = keys[start : start + _AT_ONCE]
                marks = ",".join("?" * len(some))
                rows = connection.execute(
                    f"SELECT chunk, vector FROM vectors WHERE space = ? AND chunk IN ({marks})",
                    [self._space, *some],
                )
                found.update((by_key[k], np.frombuffer(v, dtype="<f4")) for k, v in rows)
        return found

    def put(self, vectors: Mapping[Chunk, ChunkVectors]) -> None:
        """Keep vectors; what another process kept first stays."""
        rows = [
            (self._space, chunk_key(chunk), np.asarray(vector, dtype="<f4").tobytes())
            for chunk, vector in vectors.items()
        ]
        with self._connect() as connection:
            connection.executemany("INSERT OR IGNORE INTO vectors VALUES (?, ?, ?)", rows)

    @contextmanager
    def _connect(self) -> Iterator[sqlite3.Connection]:
        """A connection per use: none may be carried over a fork or to another thread."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self._path, timeout=_PATIENCE)) as connection, connection:
                connection.execute(_SCHEMA)
                yield connection
        except (sqlite3.Error, OSError) as error:
            raise DataError(
                f"{self._path}: the embedding cache cannot be used ({error}); delete the file, or"
                " name another one with embedder.cache=FILE (embedder.cache=null keeps none)"
            ) from error


class MemoryStore:
    """A Store for one process."""

    def __init__(self) -> None:
        self._vectors: dict[Chunk, ChunkVectors] = {}

    def get(self, chunks: Sequence[Chunk]) -> dict[Chunk, ChunkVectors]:
        """The vectors of those chunks that are known."""
        return {chunk: self._vectors[chunk] for chunk in chunks if chunk in self._vectors}

    def put(self, vectors: Mapping[Chunk, ChunkVectors]) -> None:
        """Keep vectors."""
        self._vectors.update(vectors)


def chunk_key(chunk: Chunk) -> bytes:
    """The hash under which a chunk is kept; equal on every machine."""
    return hashlib.blake2b(np.array(chunk, dtype="<u4").tobytes(), digest_size=16).digest()
