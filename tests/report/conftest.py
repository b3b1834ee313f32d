"""A report on runs that never happened: journals in folders, loaded as any others are."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "analysis"))

from studies import Built, built, matrix


@pytest.fixture(scope="session")
def study(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Two agents with two LLMs on two tasks, two rounds each, one of them missing."""
    root = tmp_path_factory.mktemp("report") / "mlruns"
    matrix(root)
    return built(root)
