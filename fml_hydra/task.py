"""What a task is: repository, targets, protected evaluation, commands, metric, data, constraints.

The definition comes from `conf/task/<name>.yaml`, the files from `tasks/<name>/`. Not here: what of
a definition cannot work (task_check), how a task is run (workspace, evaluation).
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from fml_hydra.checkout import Checkout
from fml_hydra.data import Source
from fml_hydra.datasets import Dataset, Shelf
from fml_hydra.environment import Env
from fml_hydra.hashing import tree_hash
from fml_hydra.knobs import STRICT, Folder
from fml_hydra.metric import Metric
from fml_hydra.repository import repository_hash
from fml_hydra.terms import (
    Command,
    Constraint,
    Reported,
    Reseed,
    Resources,
    Result,
    Seeds,
    Split,
)

POSTPROCESS = Path(__file__).with_name("postprocess.py")
"""The grader of tasks with `results`."""


@dataclass(frozen=True, config=STRICT)
class TaskSpec:
    """A task's definition."""

    name: str
    """Name in tables and tags."""
    title: str
    """One line for people."""
    problem: str
    """Which fundamental problem it belongs to."""
    dir: Folder
    """Folder of the task's files."""
    targets: tuple[str, ...]
    """Files of repo/ that the agent may edit."""
    protected: tuple[str, ...]
    """Files of repo/ that are restored before, and hashed after every command."""
    commands: tuple[Command, ...]
    """What one evaluation runs, in order."""
    metric: Metric
    """The primary metric."""
    outputs: tuple[str, ...] = ()
    """Files below {out} that grade.py gets."""
    results: tuple[Result, ...] = ()
    """Instead of grade.py: where a repository that measures itself leaves its metrics."""
    test_commands: tuple[Command, ...] = ()
    """Run for the held-out test instead of `commands`; none: the same, with the test seed."""
    repository: Folder | None = None
    """Folder of the repository; null: repo/ in the task's folder."""
    origin: Checkout | None = None
    """Where `tasks prepare` has the repository from; `repository` is then what it assembled."""
    mounts: dict[str, Folder] = Field(default_factory=dict)
    """Folders of this machine by their place in the repository; read-only there."""
    datasets: dict[str, Dataset] = Field(default_factory=dict)
    """Public data that `tasks prepare` fetches, by name."""
    keep: tuple[str, ...] = ()
    """What the val evaluation leaves in the repository that the held-out test goes on from."""
    keep_mb: int = 2048
    """How much of that is kept of the best step; with more, the held-out test makes it anew."""
    refused: tuple[str, ...] = ()
    """Patterns of what the commands print when they themselves refuse a result: `invalid`."""
    reseed: tuple[Reseed, ...] = ()
    """Seeds fixed in scripts, which `tasks check` changes to measure the noise."""
    resources: Resources = Resources()
    """What an evaluation needs beside time, threads and memory."""
    env: Env = Env()
    """The Python the commands run with."""
    constraints: tuple[Constraint, ...] = ()
    """Bounds on further metrics."""
    suspicious: dict[str, float] = Field(default_factory=dict)
    """Metrics and the exact value at which a step is flagged (a flag is no verdict)."""
    sources: dict[str, Source] = Field(default_factory=dict)
    """Raw data by name, given to prepare.py."""
    seeds: Seeds = Seeds()
    """Training seeds."""
    timeout: float = 300.0
    """Seconds for one evaluation, all commands together."""
    threads: int = 1
    """Threads a command may use."""
    memory_mb: int = 2048
    """Memory a command may use."""
    preload: tuple[str, ...] = ()
    """Packages its Python scripts are started with: imported once for all, where that can be."""
    isolation: Literal["separate", "shared"] = "separate"
    """`shared`: a foreign script trains and evaluates in one process."""
    reported: Reported | None = None
    """Values measured when the task was made."""

    @property
    def repo(self) -> Path:
        """The repository as the agent gets it."""
        return self.repository or self.dir / "repo"

    @property
    def grader(self) -> Path:
        """The trusted grading file."""
        return POSTPROCESS if self.results else self.dir / "grade.py"

    @property
    def preparer(self) -> Path:
        """The trusted data-preparing file; a task whose commands see no data needs none."""
        return self.dir / "prepare.py"

    def shelf(self, cache: Path) -> Shelf:
        """Where its data sets are kept."""
        origin = self.origin
        return Shelf(cache, self.dir, f"{origin.url} {origin.commit}" if origin else "")

    def commands_for(self, split: Split) -> tuple[Command, ...]:
        """What an evaluation of `split` runs."""
        return self.test_commands if split == "test" and self.test_commands else self.commands

    def description(self) -> str:
        """What the agent is told."""
        return (self.dir / "description.md").read_text()

    def target_files(self) -> dict[str, str]:
        """The target files' pristine text, by path, in path order."""
        return {t: (self.repo / t).read_text() for t in sorted(self.targets)}

    def content_hash(self) -> str:
        """Hash of everything in the task's folder that can change a result."""
        own = tree_hash(self.dir, leave_out=("reference",))
        return f"{own} {repository_hash(self.repository)}" if self.repository else own


@dataclass(frozen=True, config=STRICT)
class Brief:
    """What an agent is given: the unified interface of FML-bench."""

    description: str
    """The task in words."""
    repository: Path
    """The full repository, to read."""
    files: dict[str, str]
    """The suggested (target) files' pristine text by path; the only ones that may be edited."""
    protected: tuple[str, ...]
    """Read-only evaluation code."""
    commands: tuple[str, ...]
    """What one evaluation runs."""
    metric: Metric
    """The target metric."""
    baseline: dict[str, float]
    """The baseline's metrics on val."""

    @classmethod
    def of(cls, task: TaskSpec, baseline: Mapping[str, float]) -> "Brief":
        """The brief of a task whose baseline has been measured."""
        return cls(
            description=task.description(),
            repository=task.repo,
            files=task.target_files(),
            protected=task.protected,
            commands=tuple(c.run for c in task.commands),
            metric=task.metric,
            baseline=dict(baseline),
        )
