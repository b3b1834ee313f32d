"""One evaluation: run the task's commands in the sandbox, grade their outputs outside it.

The answer is an `Outcome`; a candidate's failure is a result, a failure of the suite an exception.
Not here: budgets, journals, LLMs.
"""

import json
import math
import os
import shlex
import shutil
import stat
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from fml_hydra.data import Prepared, installed_copies
from fml_hydra.errors import InvalidOutput, TaskError
from fml_hydra.hashing import file_hash, text_hash
from fml_hydra.journal import Status
from fml_hydra.sandbox import Completed, Mount, Sandbox, SandboxPolicy
from fml_hydra.task import Command, Split, TaskSpec
from fml_hydra.workspace import Slot, Workspace

FEEDBACK_CHARS = 2500
"""How much of the head, and of the tail, of an error is kept as feedback."""
OUTPUT_BYTES = 256 * 2**20
"""Largest output file that is taken."""
GRADING_SECONDS = 120.0
"""How long grade.py may take."""
GRADING_MB = 4096
"""Memory grade.py may use."""
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
    ) -> None:
        self.task = task
        self.workspace = workspace
        self.sandbox = sandbox
        self.baseline: dict[Split, dict[str, float]] = {}
        """Baseline metrics by split, for constraints and feedback; set once they are measured."""
        self.data = data
        self._slots = slots
        self._policy = policy
        self._hidden = installed_copies(task.sources)

    def evaluate(self, files: Mapping[str, str], split: Split, shift: int = 0) -> Outcome:
        """Run and grade the pinned commit with `files` written over it.

        `shift` is added to the training seed of the split.

        Raises InfraError or SandboxError when it is our fault, TaskError when the task's own grader
        is broken: it cannot be loaded, or fails on the outputs of the baseline.
        """
        with self.workspace.slot(self._slots, files) as slot, _Grader(self.task.grader) as grader:
            ran = self._run_commands(slot, split, shift)
            if ran.status != "ok":
                return ran.outcome(self.sandbox.level)
            try:
                handed_in = _collect(slot, self.task.outputs)
            except InvalidOutput as error:
                missing = isinstance(error, MissingOutput)
                status = "no_metric" if missing else "invalid"
                return ran.outcome(self.sandbox.level, status=status, feedback=str(error))
            verdict = grader.grade(slot.graded, self.data.answers(split))
            return self._judge(ran, verdict, handed_in, split)

    def _run_commands(self, slot: Slot, split: Split, shift: int) -> _Ran:
        done: list[Completed] = []
        left = self.task.timeout
        for command in self.task.commands:
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
        repo, out, home = (self.sandbox.inside(mount) for mount in own)
        data = self.sandbox.inside(Mount(slot.data, "/task/data"))
        seed = str(getattr(self.task.seeds, split) + shift)
        words = {"python": sys.executable, "data": data, "out": out, "seed": seed}
        return self.sandbox.run(
            [word.format(**words) for word in shlex.split(command.run)],
            mounts=[*own, *parts],
            env=_environment(home, self.task.threads),
            cwd=repo,
            limits=self._policy.limits(max(seconds, 0.1), self.task.memory_mb),
            hidden=self._hidden,
            preload=self.task.preload,
        )

    def _verdict(self, slot: Slot, completed: Completed) -> tuple[Status, str]:
        if touched := self.workspace.touched(slot):
            return "protected", f"the code changed protected files: {', '.join(touched)}"
        if completed.killed == "timeout":
            limit = f"stopped after {self.task.timeout:g} s, the time limit of this task"
            return "timeout", _join(limit, completed.stderr)
        if completed.killed:
            return "crash", _join(f"killed: over the {completed.killed} limit", completed.stderr)
        if completed.code:
            return "crash", _join(f"exit code {completed.code}", completed.stderr)
        return "ok", ""

    def _judge(self, ran: _Ran, verdict: "_Verdict", outputs: str, split: Split) -> Outcome:
        level, metrics = self.sandbox.level, verdict.metrics
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


