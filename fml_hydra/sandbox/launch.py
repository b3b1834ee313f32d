"""Starting a command with limits of its own, without Python code between fork and exec.

Not for limits of a whole process tree: no such rlimit exists, `watch` looks after those.
"""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from fml_hydra.errors import SandboxError
from fml_hydra.sandbox.base import Limits

# `preexec_fn` is not safe in a program with threads; a shell sets limits in a millisecond. A limit
# that cannot be set is tighter already. dash spells the number of processes -p, other shells -u.
_SCRIPT = """{ ulimit -c 0; ulimit -n "$1"; ulimit -f "$2"; ulimit -d "$3"
ulimit -u "$4" || ulimit -p "$4"; } 2>/dev/null; shift 4; exec "$@" """

_TASKS_PER_PROCESS = 16


def limited(argv: Sequence[str], limits: Limits, others: int) -> list[str]:
    """`argv` with rlimits around it; hard ones, so that it cannot raise them.

    The kernel counts threads, and with them the `others` the user may have outside: so the number
    of tasks is only a generous stop for a fork bomb between two looks. Root is not held by it.
    """
    tasks = str(limits.processes * _TASKS_PER_PROCESS + others)
    blocks, kilobytes = limits.disk_mb * 2048, limits.memory_mb * 1024
    values = [str(limits.open_files), str(blocks), str(kilobytes), tasks]
    return ["/bin/sh", "-c", _SCRIPT, "sh", *values, *argv]


def spawn(
    argv: Sequence[str], env: Mapping[str, str], cwd: str, fds: Sequence[int] = ()
) -> subprocess.Popen[bytes]:
    """Start `argv` in a session of its own: stdin empty, output piped, only `fds` inherited."""
    try:
        return subprocess.Popen(
            list(argv),
            env=dict(env),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            pass_fds=tuple(fds),
            bufsize=0,
        )
    except (OSError, ValueError) as error:
        raise SandboxError(f"cannot start {Path(argv[0]).name} in {cwd}: {error}") from error
