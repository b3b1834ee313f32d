"""The one place an external program asks: a unix socket, one JSON line in, one JSON line out.

Calls wait in a queue until the run's own thread takes them, so two at once are served one after the
other. Not here: what an answer says (`agents.external`), what the asker runs (`client`).
"""

import json
import queue
import select
import shutil
import socket
import socketserver
import sys
import tempfile
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from fml_hydra.errors import InfraError

LINE_BYTES = 1 << 16
"""Longest request that is read."""
PATIENCE = 10.0
"""Seconds a caller may take to send its request."""
CALLERS = 32
"""Callers that may wait at once; nobody honest has more than a few."""
PATH_BYTES = 100
"""Longest socket path: the kernel's limit is 108 on Linux, 104 on macOS."""
_PARTS = ("client.py",)


class Call:
    """One request that waits for its answer."""

    def __init__(self, request: Mapping[str, Any], connection: socket.socket) -> None:
        self.do = str(request.get("do", ""))
        """evaluate or status."""
        self.note = str(request.get("note", ""))
        """What the agent says of its change."""
        self._connection = connection
        self._answer: dict[str, Any] | None = None
        self._answered = threading.Event()

    def abandoned(self) -> bool:
        """Whether nobody waits for the answer any more."""
        try:
            readable, _, _ = select.select([self._connection], [], [], 0)
            return bool(readable) and self._connection.recv(1, socket.MSG_PEEK) == b""
        except (OSError, ValueError):
            return True

    def answer(self, answer: dict[str, Any]) -> None:
        """Give the answer; the first one counts."""
        self._answer = self._answer or answer
        self._answered.set()

    def wait(self) -> dict[str, Any]:
        """The answer, when it is there."""
        self._answered.wait()
        return self._answer or {}


class Endpoint:
    """Listens in a short folder of its own, which also holds what the program is given."""

    def __init__(self) -> None:
        self.folder = _short_folder()
        """Mounted into the program's sandbox."""
        self._calls: queue.SimpleQueue[Call] = queue.SimpleQueue()
        self._waiting: set[Call] = set()
        self._closed = False
        try:
            self._server = _Server(str(self.address))
        except OSError as error:
            raise InfraError(f"{self.address}: no socket can be made ({error.strerror})") from error
        self._server.endpoint = self
        threading.Thread(
            target=self._server.serve_forever, args=(0.05,), name="endpoint", daemon=True
        ).start()

    @property
    def address(self) -> Path:
        """Where it listens."""
        return self.folder / "socket"

    def equip(self, inside: str, texts: Mapping[str, str]) -> None:
        """Write the client, the command `fml-eval` and `texts` for a program that sees `inside`."""
        for name in _PARTS:
            shutil.copy(Path(__file__).with_name(name), self.folder / name)
        command = self.folder / "fml-eval"
        command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I "{inside}/client.py" "$@"\n')
        command.chmod(0o755)
        for name, text in texts.items():
            (self.folder / name).write_text(text)

    def next(self, seconds: float) -> Call | None:
        """The next call somebody still waits for; None when none comes in time."""
        with suppress(queue.Empty):
            call = self._calls.get(timeout=seconds)
            if not call.abandoned():
                return call
            call.answer({"error": "nobody waits"})
        return None

    def close(self) -> None:
        """Turn everybody away and remove the folder."""
        self._closed = True
        self._server.shutdown()
        self._server.server_close()
        for call in list(self._waiting):
            call.answer({"error": "the run is over"})
        shutil.rmtree(self.folder, ignore_errors=True)

    def take(self, line: bytes, connection: socket.socket) -> dict[str, Any]:
        """The answer to one request; returns when the run's thread has given it."""
        try:
            request = json.loads(line)
        except (ValueError, RecursionError):
            request = None
        if not isinstance(request, dict) or request.get("do") not in ("evaluate", "status"):
            return {"error": 'not a request: one JSON line, {"do": "evaluate", "note": "..."}'}
        call = Call(request, connection)
        self._waiting.add(call)
        try:
            if self._closed:
                return {"error": "the run is over"}
            self._calls.put(call)
            return call.wait()
        finally:
            self._waiting.discard(call)


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    request_queue_size = CALLERS
    endpoint: Endpoint

    def __init__(self, path: str) -> None:
        self._room = threading.BoundedSemaphore(CALLERS)
        super().__init__(path, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """A thread for the caller; one too many is hung up on."""
        if self._room.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve one caller, then make room."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: object, client_address: object) -> None:
        """A caller that hangs up is no error of ours."""


class _Handler(socketserver.StreamRequestHandler):
    timeout = PATIENCE

    def handle(self) -> None:
        server = self.server
        assert isinstance(server, _Server)
        with suppress(OSError):
            line = self.rfile.readline(LINE_BYTES)
            answer = server.endpoint.take(line, self.connection)
            self.wfile.write(json.dumps(answer).encode() + b"\n")


def _short_folder() -> Path:
    for parent in (None, "/tmp"):
        folder = Path(tempfile.mkdtemp(prefix="fml-", dir=parent))
        if len(str(folder / "socket").encode()) <= PATH_BYTES:
            return folder
        folder.rmdir()
    raise InfraError(f"{folder}: too long a path for a socket; set TMPDIR to a shorter one")
