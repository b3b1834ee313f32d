"""Shared fixtures: a toy task in a folder of its own, and cells that run on it in this process."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from omegaconf import DictConfig

from fml_hydra.config import Experiment, load_experiment
from fml_hydra.journal import Folded, Journal
from fml_hydra.llm.base import LLM
from fml_hydra.overrides import compose_config
from fml_hydra.resources import register_resolvers
from fml_hydra.runner import run
from fml_hydra.session import Observer
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
def cell(words: Words, tmp_path: Path) -> Callable[..., "Cell"]:
    """Make a cell on the toy task from overrides; no tracking unless asked for."""

    def build(*extra: str, llm: LLM | None = None, folder: Path | None = None) -> Cell:
        cfg = compose_config(words("tracking=none", *extra))
        experiment = load_experiment(cfg)
        if llm is not None:
            experiment = replace(experiment, llm=llm)
        return Cell(cfg, experiment, folder or tmp_path / "run")

    return build


class Cell:
    """One run, in this process."""

    def __init__(self, cfg: DictConfig, experiment: Experiment, folder: Path) -> None:
        self.cfg, self.experiment, self.folder = cfg, experiment, folder

    @property
    def identity(self) -> str:
        return self.experiment.identity(self.cfg)

    def run(self, observers: Sequence[Observer] = ()) -> Folded:
        """Run or resume it; the state afterwards, as read back from disk."""
        self.folder.mkdir(parents=True, exist_ok=True)
        journal = Journal(self.folder / "journal.jsonl")
        try:
            run(self.experiment, self.identity, self.folder, observers, journal)
        finally:
            journal.close()
        return self.state()

    def state(self) -> Folded:
        return Folded.read(self.folder / "journal.jsonl")
