"""What a task is: repository, targets, protected evaluation, commands, metric, data, constraints.

The definition comes from `conf/task/<name>.yaml`, the files from `tasks/<name>/`. Not here: how a
task is run (workspace, evaluation).
"""

import shlex
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal

from pydantic import AfterValidator, Field
from pydantic.dataclasses import dataclass

from fml_hydra.data import Source
from fml_hydra.environment import Env
from fml_hydra.errors import TaskError
from fml_hydra.hashing import tree_hash
from fml_hydra.knobs import STRICT
from fml_hydra.metric import Metric
from fml_hydra.repository import repository_hash
from fml_hydra.terms import (
    OUT,
    PLACEHOLDERS,
    Command,
    Constraint,
    Reported,
    Result,
    Seeds,
    Split,
)

Folder = Annotated[Path, AfterValidator(lambda path: path.expanduser().absolute())]
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
    mounts: dict[str, Folder] = Field(default_factory=dict)
    """Folders of this machine by their place in the repository; read-only there."""
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

    def check_files(self) -> None:
        """Raise TaskError, naming file and remedy, if the folder lacks what the YAML says."""
        for path in (self.repo, self.dir / "description.md", *self.mounts.values()):
            if not path.exists():
                raise self._wrong(f"{path} does not exist")
        for kind, names in (("targets", self.targets), ("protected", self.protected)):
            for name in names:
                self._check_name(kind, name)
        for kind, inside in (("outputs", self.outputs), ("mounts", tuple(self.mounts))):
            for name in inside:
                self._check_inside(kind, name)
        for command in (*self.commands, *self.test_commands):
            self._check_command(command)
        if both := sorted(set(self.targets) & set(self.protected)):
            raise self._wrong(
                f"{', '.join(both)} is both a target and protected; remove it from one of the lists"
            )
        if not self.targets or not self.commands:
            raise self._wrong("targets and commands must not be empty")
        self._check_results()

    def _check_results(self) -> None:
        """Metrics come from grade.py or from the repository itself; then that must be said."""
        if not self.grader.exists():
            raise self._wrong(f"{self.grader} does not exist; write it, or give `results`")
        if bool(self.outputs) == bool(self.results):
            raise self._wrong("give either `outputs`, which grade.py gets, or `results`")
        for number, result in enumerate(self.results):
            if why := result.wrong():
                raise self._wrong(f"results[{number}] {why}")
            self._check_inside("results", result.file.removeprefix(OUT))
        if not self.results:
            return
        if (self.dir / "grade.py").exists():
            raise self._wrong("it has `results` and grade.py; remove one of them")
        if self.isolation != "shared":
            raise self._wrong(
                "with `results` the agent's own process says what it reached; write "
                "`isolation: shared`, or grade its outputs with a grade.py"
            )
        named = [name for result in self.results for name in result.metrics]
        if self.metric.name not in named:
            raise self._wrong(f"results do not name {self.metric.name!r}, the metric")

    def _wrong(self, what: str) -> TaskError:
        return TaskError(f"task {self.name}: {what}")

    def _check_command(self, command: Command) -> None:
        run = command.run
        try:
            words = [word.format(**dict.fromkeys(PLACEHOLDERS, "x")) for word in shlex.split(run)]
        except (KeyError, IndexError, ValueError, AttributeError) as error:
            known = ", ".join(f"{{{name}}}" for name in PLACEHOLDERS)
            raise self._wrong(
                f"commands: {run!r} cannot be read ({error}); it may hold {known}"
            ) from error
        if not words:
            raise self._wrong("commands: one of them is empty")
        if command.data and not self.preparer.exists():
            raise self._wrong(
                f"commands: {run!r} wants data, but {self.preparer} does not exist; write it, or "
                "remove `data`"
            )

    def _check_inside(self, kind: str, name: str) -> None:
        pure = PurePosixPath(name)
        if pure.is_absolute() or ".." in pure.parts:
            where = "{out}" if kind == "outputs" else "the repository"
            raise self._wrong(f"{kind}: {name!r} must lie inside {where}")

    def _check_name(self, kind: str, name: str) -> None:
        self._check_inside(kind, name)
        if not (self.repo / name).is_file():
            raise self._wrong(
                f"{kind}: {name!r} does not exist in {self.repo}; "
                f"correct `{kind}` in the task's YAML or add the file"
            )


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
