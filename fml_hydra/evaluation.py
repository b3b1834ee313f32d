"""One evaluation: run the task's commands in the sandbox, grade their outputs outside it.

The answer is an `Outcome`; a candidate's failure is a result, a failure of the suite an exception.
Not here: budgets, journals, LLMs.
"""

import json
import math
import shlex
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from fml_hydra.data import Prepared, installed_copies, prepare
from fml_hydra.environment import Interpreter, ready_python
from fml_hydra.errors import InvalidOutput, MissingOutput, TaskError
from fml_hydra.grading import Grader, Verdict
from fml_hydra.handed_in import Wanted, collect
from fml_hydra.hashing import value_hash
from fml_hydra.journal import Status
from fml_hydra.postprocess import RULES
from fml_hydra.sandbox import Completed, Mount, Sandbox, SandboxPolicy, open_sandbox
from fml_hydra.sandbox.interpreter import interpreter
from fml_hydra.task import TaskSpec
from fml_hydra.terms import OUT, Command, Split
from fml_hydra.workspace import Slot, Workspace, remove_tree

FEEDBACK_CHARS = 2500
"""How much of the head, and of the tail, of an error is kept as feedback."""
_OFFLINE = (
    "Name or service not known",
    "Network is unreachable",
    "name resolution",
    "Failed to resolve",
)


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


@dataclass(frozen=True)
class _Ran:
    """What the commands left behind."""

    done: tuple[Completed, ...]
    status: Status
    reason: str

    def outcome(self, level: str, **graded: object) -> Outcome:
        base = Outcome(
            self.status,
            feedback=self.reason,
            stdout="".join(c.stdout for c in self.done),
            stderr="".join(c.stderr for c in self.done),
            seconds=sum(c.seconds for c in self.done),
            sandbox=level,
        )
        return Outcome(**{**base.__dict__, **graded})


