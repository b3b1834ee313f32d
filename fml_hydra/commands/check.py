"""Measuring a task against what it declares: baseline over seeds, references, every idea alone.

The part behind `python -m fml_hydra tasks check`. The baseline's spread over the seeds is the noise
of the task; it is kept below the root, and shown beside the improvements of later runs.
"""

import csv
import math
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import mean, stdev
from typing import Literal

from fml_hydra.baseline import write_noise
from fml_hydra.config import Experiment
from fml_hydra.edits import apply_edit
from fml_hydra.errors import EditError
from fml_hydra.evaluation import Evaluator, Outcome
from fml_hydra.ideas import Idea, load_ideas
from fml_hydra.task import TaskSpec
from fml_hydra.terms import Measured, Reported, Split

TOLERANCE = 3.0
"""Standard deviations a measured value may be off the declared one."""
FOREIGN_SEEDS = 5
"""Seeds over which the noise of a repository that measures itself is taken: it may be slow."""
PATIENCE = 120.0
"""Seconds of a val evaluation above which one seed is enough, unless more are asked for."""
NO_SEED = "nothing in its commands takes a seed: the noise cannot be measured"
EXACT = 0.001
"""Share of a declared value that is no deviation where the noise is not known, or is none."""
SPLITS: tuple[Split, ...] = ("val", "test")
Kind = Literal["baseline", "reference", "idea"]


@dataclass(frozen=True)
class Measurement:
    """One method on one task."""

    kind: Kind
    """What it is."""
    method: str
    """Name of the reference or idea."""
    status: str = "ok"
    """Status of its evaluations; the first that is not ok."""
    values: Mapping[str, list[float]] = field(default_factory=dict)
    """Primary metric by split, one value per seed."""
    seconds: float = 0.0
    """Mean wall time of a val evaluation."""
    declared: Measured | None = None
    """What the task's YAML says."""
    effect: str = ""
    """What an idea says of itself."""
    verdict: str = "ok"
    """`ok`, or what does not agree."""
    feedback: str = ""
    """What was said about the first evaluation that is not ok, or about the seeds."""
    outputs: str = ""
    """Hash of its outputs on val at the first seed."""

    def middle(self, split: str) -> float | None:
        """Mean over seeds."""
        values = self.values.get(split)
        return mean(values) if values else None

    def spread(self, split: str) -> float | None:
        """Standard deviation over seeds; None for a single one."""
        values = self.values.get(split, [])
        return stdev(values) if len(values) > 1 else None


def measure_task(
    experiment: Experiment, seeds: int, ideas: bool, patient: bool = False
) -> Iterator[Measurement]:
    """The baseline over `seeds` seeds, then references and, if asked for, ideas with one.

    Fewer seeds where nothing takes one or, unless `patient`, where it is slow; the baseline's
    feedback says so.
    """
    task = experiment.task
    with tempfile.TemporaryDirectory() as scratch:
        bench = Bench(experiment, Path(scratch))
        base = bench.baseline(seeds, patient)
        yield bench.judged(base, task.reported.baseline if task.reported else None)
        for folder in sorted(p for p in (task.dir / "reference").glob("*") if p.is_dir()):
            files = {n: (folder / n).read_text() for n in task.targets if (folder / n).exists()}
            found = bench.measure(Measurement("reference", folder.name), files, 1, SPLITS)
            known = task.reported.references if task.reported else {}
            yield bench.judged(found, known.get(folder.name))
        for idea in load_ideas(task.dir / "ideas", task.targets) if ideas else ():
            yield bench.try_idea(idea, base)


