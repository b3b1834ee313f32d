"""The parts a task's definition is made of: commands, results, constraints, seeds, known values.

Not here: the definition as a whole (task).
"""

import re
from collections.abc import Mapping
from typing import Literal

from pydantic import Field, NonNegativeInt
from pydantic.dataclasses import dataclass

from fml_hydra.knobs import STRICT

Split = Literal["val", "test"]
PLACEHOLDERS = ("python", "data", "out", "seed")
"""What a command may hold in braces."""
OUT = "{out}/"
"""Begins the name of a result that lies outside the repository."""


@dataclass(frozen=True, config=STRICT)
class Command:
    """One command of the task, run in the sandbox."""

    run: str
    """Shell-like words with {python}, {data}, {out} and {seed}."""
    data: tuple[Literal["train", "eval"], ...] = ()
    """The parts of the data it may see."""


@dataclass(frozen=True, config=STRICT)
class Result:
    """Where metrics are found in what the commands left, for a repository that measures itself."""

    metrics: dict[str, str]
    """For each metric's name: a path (`json`, `json_lines`: `cifar10.means.accuracy`, `[-1].f1`), a
    column (`csv`), or a pattern with one group (`regex`)."""
    format: Literal["json", "json_lines", "csv", "regex"]
    """How the text is read; `json_lines` passes over lines that are no JSON."""
    file: str = ""
    """A file in the repository, or `{out}/...`; empty: what the commands print to stdout. It may
    hold {split}."""
    take: Literal["first", "last", "min", "max", "mean"] = "last"
    """Which of several lines, rows or matches."""
    scale: Literal["", "-log10"] = ""
    """`-log10` for tiny probabilities, which are told apart by their size only so."""
    delimiter: str = ","
    """What separates the columns of a CSV."""

    def wrong(self) -> str:
        """Why it cannot work, or an empty string."""
        if not self.metrics:
            return "names no metrics"
        for pattern in self.metrics.values() if self.format == "regex" else ():
            try:
                groups = re.compile(pattern).groups
            except re.error as error:
                return f"{pattern!r} is no regular expression: {error}"
            if groups != 1:
                return f"{pattern!r} must have one group in parentheses, it has {groups}"
        return ""


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
class Reseed:
    """A seed fixed in a script; `tasks check` puts others in its place to measure the noise."""

    file: str
    """File of the repository."""
    find: str
    """Text that stands in it once."""
    replace: str
    """The same with {seed} where the number was."""


@dataclass(frozen=True, config=STRICT)
class Resources:
    """What an evaluation needs beside time, threads and memory."""

    gpus: NonNegativeInt = 0
    """GPUs it wants for itself."""
    require: bool = False
    """Whether a machine with fewer is refused; else it gets fewer, or the CPU, with a notice."""


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