class MissingOutput(InvalidOutput):
    """A declared output was not written."""


@dataclass(frozen=True)
class _Verdict:
    """What the grader said; at most one of the fields is filled."""

    metrics: dict[str, float] = field(default_factory=dict)
    """All metrics."""
    invalid: str = ""
    """Why it refused the outputs."""
    broken: str = ""
    """How it failed itself."""


class _Grader:
    """A fresh interpreter, started while the candidate trains so that grading need not wait."""

    def __init__(self, script: Path) -> None:
        self._script = script
        child = Path(__file__).with_name("trusted.py")
        self._process = subprocess.Popen(
            [sys.executable, "-I", str(child), "grade", str(script), str(GRADING_MB)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PATH": os.defpath},
        )

    def __enter__(self) -> "_Grader":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def grade(self, outputs: Path, answers: Path) -> _Verdict:
        """The grader's answer; raises TaskError when grade.py cannot even be loaded."""
        job = {"outputs": str(outputs), "answers": str(answers)}
        try:
            stdout, stderr = self._process.communicate(json.dumps(job), timeout=GRADING_SECONDS)
        except subprocess.TimeoutExpired:
            return _Verdict(broken=f"grade() took over {GRADING_SECONDS:g} s")
        if self._process.returncode > 0:
            last = (stderr.strip().splitlines() or ["no message"])[-1]
            raise TaskError(f"{self._script}: {last}")
        if not stdout:
            return _Verdict(broken=f"grade() died (exit code {self._process.returncode})")
        answer = json.loads(stdout)
        metrics = {k: float(v) for k, v in answer.get("metrics", {}).items()}
        return _Verdict(metrics, answer.get("invalid", ""), answer.get("broken", ""))


def _exposed(slot: Slot, part: str, source: Path) -> Mount:
    link = slot.data / part
    if not link.is_symlink():
        link.symlink_to(source)
    return Mount(link, f"/task/data/{part}")


def _environment(home: str, threads: int) -> dict[str, str]:
    pools = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
    return {
        "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
        "HOME": home,
        "TMPDIR": home,
        "LANG": "C.UTF-8",
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        **dict.fromkeys(pools, str(threads)),
    }


def _collect(slot: Slot, names: Sequence[str]) -> str:
    """Copy the declared outputs out of the candidate's reach; returns their common hash."""
    hashes = []
    for name in names:
        copy = slot.graded / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        _copy_plain(slot.out, name, copy)
        hashes.append(f"{name} {file_hash(copy)}")
    return text_hash("\n".join(hashes))


def _copy_plain(folder: Path, name: str, copy: Path) -> None:
    try:
        source = _opened(folder, name)
    except (FileNotFoundError, NotADirectoryError):
        raise MissingOutput(f"the commands ended without writing {name}") from None
    except PermissionError:
        raise InvalidOutput(f"{name}: its permissions do not let it be read") from None
    with source, copy.open("wb") as file:
        shutil.copyfileobj(source, file, 2**20)


def _opened(folder: Path, name: str) -> BinaryIO:
    path = folder / name
    if any(p.is_symlink() for p in (path, *path.parents) if p.is_relative_to(folder)):
        raise InvalidOutput(f"{name}: a symbolic link is not accepted as an output")
    info = path.stat(follow_symlinks=False)
    if not stat.S_ISREG(info.st_mode):
        raise InvalidOutput(f"{name}: not a regular file")
    if info.st_size > OUTPUT_BYTES:
        raise InvalidOutput(f"{name}: {info.st_size} bytes, more than {OUTPUT_BYTES}")
    return path.open("rb")


def _join(reason: str, stderr: str) -> str:
    text = stderr.strip()
    if any(sign in text for sign in _OFFLINE):
        reason += " (the sandbox has no network)"
    if len(text) > 2 * FEEDBACK_CHARS:
        text = f"{text[:FEEDBACK_CHARS]}\n[...]\n{text[-FEEDBACK_CHARS:]}"
    return f"{reason}\n{text}" if text else reason