class Bench:
    """Evaluates code states of one task at several seeds."""

    def __init__(self, experiment: Experiment, scratch: Path) -> None:
        self._task = experiment.task
        self._root = experiment.root
        parts = (experiment.task, experiment.sandbox, experiment.cache_dir)
        self._evaluator = Evaluator.open(*parts, scratch / "slots")

    def baseline(self, seeds: int, patient: bool) -> Measurement:
        """The baseline, and its noise if it was measured over several seeds, which is kept."""
        what = Measurement("baseline", "baseline")
        foreign = self._task.isolation == "shared"
        if foreign and seeds > 1 and not has_seed(self._task):
            base = self.measure(what, {}, 1, SPLITS)
            return base if base.feedback else replace(base, feedback=NO_SEED)
        most = min(seeds, FOREIGN_SEEDS) if foreign and not patient else seeds
        base = self.measure(what, {}, most, SPLITS, math.inf if patient else PATIENCE)
        told = self._noise_told(base, seeds) if base.status == "ok" and seeds > 1 else ""
        return replace(base, feedback="; ".join(filter(None, (base.feedback, told))))

    def _noise_told(self, base: Measurement, seeds: int) -> str:
        """Keep the noise; returns what is to be said of it."""
        count = len(base.values["val"])
        if count == 1:
            slow = f"one seed, since it takes {base.seconds:.0f} s; --seeds={seeds} takes more"
            return slow if base.seconds > PATIENCE else ""
        sd = {split: stdev(base.values[split]) for split in SPLITS}
        if not any(sd.values()):
            return f"{count} seeds give the same value: the noise is not known"
        path = write_noise(self._evaluator, self._root, sd, count)
        return f"noise over {count} seeds, kept in {path}"

    def measure(
        self,
        what: Measurement,
        files: Mapping[str, str],
        seeds: int,
        splits: tuple[Split, ...],
        patience: float = math.inf,
    ) -> Measurement:
        """Fill in what `files` reach; stops at the first evaluation that is not ok.

        A repository that measures itself may refuse a result of its own baseline at another seed:
        that is said, and the seed left out.
        """
        values: dict[str, list[float]] = {split: [] for split in splits}
        first, seconds, refused = "", [], []
        for shift in range(seeds):
            outcomes = self._evaluator.in_turn(files, splits, shift)
            last = outcomes[-1]
            if last.status != "ok" and not (shift and self._task.isolation == "shared"):
                return self._failed(what, last, values)
            if last.status != "ok":
                refused.append(f"left out: seed {self._task.seeds.val + shift}, {last.status}")
                continue
            for split, outcome in zip(splits, outcomes, strict=True):
                values[split].append(outcome.metrics[self._task.metric.name])
                if what.kind == "baseline":
                    self._evaluator.baseline.setdefault(split, outcome.metrics)
            first = first or outcomes[0].outputs
            seconds.append(outcomes[0].seconds)
            if mean(seconds) > patience:
                break
        told = "; ".join(refused)
        return replace(what, values=values, seconds=mean(seconds), outputs=first, feedback=told)

    def judged(self, found: Measurement, declared: Measured | None) -> Measurement:
        """Hold the measured values against the declared ones."""
        found = replace(found, declared=declared)
        if found.status != "ok":
            return replace(found, verdict=found.status)
        if declared is None:
            return replace(found, verdict="not declared")
        wrong = [w for split in SPLITS if (w := self._off(found, declared, split))]
        return replace(found, verdict="; ".join(wrong) or "ok")

    def try_idea(self, idea: Idea, base: Measurement) -> Measurement:
        """Apply an idea alone and hold its effect against the one it claims."""
        what = Measurement("idea", idea.id, effect=idea.effect)
        try:
            files = apply_edit(idea.edit, self._task.target_files())
        except EditError as error:
            return replace(what, status="edit_failed", verdict=f"does not apply: {error}")
        found = self.measure(what, files, 1, ("val",))
        return replace(found, verdict=self._contradiction(found, base) or "ok")

    def _contradiction(self, found: Measurement, base: Measurement) -> str:
        """Where an idea's claim cannot be right; noise is given one standard deviation."""
        if found.effect == "crash":
            return "" if found.status == "crash" else f"declared crash, is {found.status}"
        if found.status != "ok":
            harmful = found.effect == "harmful"  # broken constraints are harm
            return "" if harmful else f"declared {found.effect}, is {found.status}"
        if found.effect == "shallow":
            return "" if found.outputs == base.outputs else "declared shallow, changes the outputs"
        metric = self._task.metric
        gain = metric.improvement(found.values["val"][0], base.values["val"][0])
        noise = self._noise("val") or 0.0
        if found.effect == "good" and gain < -noise:
            return "declared good, is worse than the baseline"
        if found.effect == "harmful" and gain > noise:
            return "declared harmful, is better than the baseline"
        return ""

    def _off(self, found: Measurement, declared: Measured, split: Split) -> str:
        """How far a value is off, if too far; without a declared noise, that of its own seed."""
        sd = getattr(declared, f"{split}_sd") or self._noise(split)
        middle = found.middle(split) if sd else found.values[split][0]
        sd = sd or found.spread(split)
        off = abs((middle or 0.0) - getattr(declared, split))
        if off <= (TOLERANCE * sd if sd else EXACT * abs(getattr(declared, split))):
            return ""
        return f"{split} is off by {off:.4g}, " + (f"{off / sd:.1f} sd" if sd else "noise unknown")

    def _noise(self, split: Split) -> float | None:
        reported: Reported | None = self._task.reported
        return getattr(reported.baseline, f"{split}_sd") if reported else None

    def _failed(
        self, what: Measurement, outcome: Outcome, values: Mapping[str, list[float]]
    ) -> Measurement:
        seconds = outcome.seconds
        status, feedback = outcome.status, outcome.feedback
        return replace(what, status=status, feedback=feedback, values=values, seconds=seconds)


def has_seed(task: TaskSpec) -> bool:
    """Whether an evaluation can be run with another seed."""
    return bool(task.reseed) or any("{seed}" in command.run for command in task.commands)


def write_csv(path: Path, rows: list[Measurement]) -> None:
    """All measurements of a task, one row each; values of several seeds are joined by spaces."""
    path.parent.mkdir(parents=True, exist_ok=True)
    columns = ["kind", "method", "status", "val", "val_sd", "val_declared", "test", "test_sd"]
    columns += ["test_declared", "seconds", "effect", "verdict", "val_by_seed", "test_by_seed"]
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        for row in rows:
            known = row.declared
            numbers = []
            for split in SPLITS:
                declared = getattr(known, split) if known else None
                numbers += [row.middle(split), row.spread(split), declared]
            seeds = [" ".join(map(repr, row.values.get(split, []))) for split in SPLITS]
            writer.writerow(
                [row.kind, row.method, row.status, *numbers, row.seconds, row.effect, row.verdict]
                + seeds
            )
