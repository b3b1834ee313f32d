"""Shared fixtures: a toy task in a folder of its own, and cells that run on it in this process."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from cells import Cell

from fml_hydra.config import load_experiment
from fml_hydra.llm.base import LLM
from fml_hydra.overrides import compose_config
from fml_hydra.resources import register_resolvers
from fml_hydra.testing import write_toy_task

register_resolvers()
Words = Callable[..., list[str]]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Golden files are rewritten on request only."""
    parser.addoption("--rewrite-golden", action="store_true", help="rewrite golden trajectories")


@pytest.fixture(scope="session")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `conf/task/toy.yaml` and `tasks/toy/`, and a cache beside them."""
    return write_toy_task(tmp_path_factory.mktemp("toy"))


@pytest.fixture
def words(toy: Path, tmp_path: Path) -> Words:
    """Command-line words for the toy task, with everything written below `tmp_path`."""

    def build(*extra: str) -> list[str]:
        return [
            "--config-dir",
            f"{toy}/conf",
            "task=toy",
            f"tasks_dir={toy}/tasks",
            f"cache_dir={toy}/cache",
            f"root={tmp_path}/mlruns",
            *extra,
        ]

    return build


@pytest.fixture
def cell(words: Words, tmp_path: Path) -> Callable[..., Cell]:
    """Make a cell on the toy task from overrides; no tracking unless asked for."""

    def build(*extra: str, llm: LLM | None = None, folder: Path | None = None) -> Cell:
        cfg = compose_config(words("tracking=none", *extra))
        experiment = load_experiment(cfg)
        if llm is not None:
            experiment = replace(experiment, llm=llm)
        return Cell(cfg, experiment, folder or tmp_path / "run")

    return build
