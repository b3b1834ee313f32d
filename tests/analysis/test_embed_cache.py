"""The cache of chunk vectors: apart by space, shared by processes, clear when damaged."""

import multiprocessing

import numpy as np
import pytest

from fml_hydra.analysis.embed_cache import ChunkCache
from fml_hydra.errors import DataError

CHUNKS = [(i, i + 1) for i in range(1200)]


def _fill(path, start):
    cache = ChunkCache(path, "m@1/float32")
    for chunk in CHUNKS[start : start + 40]:
        cache.put({chunk: np.full(3, chunk[0], dtype=np.float32)})


def test_spaces_do_not_mix_and_many_are_asked_for_at_once(tmp_path):
    path = tmp_path / "deep" / "c.sqlite"
    cache = ChunkCache(path, "m@1/float32")
    cache.put({chunk: np.full(3, chunk[0], dtype=np.float32) for chunk in CHUNKS})
    found = cache.get([*CHUNKS, (0, 0)])
    assert set(found) == set(CHUNKS)
    assert all((found[c] == c[0]).all() for c in CHUNKS)
    assert ChunkCache(path, "m@2/float32").get(CHUNKS) == {}


def test_several_processes_fill_it_at_once(tmp_path):
    path, context = tmp_path / "c.sqlite", multiprocessing.get_context("fork")
    workers = [context.Process(target=_fill, args=(path, 20 * i)) for i in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0] * 4
    assert len(ChunkCache(path, "m@1/float32").get(CHUNKS)) == 100


def test_a_damaged_file_names_the_remedy(tmp_path):
    (tmp_path / "c.sqlite").write_text("not a database" * 100)
    with pytest.raises(DataError, match="delete the file"):
        ChunkCache(tmp_path / "c.sqlite", "m").get([(1,)])
