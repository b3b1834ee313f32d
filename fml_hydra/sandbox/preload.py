"""Warm interpreters: where a task names heavy packages, its scripts start with them imported.

One per interpreter, packages and environment in this process, started when first needed and gone
with it. Not here: what a fork does to become a candidate (`forkserver`).
"""

import atexit
import json
import logging
import socket
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from fml_hydra.errors import SandboxError
from fml_hydra.sandbox.base import Limits
from fml_hydra.sandbox.launch import rlimits

log = logging.getLogger(__name__)
_IMPORTS = 120.0
"""Seconds the packages may take to be imported."""
_ENTERS = 30.0
"""Seconds a fork may take to join a sandbox."""
_SLOT_OWN = ("HOME", "TMPDIR")
"""Variables that differ from run to run; no package needs them while it is imported."""


class WarmPython:
    """An interpreter with packages imported, ready to be forked into sandboxes; thread-safe."""

    def __init__(self, python: str, modules: tuple[str, ...], env: Mapping[str, str]) -> None:
        self._jobs, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        server = Path(__file__).with_name("forkserver.py")
        with theirs:
            self._process = subprocess.Popen(
                [python, str(server), *modules],
                env=dict(env),
                cwd="/",
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        atexit.register(self.close)
        self._jobs.settimeout(_IMPORTS)
        try:
            ready = self._jobs.recv(64) == b"ready"
        except OSError as error:
            self.close()
            raise SandboxError(f"not ready after {_IMPORTS:g} s ({error})") from error
        if not ready:
            stderr = self._process.communicate()[1].decode(errors="replace").strip().splitlines()
            raise SandboxError(stderr[-1] if stderr else "it ended without a message")

    @property
    def alive(self) -> bool:
        """Whether it can still be forked."""
        return self._process.poll() is None

    def enter(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        cwd: str,
        limits: Limits,
        hold: socket.socket,
        pipes: int,
        first: int,
    ) -> int:
        """Fork into the namespaces of process `first`; the number of the fork, as seen from here.

        The fork runs `argv` (a script and its words) with the stdout and stderr of process `pipes`;
        its exit code is written to `hold`. Raises SandboxError when it cannot.
        """
        job = {
            "argv": list(argv),
            "env": dict(env),
            "cwd": cwd,
            "limits": rlimits(limits, others=0),
            "pipes": pipes,
            "first": first,
        }
        ours, theirs = socket.socketpair()
        with ours, theirs:
            fds = [theirs.fileno(), hold.fileno()]
            try:
                socket.send_fds(self._jobs, [json.dumps(job).encode()], fds)
                theirs.close()
                ours.settimeout(_ENTERS)
                told = ours.recv(4096).decode()
            except OSError as error:
                raise SandboxError(f"the warm interpreter does not answer: {error}") from error
        if not told.isdigit():
            raise SandboxError(f"the warm interpreter cannot enter: {told or 'it ended early'}")
        return int(told)

    def close(self) -> None:
        """Let it end."""
        self._jobs.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.communicate(timeout=5.0)
        self._process.kill()


def is_script(argv: Sequence[str], python: Path) -> bool:
    """Whether `argv` is `python SCRIPT.py ...` or `python -I SCRIPT.py ...`."""
    words = [word for word in argv[1:3] if word != "-I"]
    return argv[0] == str(python) and bool(words) and words[0].endswith(".py")


_lock = threading.Lock()
_started: dict[tuple[object, ...], WarmPython | None] = {}
"""What was started, or could not be, by interpreter, packages and environment."""


def warm_python(python: Path, modules: Sequence[str], env: Mapping[str, str]) -> WarmPython | None:
    """The warm interpreter for these packages; None, said once, when it does not work."""
    if not modules:
        return None
    fixed = {k: v for k, v in env.items() if k not in _SLOT_OWN}
    key = (python, *modules, *sorted(fixed.items()))
    with _lock:
        found = _started.get(key)
        if key not in _started or (found is not None and not found.alive):
            found = _started[key] = _start(str(python), tuple(modules), fixed)
    return found


def _start(python: str, modules: tuple[str, ...], env: Mapping[str, str]) -> WarmPython | None:
    try:
        return WarmPython(python, modules, env)
    except (SandboxError, OSError) as error:
        log.warning("%s starts without %s preloaded: %s", python, ", ".join(modules), error)
        return None
