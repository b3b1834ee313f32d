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
from fml_hydra.errors import TaskError
from fml_hydra.hashing import tree_hash
from fml_hydra.knobs import STRICT
from fml_hydra.metric import Metric

Split = Literal["val", "test"]
PLACEHOLDERS = ("python", "data", "out", "seed")
"""What a command may hold in braces."""


@dataclass(frozen=True, config=STRICT)
class Command:
    """One command of the task, run in the sandbox."""

    run: str
    """Shell-like words with {python}, {data}, {out} and {seed}."""
    data: tuple[Literal["train", "eval"], ...] = ()
    """The parts of the data it may see."""


@dataclass(frozen=True, config=STRICT)
class Constraint:
    """A bound on a metric; a step that breaks it is `invalid`."""

    metric: str
    """Key in the grader's result."""
    at_least: float | Literal["baseline"] | None = None
    """Lower bound, or the baseline's value on the same split."""
    at_most: float | Literal["baseline"] | None = None
    """Upper bound, or the baseline's value on the same split."""
    slack: float = 0.0
    """How far beyond the bound is still accepted, in the metric's unit."""

    def broken(self, metrics: Mapping[str, float], baseline: Mapping[str, float]) -> str:
        """Why `metrics` break the constraint, or an empty string."""
        value = metrics.get(self.metric)
        if value is None:
            return f"constraint metric {self.metric!r} is missing"
        for bound, sign, word in ((self.at_least, 1, "below"), (self.at_most, -1, "above")):
            limit = baseline.get(self.metric) if bound == "baseline" else bound
            if limit is not None and sign * (value - float(limit)) < -self.slack - 1e-12:
                edge = float(limit) - sign * self.slack
                return f"{self.metric} = {value:.6g} is {word} the allowed {edge:.6g}"
        return ""


@dataclass(frozen=True, config=STRICT)
class Seeds:
    """Training seeds of the two splits; they differ, so that luck on val does not carry over."""

    val: int = 0
    """Seed of the evaluations during the search."""
    test: int = 1000
    """Seed of the held-out evaluation."""


@dataclass(frozen=True, config=STRICT)
class Measured:
    """Values of a known method on this task."""

    val: float
    """Primary metric on val."""
    test: float
    """Primary metric on test."""
    val_sd: float | None = None
    """Standard deviation over seeds."""
    test_sd: float | None = None
    """Standard deviation over seeds."""
    seconds: float | None = None
    """Wall time of one step."""


@dataclass(frozen=True, config=STRICT)
class Reported:
    """Values measured when the task was made; `tasks check` holds them against this machine's."""

    baseline: Measured
    """The task's code as given."""
    measured_with: str
    """The command that measured them."""
    references: dict[str, Measured] = Field(default_factory=dict)
    """The better methods in `reference/`."""


@dataclass(frozen=True, config=STRICT)
class TaskSpec:
    """A task's definition."""

    name: str
    """Name in tables and tags."""
    title: str
    """One line for people."""
    problem: str
    """Which fundamental problem it belongs to."""
    dir: Annotated[Path, AfterValidator(lambda path: path.expanduser().absolute())]
    """Folder of the task's files."""
    targets: tuple[str, ...]
    """Files of repo/ that the agent may edit."""
    protected: tuple[str, ...]
    """Files of repo/ that are restored before, and hashed after every command."""
    commands: tuple[Command, ...]
    """What one evaluation runs, in order."""
    outputs: tuple[str, ...]
    """Files below {out} that are graded."""
    metric: Metric
    """The primary metric."""
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
    """Packages its scripts are started with, imported once for all steps (where the sandbox can)."""
    isolation: Literal["separate", "shared"] = "separate"
    """`shared`: a foreign script trains and evaluates in one process."""
    reported: Reported | None = None
    """Values measured when the task was made."""

    @property
    def repo(self) -> Path:
        """The repository as the agent gets it."""
        return self.dir / "repo"

    @property
    def grader(self) -> Path:
        """The trusted grading file."""
        return self.dir / "grade.py"

    @property
    def preparer(self) -> Path:
        """The trusted data-preparing file."""
        return self.dir / "prepare.py"

    def description(self) -> str:
        """What the agent is told."""
        return (self.dir / "description.md").read_text()

    def target_files(self) -> dict[str, str]:
        """The target files' pristine text, by path, in path order."""
        return {t: (self.repo / t).read_text() for t in sorted(self.targets)}

    def content_hash(self) -> str:
        """Hash of everything in the task's folder that can change a result."""
        return tree_hash(self.dir, leave_out=("reference",))

    def check_files(self) -> None:
        """Raise TaskError, naming file and remedy, if the folder lacks what the YAML says."""
        for path in (self.repo, self.grader, self.preparer, self.dir / "description.md"):
            if not path.exists():
                raise TaskError(f"task {self.name}: {path} does not exist")
        for kind, names in (("targets", self.targets), ("protected", self.protected)):
            for name in names:
                self._check_name(kind, name)
        for name in self.outputs:
            self._check_inside("outputs", name)
        for command in self.commands:
            self._check_command(command.run)
        if both := sorted(set(self.targets) & set(self.protected)):
            raise TaskError(
                f"task {self.name}: {', '.join(both)} is both a target and protected; "
                "remove it from one of the two lists"
            )
        if not self.targets or not self.commands or not self.outputs:
            raise TaskError(f"task {self.name}: targets, commands and outputs must not be empty")

    def _check_command(self, run: str) -> None:
        try:
            words = [word.format(**dict.fromkeys(PLACEHOLDERS, "x")) for word in shlex.split(run)]
        except (KeyError, IndexError, ValueError, AttributeError) as error:
            known = ", ".join(f"{{{name}}}" for name in PLACEHOLDERS)
            raise TaskError(
                f"task {self.name}: commands: {run!r} cannot be read ({error}); it may hold {known}"
            ) from error
        if not words:
            raise TaskError(f"task {self.name}: commands: one of them is empty")

    def _check_inside(self, kind: str, name: str) -> None:
        pure = PurePosixPath(name)
        if pure.is_absolute() or ".." in pure.parts:
            where = "{out}" if kind == "outputs" else "the repository"
            raise TaskError(f"task {self.name}: {kind}: {name!r} must lie inside {where}")

    def _check_name(self, kind: str, name: str) -> None:
        self._check_inside(kind, name)
        if not (self.repo / name).is_file():
            raise TaskError(
                f"task {self.name}: {kind}: {name!r} does not exist in {self.repo}; "
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
