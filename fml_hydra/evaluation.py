"""One evaluation: run the task's commands in the sandbox, grade their outputs outside it.

The answer is an `Outcome`; a candidate's failure is a result, a failure of the suite an exception.
Not here: budgets, journals, LLMs.
"""

import json
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, get_args

from fml_hydra.data import installed_copies, prepare
from fml_hydra.datasets import found
from fml_hydra.environment import ready_python
from fml_hydra.errors import InvalidOutput, MissingOutput, TaskError
from fml_hydra.execution import Execution, Ran
from fml_hydra.gpus import Gpus
from fml_hydra.grading import Grader, Verdict
from fml_hydra.handed_in import Wanted, collect
from fml_hydra.hashing import value_hash
from fml_hydra.journal import Status
from fml_hydra.postprocess import RULES
from fml_hydra.sandbox import SandboxPolicy, open_sandbox
from fml_hydra.task import TaskSpec
from fml_hydra.terms import OUT, Split
from fml_hydra.trees import clear, put, remove_tree, take
from fml_hydra.workspace import Slot, Workspace

log = logging.getLogger(__name__)
NOT_KEPT = "not kept for the test: "
"""Begins the flag of a step whose leftovers cannot be gone on from."""
_SPLIT = "{split}"
"""Stands for val or test in the name of a result."""


@dataclass(frozen=True)
class Outcome:
    """What came out of one evaluation."""

    status: Status
    """How it ended."""
    metrics: dict[str, float] = field(default_factory=dict)
    """All metrics, in their own units; empty unless graded."""
    utility: float | None = None
    """Primary metric, higher is better; None unless ok."""
    feedback: str = ""
    """What the agent is told."""
    stdout: str = ""
    """What the commands printed."""
    stderr: str = ""
    """What the commands printed as errors."""
    seconds: float = 0.0
    """Wall time of the commands, measured from outside."""
    sandbox: str = ""
    """Level it ran under."""
    outputs: str = ""
    """Hash of the graded outputs."""
    flags: tuple[str, ...] = ()
    """Suspicions with their evidence; never a verdict."""
    kept: Path | None = None
    """Folder with what the task keeps of it for the held-out test; the caller's to move or delete,
    before the evaluator is opened again."""


