"""The sandbox contract: a command, what it may see, what it may use, and what came of it.

Not here: how a level keeps its promises (`bubblewrap`, `process`), which level is used (`choose`),
and what a result means for an experiment (a crash of a candidate is a result, not an error).
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

Level = Literal["process", "bubblewrap"]
LEVELS: tuple[Level, ...] = ("process", "bubblewrap")
"""Weakest first."""

Killed = Literal["", "timeout", "memory", "processes", "disk", "stopped"]


@dataclass(frozen=True)
class Mount:
    """One file or folder a candidate may see."""

    source: Path
    """Where it lies on this machine; must exist."""
    target: str
    """Absolute path under which a candidate sees it, where the level can do that."""
    writable: bool = False
    """Whether a candidate may change it; only `bubblewrap` enforces a False."""


class Follower(Protocol):
    """Hears what a command prints as it comes, and may end it: a limit only the caller knows."""

    def hear(self, chunk: bytes) -> None:
        """The next bytes of stdout; called from the thread that called `Sandbox.run`."""
        ...

    def stop(self) -> bool:
        """Whether the command is to be ended now; asked many times a second."""
        ...


@dataclass(frozen=True)
class Limits:
    """What one command and everything it starts may use."""

    seconds: float
    """Wall time."""
    memory_mb: int = 4096
    """Memory of the whole process tree, and the data segment of each process."""
    processes: int = 256
    """Processes alive at once (threads do not count)."""
    disk_mb: int = 2048
    """Growth of the writable mounts plus temporary files; an entry counts 4 KiB at least."""
    open_files: int = 4096
    """File descriptors of each process."""
    output_kb: int = 256
    """Bytes kept of stdout and of stderr, half from the beginning and half from the end."""
    follower: Follower | None = None
    """Follows the command while it runs."""


@dataclass(frozen=True)
class Completed:
    """What a command did."""

    code: int | None
    """Exit code, 128 + n after signal n; None when a limit ended it."""
    stdout: str
    """Cleaned and capped text."""
    stderr: str
    """Cleaned and capped text."""
    seconds: float
    """Wall time until it ended or was ended."""
    killed: Killed
    """The limit that ended it; empty when it ended by itself."""


class Sandbox(Protocol):
    """Runs commands nobody has read; safe to use from several threads at once."""

    @property
    def level(self) -> Level:
        """How much is promised."""
        ...

    def inside(self, mount: Mount) -> str:
        """The path under which a command finds `mount`."""
        ...

    def run(
        self,
        argv: Sequence[str],
        mounts: Sequence[Mount],
        env: Mapping[str, str],
        cwd: str,
        limits: Limits,
        python: Path = Path(sys.executable),
        hidden: Sequence[Path] = (),
        preload: Sequence[str] = (),
    ) -> Completed:
        """Run `argv` in `cwd` (a path as seen inside) and end everything it started.

        The command sees `mounts`, the interpreter `python` (first on its PATH) and what that needs,
        and no environment but `env` and a few constants. `hidden` files and folders stay unreadable
        even inside what is mounted. A script of `python` may be started with the packages `preload`
        already imported, where the level can do that; nothing else changes. Raises SandboxError
        when the command could not be started.
        """
        ...


def environment(python: Path, home: str, tmp: str, extra: Mapping[str, str]) -> dict[str, str]:
    """The whole environment of a command: nothing is inherited from ours; `extra` wins."""
    return {
        "PATH": f"{python.parent.absolute()}:/usr/local/bin:/usr/bin:/bin",
        "HOME": home,
        "TMPDIR": tmp,
        "USER": "sandbox",
        "LOGNAME": "sandbox",
        "LANG": "C.UTF-8",
        **extra,
    }