class Evaluator:
    """Evaluates code states of one task; thread-safe."""

    def __init__(
        self,
        task: TaskSpec,
        workspace: Workspace,
        sandbox: Sandbox,
        data: Prepared,
        slots: Path,
        policy: SandboxPolicy,
        python: Interpreter,
    ) -> None:
        self.task = task
        self.workspace = workspace
        self.sandbox = sandbox
        self.baseline: dict[Split, dict[str, float]] = {}
        """Baseline metrics by split, for constraints and feedback; set once they are measured."""
        self.data = data
        self.python = python
        self._slots = slots
        self._policy = policy
        self._hidden = installed_copies(task.sources)

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
        sandbox = open_sandbox(policy)
        python = ready_python(task.env, task.dir, cache, report)
        report("preparing data")
        data = prepare(task.preparer, task.sources, cache, report)
        workspace = Workspace.open(task.repo, task.protected, cache)
        remove_tree(slots)  # left over from a kill
        return cls(task, workspace, sandbox, data, slots, policy, python)

    def evaluate(self, files: Mapping[str, str], split: Split, shift: int = 0) -> Outcome:
        """Run and grade the pinned commit with `files` written over it.

        `shift` is added to the training seed of the split. Raises InfraError or SandboxError when
        it is our fault, TaskError when the task's own grader is broken: it cannot be loaded, or
        fails on the outputs of the baseline.
        """
        with self.workspace.slot(self._slots, files) as slot, Grader(self.task.grader) as grader:
            self._clear(slot)
            ran = self._run_commands(slot, split, shift)
            if ran.status != "ok":
                return ran.outcome(self.sandbox.level)
            try:
                handed_in = self._collect(slot, ran)
            except InvalidOutput as error:
                missing = isinstance(error, MissingOutput)
                status = "no_metric" if missing else "invalid"
                return ran.outcome(self.sandbox.level, status=status, feedback=str(error))
            verdict = grader.grade(slot.graded, self.data.answers(split))
            return self._judge(ran, verdict, handed_in, split)

    def _clear(self, slot: Slot) -> None:
        """Results that came with the repository are not this evaluation's."""
        for result in self.task.results:
            if result.file and not result.file.startswith(OUT):
                (slot.repo / result.file).unlink(missing_ok=True)

    def _collect(self, slot: Slot, ran: "_Ran") -> str:
        """Take what is to be graded; returns the common hash."""
        if not self.task.results:
            outputs = self.task.outputs
            return collect([Wanted(slot.out, name, slot.graded / name) for name in outputs])
        wanted, rules, printed = [], [], ran.outcome("").stdout
        for number, result in enumerate(self.task.results):
            kept = slot.graded / str(number)
            name = result.file.removeprefix(OUT)
            rules.append({**asdict(result), "kept": kept.name, "name": name or "stdout"})
            if not result.file:
                kept.write_text(printed, encoding="utf-8")
            else:
                folder = slot.repo if name == result.file else slot.out
                wanted.append(Wanted(folder, name, kept))
        (slot.graded / RULES).write_text(json.dumps(rules), encoding="utf-8")
        return collect(wanted)

    def _run_commands(self, slot: Slot, split: Split, shift: int) -> _Ran:
        done: list[Completed] = []
        left = self.task.timeout
        for command in self.task.commands_for(split):
            completed = self._run(slot, command, split, shift, left)
            done.append(completed)
            left -= completed.seconds
            status, reason = self._verdict(slot, completed)
            if status != "ok":
                return _Ran(tuple(done), status, reason)
        return _Ran(tuple(done), "ok", "")

    def _run(
        self, slot: Slot, command: Command, split: Split, shift: int, seconds: float
    ) -> Completed:
        parts = [_exposed(slot, part, self.data.inputs(part, split)) for part in command.data]
        own = [
            Mount(slot.repo, "/task/repo", writable=True),
            Mount(slot.out, "/task/out", writable=True),
            Mount(slot.home, "/task/home", writable=True),
        ]
        parts += [self._mounted(slot, *place) for place in self.task.mounts.items()]
        repo, out, home = (self.sandbox.inside(mount) for mount in own)
        data = self.sandbox.inside(Mount(slot.data, "/task/data"))
        seed = str(getattr(self.task.seeds, split) + shift)
        python = self.python.path
        words = {"python": str(python), "data": data, "out": out, "seed": seed}
        return self.sandbox.run(
            [word.format(**words) for word in shlex.split(command.run)],
            mounts=[*own, *parts],
            env=_environment(home, self.task.threads),
            cwd=repo,
            limits=self._policy.limits(max(seconds, 0.1), self.task.memory_mb),
            python=python,
            hidden=self._hidden,
            preload=self.task.preload,
        )

    def _mounted(self, slot: Slot, place: str, folder: Path) -> Mount:
        """A folder of this machine in the repository: mounted, or where that cannot be, linked."""
        mount = Mount(folder, f"/task/repo/{place}")
        link = slot.repo / place
        if self.sandbox.inside(mount) != mount.target and not link.is_symlink():
            remove_tree(link)
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(folder)
        return mount

    def _verdict(self, slot: Slot, completed: Completed) -> tuple[Status, str]:
        if touched := self.workspace.touched(slot):
            return "protected", f"the code changed protected files: {', '.join(touched)}"
        if completed.killed == "timeout":
            limit = f"stopped after {self.task.timeout:g} s, the time limit of this task"
            return "timeout", _join(limit, self._anywhere(slot, completed.stderr))
        if completed.killed:
            limit = f"killed: over the {completed.killed} limit"
            return "crash", _join(limit, self._anywhere(slot, completed.stderr))
        if completed.code:
            code = f"exit code {completed.code}"
            return "crash", _join(code, self._anywhere(slot, completed.stderr))
        return "ok", ""

    def _anywhere(self, slot: Slot, text: str) -> str:
        """`text` with the places of this machine and this evaluation under constant names.

        An agent is told it, and the same seed is to make the same choices wherever things lie.
        """
        for prefix in interpreter(self.python.path).prefixes:
            if not prefix.is_relative_to("/usr"):
                text = text.replace(f"{prefix}/", "/python/")
        return text.replace(f"{slot.root}/", "/task/")

    def _judge(self, ran: _Ran, verdict: Verdict, outputs: str, split: Split) -> Outcome:
        level, metrics = self.sandbox.level, verdict.metrics
        if verdict.missing:
            return ran.outcome(level, status="no_metric", feedback=verdict.missing)
        if self.task.results:  # the files may hold times and paths
            outputs = value_hash(metrics)
        if why := verdict.broken or ("" if verdict.invalid else self._unnamed(metrics)):
            return self._ungraded(ran, why, outputs, split)
        if reason := verdict.invalid or self._broken(metrics, split):
            finite = {k: v for k, v in metrics.items() if math.isfinite(v)}
            return ran.outcome(
                level, status="invalid", feedback=reason, metrics=finite, outputs=outputs
            )
        return ran.outcome(
            level,
            metrics=metrics,
            utility=self.task.metric.utility(metrics[self.task.metric.name]),
            feedback=self.metric_line(metrics, split),
            outputs=outputs,
            flags=self._suspicions(metrics),
        )

    def _ungraded(self, ran: _Ran, why: str, outputs: str, split: Split) -> Outcome:
        """The grader failed: on the baseline's outputs it is at fault, on later ones they are.

        Or else any candidate could end a run. It is not told why: that could quote hidden labels.
        """
        if split not in self.baseline:
            raise TaskError(f"{self.task.grader}: {why}")
        return ran.outcome(
            self.sandbox.level,
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


def _exposed(slot: Slot, part: str, source: Path) -> Mount:
    link = slot.data / part
    if not link.is_symlink():
        link.symlink_to(source)
    return Mount(link, f"/task/data/{part}")


def _environment(home: str, threads: int) -> dict[str, str]:
    """What a command gets beside the constants of the sandbox."""
    pools = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
    return {
        "HOME": home,
        "TMPDIR": home,
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        **dict.fromkeys(pools, str(threads)),
    }


def _join(reason: str, stderr: str) -> str:
    text = stderr.strip()
    if any(sign in text for sign in _OFFLINE):
        reason += " (the sandbox has no network)"
    if len(text) > 2 * FEEDBACK_CHARS:
        text = f"{text[:FEEDBACK_CHARS]}\n[...]\n{text[-FEEDBACK_CHARS:]}"
    return f"{reason}\n{text}" if text else reason