class Evaluator:
    """Evaluates code states of one task; thread-safe."""

    def __init__(self, execution: Execution, slots: Path) -> None:
        self.task = execution.task
        self.workspace = execution.workspace
        self.sandbox = execution.sandbox
        self.python = execution.python
        self.data = execution.data
        self.gpus = execution.gpus
        self.mounts = execution.mounts
        self.baseline: dict[Split, dict[str, float]] = {}
        """Baseline metrics by split, for constraints and feedback; set once they are measured."""
        self._execution = execution
        self._slots = slots

    @classmethod
    def open(
        cls,
        task: TaskSpec,
        policy: SandboxPolicy,
        cache: Path,
        slots: Path,
        report: Callable[[str], None] = lambda _: None,
    ) -> "Evaluator":
        """An evaluator with everything a task needs made ready: sandbox, Python, data, workspace.

        `slots` is a folder for its evaluations alone. Raises SandboxError, TaskError or DataError.
        """
        gpus = _gpus(task, report)
        sandbox = open_sandbox(replace(policy, gpus=policy.gpus or gpus.count > 0))
        python = ready_python(task.env, task.dir, cache, report)
        report("preparing data")
        data = prepare(task.preparer, task.sources, cache, report)
        execution = Execution(
            task=task,
            workspace=Workspace.open(task.repo, task.protected, cache),
            sandbox=sandbox,
            policy=policy,
            python=python,
            data=data,
            mounts={**task.mounts, **found(task.datasets, task.shelf(cache))},
            hidden=tuple(installed_copies(task.sources)),
            gpus=gpus,
            report=report,
        )
        remove_tree(slots)  # left over from a kill
        return cls(execution, slots)

    def evaluate(
        self, files: Mapping[str, str], split: Split, shift: int = 0, kept: Path | None = None
    ) -> Outcome:
        """Run and grade the pinned commit with `files` written over it.

        `shift` is added to the training seed of the split. Where the test goes on from what the val
        evaluation left (`keep`), `kept` is that, of the same code; without it, it is made again.
        Raises InfraError or SandboxError when it is our fault, TaskError when the task's own grader
        is broken: it cannot be loaded, or fails on the outputs of the baseline.
        """
        ours = self._reseeded(split, shift)
        with (
            self.workspace.slot(self._slots, files, ours) as slot,
            Grader(self.task.grader) as grader,
        ):
            ran = self._run(slot, split, shift, kept)
            if ran.status != "ok":
                return self._outcome(ran)
            try:
                handed_in = self._collect(slot, ran, split)
            except MissingOutput as error:
                return self._outcome(ran, status="no_metric", feedback=str(error))
            except InvalidOutput as error:
                return self._outcome(ran, status="invalid", feedback=str(error))
            verdict = grader.grade(slot.graded, self.data.answers(split))
            outcome = self._judge(ran, verdict, handed_in, split)
            return self._with_kept(slot, outcome) if split == "val" else outcome

    def in_turn(
        self, files: Mapping[str, str], splits: Sequence[Split], shift: int = 0
    ) -> list[Outcome]:
        """One outcome per split up to one that is not ok; the test goes on from what val left."""
        kept: Path | None = None
        outcomes: list[Outcome] = []
        for split in splits:
            outcomes.append(self.evaluate(files, split, shift, kept))
            kept = kept or outcomes[-1].kept
            if outcomes[-1].status != "ok":
                break
        if kept:
            remove_tree(kept)
        return outcomes

    def _reseeded(self, split: Split, shift: int) -> dict[str, str]:
        """Scripts in which a seed stands, with another one; as they are at the task's own seed."""
        texts: dict[str, str] = {}
        for change in self.task.reseed if shift else ():
            text = texts.get(change.file) or self.workspace.read(change.file)
            seed = str(getattr(self.task.seeds, split) + shift)
            texts[change.file] = text.replace(change.find, change.replace.replace("{seed}", seed))
        return texts

    def _run(self, slot: Slot, split: Split, shift: int, kept: Path | None) -> Ran:
        """Run the commands, for the test in the state that the val evaluation left."""
        if split == "test" and self.task.keep and kept:
            put(kept, self.task.keep, slot.repo)
        elif split == "test" and self.task.keep:
            self._clear(slot)
            before = self._execution.run(slot, "val", shift)
            if before.status != "ok":
                return before
        self._clear(slot)
        return self._execution.run(slot, split, shift)

    def _clear(self, slot: Slot) -> None:
        """Results that are there already are not of these commands."""
        for split in get_args(Split):
            for result in self.task.results:
                name = result.file.replace(_SPLIT, split)
                if name.startswith(OUT):
                    clear(slot.out, name.removeprefix(OUT))
                elif name:
                    clear(slot.repo, name)

    def _with_kept(self, slot: Slot, outcome: Outcome) -> Outcome:
        """Move what the test will go on from out of the slot; a flag says why not, if it cannot."""
        if not self.task.keep or outcome.status != "ok":
            return outcome
        kept = self._slots / f"kept-{slot.root.name}"
        try:
            take(slot.repo, self.task.keep, kept, self.task.keep_mb * 2**20)
        except InvalidOutput as error:
            return replace(outcome, flags=(*outcome.flags, f"{NOT_KEPT}{error}"))
        return replace(outcome, kept=kept)

    def _collect(self, slot: Slot, ran: Ran, split: Split) -> str:
        """Take what is to be graded; returns the common hash."""
        if not self.task.results:
            outputs = self.task.outputs
            return collect([Wanted(slot.out, name, slot.graded / name) for name in outputs])
        wanted, rules = [], []
        for number, result in enumerate(self.task.results):
            kept = slot.graded / str(number)
            place = result.file.replace(_SPLIT, split)
            name = place.removeprefix(OUT)
            rules.append({**asdict(result), "kept": kept.name, "name": name or "stdout"})
            if not place:
                kept.write_text(ran.stdout, encoding="utf-8")
            else:
                wanted.append(Wanted(slot.repo if name == place else slot.out, name, kept))
        (slot.graded / RULES).write_text(json.dumps(rules), encoding="utf-8")
        return collect(wanted)

    def _outcome(self, ran: Ran, **graded: Any) -> Outcome:
        facts: dict[str, Any] = {"status": ran.status, "feedback": ran.reason, **graded}
        return Outcome(
            **facts,
            stdout=ran.stdout,
            stderr=ran.stderr,
            seconds=ran.seconds,
            sandbox=self.sandbox.level,
        )

    def _judge(self, ran: Ran, verdict: Verdict, outputs: str, split: Split) -> Outcome:
        metrics = verdict.metrics
        if verdict.missing:
            return self._outcome(ran, status="no_metric", feedback=verdict.missing)
        if self.task.results:  # the files may hold times and paths
            outputs = value_hash(metrics)
        if why := verdict.broken or ("" if verdict.invalid else self._unnamed(metrics)):
            return self._ungraded(ran, why, outputs, split)
        if reason := verdict.invalid or self._broken(metrics, split):
            finite = {k: v for k, v in metrics.items() if math.isfinite(v)}
            return self._outcome(
                ran, status="invalid", feedback=reason, metrics=finite, outputs=outputs
            )
        return self._outcome(
            ran,
            metrics=metrics,
            utility=self.task.metric.utility(metrics[self.task.metric.name]),
            feedback=self.metric_line(metrics, split),
            outputs=outputs,
            flags=self._suspicions(metrics),
        )

    def _ungraded(self, ran: Ran, why: str, outputs: str, split: Split) -> Outcome:
        """The grader failed: on the baseline's outputs it is at fault, on later ones they are.

        Or else any candidate could end a run. It is not told why: that could quote hidden labels.
        """
        if split not in self.baseline:
            raise TaskError(f"{self.task.grader}: {why}")
        return self._outcome(
            ran,
            status="invalid",
            feedback="the outputs cannot be graded: their form is not that of the baseline's",
            outputs=outputs,
            flags=(f"grade.py failed on the outputs: {why}",),
        )

    def _unnamed(self, metrics: Mapping[str, float]) -> str:
        primary = self.task.metric.name
        return (
            ""
            if primary in metrics
            else f"grade() gave no {primary!r} (it gave {', '.join(metrics)}); "
            "correct it or `metric.name` in the task's YAML"
        )

    def _suspicions(self, metrics: Mapping[str, float]) -> tuple[str, ...]:
        """Values too good, or too exact, to be taken without a look."""
        metric = self.task.metric
        flags = [
            f"{k} is exactly {v:g}" for k, v in self.task.suspicious.items() if metrics.get(k) == v
        ]
        if metrics[metric.name] == metric.best:
            flags.append(f"{metric.name} is exactly the best possible, {metric.best:g}")
        return tuple(flags)

    def _broken(self, metrics: Mapping[str, float], split: Split) -> str:
        if odd := [f"{k} = {v}" for k, v in metrics.items() if not math.isfinite(v)]:
            return f"not a finite number: {', '.join(odd)}"
        reference = self.baseline.get(split, metrics)  # the baseline satisfies itself
        reasons = (c.broken(metrics, reference) for c in self.task.constraints)
        return "; ".join(r for r in reasons if r)

    def metric_line(self, metrics: Mapping[str, float], split: Split) -> str:
        """The one line an agent is told after a successful step."""
        metric = self.task.metric
        line = f"{metric.name} = {metrics[metric.name]:.6g} ({metric.direction} is better"
        if split in self.baseline:
            line += f"; baseline {self.baseline[split][metric.name]:.6g}"
        others = [f"{k} = {v:.6g}" for k, v in metrics.items() if k != metric.name]
        return "; ".join([f"{line})", *others])


def _gpus(task: TaskSpec, report: Callable[[str], None]) -> Gpus:
    gpus = Gpus.find(task.resources.gpus, task.resources.require)
    if gpus.missing:
        report(gpus.missing)
        log.warning("task %s: %s", task.name, gpus.missing)
    return gpus
