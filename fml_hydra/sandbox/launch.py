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


def rlimits(limits: Limits, others: int) -> dict[str, int]:
    """The limits of each process by their names in `resource`; `others` as in `limited`."""
    return {
        "RLIMIT_CORE": 0,
        "RLIMIT_NOFILE": limits.open_files,
        "RLIMIT_FSIZE": limits.disk_mb << 20,
        "RLIMIT_DATA": limits.memory_mb << 20,
        "RLIMIT_NPROC": limits.processes * _TASKS_PER_PROCESS + others,
    }


def limited(argv: Sequence[str], limits: Limits, others: int) -> list[str]:
    """`argv` with rlimits around it; hard ones, so that it cannot raise them.

    The kernel counts threads, and with them the `others` the user may have outside: so the number
    of tasks is only a generous stop for a fork bomb between two looks. Root is not held by it.
    """
    each = rlimits(limits, others)
    values = [
        each["RLIMIT_NOFILE"],
        each["RLIMIT_FSIZE"] // 512,
        each["RLIMIT_DATA"] // 1024,
        each["RLIMIT_NPROC"],
    ]
    return ["/bin/sh", "-c", _SCRIPT, "sh", *map(str, values), *argv]


def spawn(
    argv: Sequence[str],
    env: Mapping[str, str],
    cwd: str,
    fds: Sequence[int] = (),
    stdin: int = subprocess.DEVNULL,
) -> subprocess.Popen[bytes]:
    """Start `argv` in a session of its own: output piped, only `stdin` and `fds` inherited."""
    try:
        return subprocess.Popen(
            list(argv),
            env=dict(env),
            cwd=cwd,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            pass_fds=tuple(fds),
            bufsize=0,
        )
    except (OSError, ValueError) as error:
        raise SandboxError(f"cannot start {Path(argv[0]).name} in {cwd}: {error}") from error
