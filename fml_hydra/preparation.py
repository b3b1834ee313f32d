"""Making a task ready ahead: its repository, its Python and its data, each on its own.

A part that cannot be had does not stop the others. Not here: how it is shown (commands), and what a
run does with it (evaluation).
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from fml_hydra import datasets, environment
from fml_hydra.checkout import StandIns, provenance, ready_checkout
from fml_hydra.data import prepare
from fml_hydra.errors import FmlError
from fml_hydra.parts import Roads
from fml_hydra.task import TaskSpec
from fml_hydra.task_check import check_task

Report = Callable[[str], None]


@dataclass(frozen=True)
class Means:
    """What preparing may use."""

    cache: Path
    """Where everything is kept."""
    own: StandIns = StandIns()
    """What the user has already of repositories."""
    roads: Roads = Roads()
    """Where data come from."""


@dataclass(frozen=True)
class Made:
    """One part of a task, made ready or not."""

    name: str
    """`repository`, `Python`, `data` (public data sets) or `splits` (with hidden labels)."""
    told: str
    """What is there and where, or why not."""
    seconds: float
    """How long it took."""
    failed: bool = False
    """Whether it cannot be had."""


def unprepared(task: TaskSpec, cache: Path) -> list[str]:
    """The parts of a task from elsewhere that are not ready; no network, and quick."""
    ready = {
        "repository": task.origin is None or task.origin.is_ready(cache),
        "Python": environment.is_ready(task.env, task.dir, cache),
        "data": datasets.is_ready(task.datasets, task.shelf(cache)),
    }
    return [name for name, there in ready.items() if not there]


def make_ready(task: TaskSpec, means: Means, report: Report) -> Iterator[Made]:
    """Make ready what is not; one part after another."""
    maker = _Maker(task, means, report)
    if task.origin:
        yield _made("repository", maker.repository)
    yield _made("Python", maker.python)
    if task.datasets:
        yield _made("data", maker.datasets)
    if task.sources or task.preparer.exists():
        yield _made("splits", maker.splits)


def _made(name: str, make: Callable[[], str]) -> Made:
    start = time.monotonic()
    try:
        told, failed = make(), False
    except FmlError as error:
        told, failed = str(error), True
    return Made(name, told, time.monotonic() - start, failed)


class _Maker:
    """Makes the parts of one task; a later one gets what the earlier ones gave."""

    def __init__(self, task: TaskSpec, means: Means, report: Report) -> None:
        self._task, self._means, self._report = task, means, report
        self._repository = None if task.origin else task.repo
        self._python: Path | None = None

    def repository(self) -> str:
        origin = self._task.origin
        assert origin is not None
        folder = ready_checkout(origin, self._means.cache, self._means.own, self._report)
        self._repository = folder
        check_task(self._task)
        facts = provenance(origin, self._means.cache)
        return f"{folder} ({_megabytes(folder)}, from {facts['source']} {facts['commit'][:12]})"

    def python(self) -> str:
        task, cache = self._task, self._means.cache
        python = environment.ready_python(task.env, task.dir, cache, self._report)
        self._python = python.path
        told = f"{python.version}, {len(python.installed)} packages: " if python.installed else ""
        return f"{told}{python.path}"

    def datasets(self) -> str:
        task, means = self._task, self._means
        shelf = task.shelf(means.cache)
        places = datasets.prepare_datasets(
            task.datasets, shelf, means.roads, self._repository, self._python, self._report
        )
        return "; ".join(f"{at}: {path} ({_megabytes(path)})" for at, path in places.items())

    def splits(self) -> str:
        task = self._task
        made = prepare(task.preparer, task.sources, self._means.cache, self._report)
        return f"{made.folder} ({', '.join(made.provenance.values()) or 'no sources'})"


def _megabytes(path: Path) -> str:
    files = path.rglob("*") if path.is_dir() else [path]
    return f"{sum(f.stat().st_size for f in files if f.is_file()) / 1e6:.1f} MB"
