"""Each level of the sandbox as a fixture; a level that does not work here is skipped by name."""

from pathlib import Path

import pytest
from sandbox_bench import Bench, policy

from fml_hydra.sandbox import Level, open_sandbox, probe


def _bench(level: Level, folder: Path) -> Bench:
    if why := probe(level):
        pytest.skip(f"{level}: {why}")
    slot = folder / "slot"
    slot.mkdir()
    return Bench(open_sandbox(policy(level)), slot)


@pytest.fixture(params=["process", "bubblewrap"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Bench:
    """Each level in turn: what every sandbox must do."""
    return _bench(request.param, tmp_path)


@pytest.fixture
def strong(tmp_path: Path) -> Bench:
    """The level that closes files, network and processes."""
    return _bench("bubblewrap", tmp_path)
