"""One launch of a program: runs in the sandbox in a thread of its own, its events on disk.

Not here: when it is to be stopped, and what its end means (`agents.external`).
"""

import json
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fml_hydra.errors import InfraError, SandboxError
from fml_hydra.external.programs import Launch, Program, Told
from fml_hydra.sandbox import Completed, Limits, Mount, Sandbox

LINE_BYTES = 4 << 20
"""Longest event that is read."""
FILE_BYTES = 256 << 20
"""How much of an event stream is kept."""


@dataclass(frozen=True)
class Room:
    """Where a program is run."""

    sandbox: Sandbox
    """Behind which walls."""
    mounts: Sequence[Mount]
    """What it sees."""
    cwd: str
    """Where it starts, as it sees it."""
    env: dict[str, str]
    """What it is told by the environment."""
    hidden: Sequence[Path] = ()
    """What stays unreadable all the same."""


class Running:
    """A started program."""

    def __init__(self, program: Program, events: Path) -> None:
        self._stream = _Stream(program, events)
        self._reason = ""
        self._completed: Completed | None = None
        self._failure: Exception | None = None
        self._thread: threading.Thread | None = None

    def start(self, room: Room, launch: Launch, limits: Limits) -> None:
        """Start it; returns at once."""

        def work() -> None:
            try:
                env = {**room.env, **launch.env}
                self._completed = room.sandbox.run(
                    launch.argv, room.mounts, env, room.cwd, limits, hidden=room.hidden
                )
            except Exception as error:  # noqa: BLE001  # raised again by `ended`, in the run's thread
                self._failure = error

        self._thread = threading.Thread(target=work, name="program", daemon=True)
        self._thread.start()

    def hear(self, chunk: bytes) -> None:
        """Take in what it printed; for the sandbox."""
        self._stream.feed(chunk)

    def stop(self) -> bool:
        """Whether it is to end; for the sandbox."""
        return bool(self._reason)

    def end(self, reason: str) -> None:
        """Ask for its end if it still runs; the first reason counts."""
        if self.alive:
            self._reason = self._reason or reason

    def join(self) -> None:
        """Wait until it is gone, with everything it started."""
        if self._thread is not None:
            self._thread.join()
        self._stream.close()

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return self._thread is not None and self._thread.is_alive()

    @property
    def reason(self) -> str:
        """Why it was ended by us; empty when it was not."""
        return self._reason

    def ended(self) -> Completed:
        """How it ended, once it has; raises what kept it from starting."""
        if self._failure is not None:
            raise self._failure
        if self._completed is None:
            raise SandboxError("the program has not ended")
        return self._completed

    def quiet(self) -> float:
        """Seconds since its last event, or its start."""
        return time.monotonic() - self._stream.last

    def touch(self) -> None:
        """Count its silence from now on: it waited for us until now."""
        self._stream.last = time.monotonic()

    def told(self) -> Told:
        """What its stream has said so far; a copy."""
        return self._stream.told()


class _Stream:
    """Keeps a stream on disk and folds it, line by line."""

    def __init__(self, program: Program, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("wb")
        self._fold = Fold(program)
        self._room = FILE_BYTES
        self._lock = threading.Lock()
        self.last = time.monotonic()

    def feed(self, chunk: bytes) -> None:
        with self._lock:
            self.last = time.monotonic()
            kept = chunk[: self._room]
            self._room -= len(kept)
            try:
                self._file.write(kept)
                self._file.flush()
            except OSError as error:
                raise InfraError(f"{self._file.name}: {error.strerror}") from error
            self._fold.feed(chunk)

    def told(self) -> Told:
        with self._lock:
            return replace(self._fold.told, said=list(self._fold.told.said), parts={})

    def close(self) -> None:
        with self._lock:
            self._file.close()


class Fold:
    """Events from bytes: one JSON object per line, whatever else is printed is passed over."""

    def __init__(self, program: Program) -> None:
        self.told = Told()
        """What has been said so far."""
        self._program = program
        self._rest = b""

    def feed(self, chunk: bytes) -> None:
        """The next bytes."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        self._rest = self._rest[-LINE_BYTES:]
        for line in lines:
            if line.lstrip().startswith(b"{"):
                self._take(line)

    def _take(self, line: bytes) -> None:
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            return
        self._program.read(event, self.told)


def read_back(program: Program, path: Path) -> Told:
    """What the stream of an earlier launch has said."""
    fold = Fold(program)
    if path.exists():
        fold.feed(path.read_bytes() + b"\n")
    return fold.told
