"""Which GPUs an evaluation gets: leases among all runs, slots and sweeps of one machine.

A lease is a lock on a file in a folder that all processes of the machine share, so it ends with
its holder, however that ends. Not here: what a sandbox shows of the devices.
"""

import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from fml_hydra.errors import InfraError, TaskError

VISIBLE = "CUDA_VISIBLE_DEVICES"
"""Variable that tells a program which GPUs there are for it."""
_ORDER = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
"""Lets a program number the GPUs as nvidia-smi does."""
_ASK = ("nvidia-smi", "--query-gpu=index", "--format=csv,noheader")
_ANSWER = 30.0
"""Seconds nvidia-smi may take."""
_POLL = 0.2
"""Seconds between two looks while all are taken."""
_WAITING = "waiting for a GPU"
Report = Callable[[str], None]


def present() -> tuple[str, ...]:
    """The GPUs of this process: those CUDA_VISIBLE_DEVICES names, or all that nvidia-smi knows."""
    named = os.environ.get(VISIBLE)
    if named is None:
        return _known()
    found: list[str] = []
    for name in (word.strip() for word in named.split(",")):
        if not name or name.startswith("-") or name == "NoDevFiles":
            break  # as CUDA does it: what comes after a name that is none does not count
        found.append(name)
    return tuple(dict.fromkeys(found))


def _known() -> tuple[str, ...]:
    try:
        told = subprocess.run(_ASK, capture_output=True, text=True, check=False, timeout=_ANSWER)
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return tuple(told.stdout.split()) if told.returncode == 0 else ()


@dataclass(frozen=True)
class Gpus:
    """What one evaluation of a task gets."""

    wanted: int = 0
    """How many the task asks for."""
    names: tuple[str, ...] = ()
    """Those of this process; empty when the task asks for none."""

    @classmethod
    def find(cls, wanted: int, require: bool) -> "Gpus":
        """What is there for a task; raises TaskError when it requires more."""
        found = cls(wanted, present() if wanted else ())
        if require and found.missing:
            raise TaskError(
                f"resources.require: {found.missing}; start it on another machine, or override "
                "task.resources.require=false or task.resources.gpus"
            )
        return found

    @property
    def count(self) -> int:
        """How many an evaluation gets."""
        return min(self.wanted, len(self.names))

    @property
    def missing(self) -> str:
        """What is not as the task wants it, in words; empty when it is."""
        if self.count == self.wanted:
            return ""
        there = f"only {self.count}" if self.count else "none, so the CPU is used"
        return (
            f"the task wants {self.wanted} GPU{'s' * (self.wanted > 1)}, this process has {there}"
        )

    @contextmanager
    def lease(self, report: Report = lambda _: None) -> Iterator[dict[str, str]]:
        """Hold them alone; gives the variables that show a program just these.

        While others have them it says so through `report` and waits as long as it takes. One at a
        time gathers, the rest queue: who wants two is not overtaken for ever by those who want one,
        and no two who have one each wait for one another. Raises InfraError.
        """
        with ExitStack() as held:
            yield self._gathered(held, report)

    def _gathered(self, held: ExitStack, report: Report) -> dict[str, str]:
        if not self.count:
            return {VISIBLE: ""} if self.wanted else {}
        try:
            folder = _folder()
            with _turn(folder, report):
                got = self._taken(folder, held, report)
        except OSError as error:
            raise InfraError(f"a GPU cannot be leased: {error}") from error
        return {VISIBLE: ",".join(got), **_ORDER}

    def _taken(self, folder: Path, held: ExitStack, report: Report) -> list[str]:
        got: list[str] = []
        waited = False
        while True:
            for name in self.names:
                if len(got) < self.count and name not in got and _take(folder, name, held):
                    got.append(name)
            if len(got) == self.count:
                if waited:
                    report(f"evaluating on GPU {', '.join(got)}")
                return got
            if not waited:
                report(_WAITING)
                waited = True
            time.sleep(_POLL)


def _folder() -> Path:
    """Where the locks are, open to all users of the machine: they are empty files."""
    folder = Path(tempfile.gettempdir()) / "fml_hydra-gpus"
    if not folder.is_dir():
        folder.mkdir(exist_ok=True)
        folder.chmod(0o777)
    return folder


@contextmanager
def _turn(folder: Path, report: Report) -> Iterator[None]:
    """Be the one that gathers."""
    queue = _lock(folder, "queue")
    try:
        queue.acquire(blocking=False)
    except Timeout:
        report(_WAITING)
        queue.acquire(poll_interval=_POLL)
    try:
        yield
    finally:
        queue.release()


def _take(folder: Path, name: str, held: ExitStack) -> bool:
    try:
        held.enter_context(_lock(folder, f"gpu-{name.replace('/', '-')}").acquire(blocking=False))
    except Timeout:
        return False
    return True


def _lock(folder: Path, name: str) -> FileLock:
    return FileLock(folder / f"{name}.lock", mode=0o666)
