"""The fallback level: a plain process with limits, for machines where nothing better works.

Keeps: a clean environment, limits, and the end of everything a command started. Does NOT keep:
files (a command reads and writes what our user can), the network, other processes. A grandchild
that leaves its session, empties its environment and loses its parent between two looks gets away.
Use it for code you would run yourself.
"""

import logging
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from fml_hydra.errors import SandboxError
from fml_hydra.sandbox.base import Completed, Level, Limits, Mount, environment
from fml_hydra.sandbox.launch import limited, spawn
from fml_hydra.sandbox.usage import machine_tasks
from fml_hydra.sandbox.watch import alive, watch

log = logging.getLogger(__name__)

TOKEN = "FML_HYDRA_RUN"
"""Environment variable by which the descendants of one command are found."""
_PATIENCE = 10.0
"""Seconds the end of everything may take."""


class PlainProcess:
    """Runs commands as processes of our own user."""

    @property
    def level(self) -> Level:
        """The weakest one."""
        return "process"

    def inside(self, mount: Mount) -> str:
        """The real path: nothing is mounted."""
        return str(mount.source)

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
        """See `Sandbox.run`; `hidden` and read-only mounts cannot be enforced, `preload` is not."""
        for mount in mounts:
            if not mount.source.exists():
                raise SandboxError(f"nothing to mount at {mount.source}")
        token = secrets.token_hex(16)
        with tempfile.TemporaryDirectory(prefix="fml-", ignore_cleanup_errors=True) as scratch:
            variables = environment(python, scratch, scratch, env) | {TOKEN: token}
            process = spawn(limited(argv, limits, others=machine_tasks()), variables, cwd)
            writable = [mount.source for mount in mounts if mount.writable]
            return watch(process, _Family(process, token), [*writable, Path(scratch)], limits)


class _Family:
    """What descends from one process: by parentage, by group, by a token in the environment."""

    def __init__(self, process: subprocess.Popen[bytes], token: str) -> None:
        self._process = process
        self._needle = f"{TOKEN}={token}".encode()
        self._seen: set[psutil.Process] = set()

    def crowd(self, enough: int) -> int:
        """Those still in its session."""
        found = 0
        for pid in psutil.pids():
            with suppress(OSError):
                found += os.getsid(pid) == self._process.pid
            if found > enough:
                break
        return found

    def members(self) -> list[psutil.Process]:
        """Those alive, the ones met earlier included (parents and environments can be shed)."""
        self._seen.update(_descendants(self._process.pid), _carriers(self._needle))
        return [process for process in self._seen if alive(process)]

    def volumes(self) -> Sequence[Path]:
        """None of its own."""
        return ()

    def kill(self) -> None:
        """Kill until a sweep finds nobody; says so in the log when that takes too long."""
        deadline = time.monotonic() + _PATIENCE
        while left := self._strike():
            if time.monotonic() > deadline:
                log.warning("%d processes of a candidate could not be killed", len(left))
                return
            time.sleep(0.002)

    def _strike(self) -> list[psutil.Process]:
        if self._process.returncode is None:  # not reaped: the group's number is still its own
            with suppress(OSError):
                os.killpg(self._process.pid, signal.SIGKILL)
        left = self.members()
        for process in left:
            with suppress(psutil.Error):
                process.kill()
        return left


def _descendants(pid: int) -> list[psutil.Process]:
    try:
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    except psutil.Error:
        return []


def _carriers(needle: bytes) -> Iterator[psutil.Process]:
    for pid in psutil.pids():
        with suppress(OSError, psutil.Error):  # gone, another user's, or no /proc as on macOS
            if needle in Path(f"/proc/{pid}/environ").read_bytes():
                yield psutil.Process(pid)
