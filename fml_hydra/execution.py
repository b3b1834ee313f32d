"""The commands of one evaluation, run in the sandbox: what they see and use, and how they ended.

Not here: what they handed in and what it is worth (evaluation).
"""

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from fml_hydra.data import Prepared
from fml_hydra.environment import Interpreter
from fml_hydra.errors import TaskError
from fml_hydra.gpus import Gpus
from fml_hydra.journal import Status
from fml_hydra.sandbox import Completed, Mount, Sandbox, SandboxPolicy
from fml_hydra.sandbox.interpreter import interpreter
from fml_hydra.task import TaskSpec
from fml_hydra.terms import Command, Split
from fml_hydra.trees import behind_link, clear
from fml_hydra.workspace import Slot, Workspace

FEEDBACK_CHARS = 2500
"""How much of the head, and of the tail, of an error is kept as feedback."""
_OFFLINE = (
    "Name or service not known",
    "Network is unreachable",
    "name resolution",
    "Failed to resolve",
)


@dataclass(frozen=True)
class Ran:
    """How the commands of an evaluation went."""

    done: tuple[Completed, ...]
    """What each one did, up to the first that failed."""
    status: Status
    """`ok` when all ended well and broke nothing."""
    reason: str
    """What an agent is told when they did not."""

    @property
    def stdout(self) -> str:
        """What they printed."""
        return "".join(c.stdout for c in self.done)

    @property
    def stderr(self) -> str:
        """What they printed as errors."""
        return "".join(c.stderr for c in self.done)

    @property
    def seconds(self) -> float:
        """Wall time, measured from outside."""
        return sum(c.seconds for c in self.done)


@dataclass(frozen=True)
class Execution:
    """Runs a task's commands in slots; thread-safe."""

    task: TaskSpec
    """Whose commands."""
    workspace: Workspace
    """Knows the protected files."""
    sandbox: Sandbox
    """Where they run."""
    policy: SandboxPolicy
    """With which limits."""
    python: Interpreter
    """Their Python."""
    data: Prepared
    """The parts a command may ask for."""
    mounts: Mapping[str, Path]
    """Folders and files by their place: in the repository, below `~/` or beside it (`../`)."""
    hidden: tuple[Path, ...]
    """What must stay unreadable wherever it is."""
    gpus: Gpus
    """What is leased while they run."""
    report: Callable[[str], None]
    """Hears when that has to be waited for."""

    def run(self, slot: Slot, split: Split, shift: int) -> Ran:
        """Run the commands for `split` one after the other, until one fails.

        Raises InfraError, SandboxError, or TaskError for data in an impossible place.
        """
        done: list[Completed] = []
        left = self.task.timeout
        mounts = [self._mounted(slot, *place) for place in self.mounts.items()]
        with self.gpus.lease(self.report) as devices:
            for command in self.task.commands_for(split):
                words = {"seed": str(getattr(self.task.seeds, split) + shift)}
                parts = [_exposed(slot, p, self.data.inputs(p, split)) for p in command.data]
                completed = self._command(slot, command, words, [*mounts, *parts], devices, left)
                done.append(completed)
                left -= completed.seconds
                status, reason = self._verdict(slot, completed)
                if status != "ok":
                    return Ran(tuple(done), status, reason)
        return Ran(tuple(done), "ok", "")

    def _command(
        self,
        slot: Slot,
        command: Command,
        words: Mapping[str, str],
        mounts: list[Mount],
        devices: Mapping[str, str],
        seconds: float,
    ) -> Completed:
        own = [
            Mount(slot.repo, "/task/repo", writable=True),
            Mount(slot.out, "/task/out", writable=True),
            Mount(slot.home, "/task/home", writable=True),
        ]
        repo, out, home = (self.sandbox.inside(mount) for mount in own)
        data = self.sandbox.inside(Mount(slot.data, "/task/data"))
        python = self.python.path
        words = {**words, "python": str(python), "data": data, "out": out}
        return self.sandbox.run(
            [word.format(**words) for word in shlex.split(command.run)],
            mounts=[*own, *mounts],
            env={**_environment(home, self.task.threads), **devices},
            cwd=repo,
            limits=self.policy.limits(max(seconds, 0.1), self.task.memory_mb),
            python=python,
            hidden=self.hidden,
            preload=self.task.preload,
        )

    def _mounted(self, slot: Slot, name: str, source: Path) -> Mount:
        """Data of this machine at a place: mounted, or where that cannot be, linked."""
        place = _place(slot, name)
        mount = Mount(source, f"/task/{place}")
        link = slot.root / place
        if self.sandbox.inside(mount) != mount.target and not link.is_symlink():
            if behind_link(slot.root, str(place.parent)):
                raise TaskError(
                    f"task {self.task.name}: {name} lies in other data; give it one place"
                )
            clear(slot.root, str(place))
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(source)
        return mount

    def _verdict(self, slot: Slot, completed: Completed) -> tuple[Status, str]:
        if touched := self.workspace.touched(slot):
            return "protected", f"the code changed protected files: {', '.join(touched)}"
        if moved := [n for n in self.mounts if _is_displaced(slot, n)]:
            return "protected", f"the code put a link where data lies: {', '.join(moved)}"
        if completed.killed == "timeout":
            limit = f"stopped after {self.task.timeout:g} s, the time limit of this task"
            return "timeout", _join(limit, self._anywhere(slot, completed.stderr))
        if completed.killed:
            limit = f"killed: over the {completed.killed} limit"
            return "crash", _join(limit, self._anywhere(slot, completed.stderr))
        if completed.code and (told := self._refusal(completed)):
            return "invalid", self._anywhere(slot, told)
        if completed.code:
            code = f"exit code {completed.code}"
            return "crash", _join(code, self._anywhere(slot, completed.stderr))
        return "ok", ""

    def _refusal(self, completed: Completed) -> str:
        """The line in which a command says that it does not accept a result; empty if none does."""
        lines = (*completed.stdout.splitlines(), *completed.stderr.splitlines())
        for pattern in map(re.compile, self.task.refused):
            if found := next((line for line in lines if pattern.search(line)), ""):
                return found.strip()[:FEEDBACK_CHARS]
        return ""

    def _anywhere(self, slot: Slot, text: str) -> str:
        """`text` with the places of this machine and this evaluation under constant names.

        An agent is told it, and the same seed is to make the same choices wherever things lie.
        """
        for prefix in interpreter(self.python.path).prefixes:
            if not prefix.is_relative_to("/usr"):
                text = text.replace(f"{prefix}/", "/python/")
        return text.replace(f"{slot.root}/", "/task/")


def _place(slot: Slot, name: str) -> Path:
    """Path below the slot's root of `data/raw`, `~/cache` or `../data/raw`."""
    for sign, base in (("~/", slot.home), ("../", slot.root)):
        if name.startswith(sign):
            return (base / name.removeprefix(sign)).relative_to(slot.root)
    return (slot.repo / name).relative_to(slot.root)


def _is_displaced(slot: Slot, name: str) -> bool:
    return behind_link(slot.root, str(_place(slot, name).parent))


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
