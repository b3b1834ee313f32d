"""Each level of the sandbox as a fixture; a level that does not work here is skipped by name."""

from pathlib import Path

import pytest
from sandbox_bench import Bench, policy

from fml_hydra.sandbox import Level, open_sandbox, probe


def _bench(name: str, folder: Path) -> Bench:
    preload = ("numpy",) if name == "preloaded" else ()
    level: Level = "process" if name == "process" else "bubblewrap"
    if why := probe(level):
        pytest.skip(f"{level}: {why}")
    slot = folder / "slot"
    slot.mkdir()
    return Bench(open_sandbox(policy(level)), slot, preload)


@pytest.fixture(params=["process", "bubblewrap", "preloaded"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Bench:
    """Each level in turn, the strong one also with scripts forked into it: what all must do."""
    return _bench(request.param, tmp_path)


@pytest.fixture(params=["bubblewrap", "preloaded"])
def strong(request: pytest.FixtureRequest, tmp_path: Path) -> Bench:
    """The level that closes files, network and processes, for commands and for forked scripts."""
    return _bench(request.param, tmp_path)


@pytest.fixture
def preloaded(tmp_path: Path) -> Bench:
    """The strong level with scripts forked into it."""
    return _bench("preloaded", tmp_path)
