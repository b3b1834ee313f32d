"""The one loop that watches a running command: output, end, deadline, limits.

Not here: how a level starts a command, names what belongs to it, and ends it (`Group`).
"""

import os
import selectors
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import psutil

from fml_hydra.sandbox.base import Completed, Follower, Killed, Limits
from fml_hydra.sandbox.output import Capture
from fml_hydra.sandbox.usage import disk_bytes, machine_tasks, memory_bytes, volume_bytes

LOOK = 0.25
"""Seconds between two looks at what the tree uses; looking may take a tenth of the time."""
_TICK = 0.05
"""Seconds between two glances at how many tasks the machine has: a fork bomb cannot wait."""
_TICK_WITHOUT_PIDFD = 0.02
_CHUNK = 1 << 16
_MB = 1 << 20


class Group(Protocol):
    """Everything one command started."""

    def crowd(self, enough: int) -> int:
        """How many processes at least, fast; may stop counting beyond `enough`."""
        ...

    def members(self) -> list[psutil.Process]:
        """The processes alive now that count against the limits."""
        ...

    def volumes(self) -> Sequence[Path]:
        """Roots of file systems of its own, whose whole content counts as disk."""
        ...

    def kill(self) -> None:
        """End all of it and return when it is gone."""
        ...


def watch(
    process: subprocess.Popen[bytes], group: Group, writable: Sequence[Path], limits: Limits
) -> Completed:
    """Follow `process` (stdout and stderr piped) to its end or to a limit; then kill `group`.

    Whatever happens, also an exception, the group is killed before this returns.
    """
    started = time.monotonic()
    streams = _Streams(process, limits.output_kb * 1024, limits.follower)
    try:
        killed = _follow(process, streams, _Meter(group, writable, limits), started)
        seconds = time.monotonic() - started
    finally:
        group.kill()
        code = process.wait()
        streams.drain()
    code = code if code >= 0 else 128 - code
    out, err = (capture.text() for capture in streams.captures)
    return Completed(None if killed else code, out, err, seconds, killed)


def alive(process: psutil.Process) -> bool:
    """Whether this very process still runs (a zombie does not)."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _pidfd(pid: int) -> int | None:
    """A descriptor that becomes readable when process `pid` ends; None where there is none."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def _follow(
    process: subprocess.Popen[bytes], streams: "_Streams", meter: "_Meter", started: float
) -> Killed:
    deadline = started + meter.limits.seconds
    follower = meter.limits.follower
    look = started + LOOK
    ended = _pidfd(process.pid)
    tick = _TICK_WITHOUT_PIDFD if ended is None else _TICK
    if ended is not None:
        streams.selector.register(ended, selectors.EVENT_READ)
    try:
        while not _ended(process):
            now = time.monotonic()
            if now >= deadline:
                return "timeout"
            if follower and follower.stop():
                return "stopped"
            if now >= look or meter.crowded():
                if exceeded := meter.exceeded():
                    return exceeded
                after = time.monotonic()
                look = after + max(LOOK, 10 * (after - now))
            streams.read(max(0.0, min(deadline - now, look - now, tick)))
        return ""
    finally:
        if ended is not None:
            streams.selector.unregister(ended)
            os.close(ended)


def _ended(process: subprocess.Popen[bytes]) -> bool:
    """Whether it is over; not reaped yet, so that its number still means its process group."""
    try:
        over = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return True
    except AttributeError:  # macOS before Python 3.13
        return process.poll() is not None
    return over is not None


class _Streams:
    """Reads stdout and stderr as they come, without ever waiting for one of them."""

    def __init__(
        self, process: subprocess.Popen[bytes], cap: int, follower: Follower | None
    ) -> None:
        assert process.stdout is not None
        assert process.stderr is not None
        self.captures = (Capture(cap), Capture(cap))
        self._follower = follower
        self.selector = selectors.DefaultSelector()
        self._pipes = (process.stdout, process.stderr)
        for pipe, capture in zip(self._pipes, self.captures, strict=True):
            os.set_blocking(pipe.fileno(), False)
            self.selector.register(pipe.fileno(), selectors.EVENT_READ, capture)

    def read(self, timeout: float) -> bool:
        """Take what arrives within `timeout` seconds; False when nothing did."""
        got = False
        for key, _ in self.selector.select(timeout):
            if isinstance(key.data, Capture):
                chunk = os.read(key.fd, _CHUNK)
                key.data.feed(chunk)
                if self._follower and key.data is self.captures[0]:
                    self._follower.hear(chunk)
                got = True
                if not chunk:
                    self.selector.unregister(key.fd)
        return got

    def drain(self) -> None:
        """Take what is left in the pipes, for a second at most, and close them."""
        deadline = time.monotonic() + 1.0
        while self.read(0.0) and time.monotonic() < deadline:
            pass
        self.selector.close()
        for pipe in self._pipes:
            pipe.close()


class _Meter:
    """Compares what a group uses with its limits."""

    def __init__(self, group: Group, writable: Sequence[Path], limits: Limits) -> None:
        self.limits = limits
        self._group = group
        self._writable = writable
        self._before = [disk_bytes(folder, 1 << 62) for folder in writable]
        self._tasks = machine_tasks()

    def crowded(self) -> bool:
        """Whether the machine has so many more tasks that a look cannot wait; costs one read."""
        return machine_tasks() - self._tasks > self.limits.processes

    def exceeded(self) -> Killed:
        """The first limit that is exceeded now."""
        most = self.limits.processes
        if self._group.crowd(most) > most:
            return "processes"
        members = self._group.members()
        if len(members) > most:
            return "processes"
        memory = self.limits.memory_mb * _MB
        if memory_bytes(members, memory) > memory:
            return "memory"
        return "disk" if self._disk_exceeded() else ""

    def _disk_exceeded(self) -> bool:
        left = self.limits.disk_mb * _MB - sum(map(volume_bytes, self._group.volumes()))
        for folder, before in zip(self._writable, self._before, strict=True):
            left -= max(0, disk_bytes(folder, before + max(0, left)) - before)
        return left < 0
