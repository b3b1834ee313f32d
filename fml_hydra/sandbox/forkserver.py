"""A warm interpreter: imports heavy packages once, then forks into one sandbox after another.

Started by `preload` as `python forkserver.py MODULE ...` with a command's own environment; stdin is
a socket on which jobs arrive. Nothing but the standard library, so that any interpreter from 3.9 on
can run it, and nothing of an experiment in its memory, since every candidate inherits that.

The namespaces are bubblewrap's: a fork joins them, gives up every privilege the kernel grants for
joining, takes on the limits, and is then the candidate's script. Not here: what a sandbox holds.
"""

import atexit
import ctypes
import gc
import importlib
import json
import os
import resource
import signal
import socket
import sys
import threading
import types
from contextlib import suppress
from typing import Any, Dict, NoReturn, Tuple  # noqa: UP035  # Python 3.9 reads this file

_LIBC = ctypes.CDLL(None, use_errno=True)
# user, mount, PID, network, IPC, UTS and control group namespaces: <linux/sched.h>
_NAMESPACES = 0x10000000 | 0x20000 | 0x20000000 | 0x40000000 | 0x08000000 | 0x04000000 | 0x02000000
# <linux/prctl.h>, <linux/capability.h>
_SET_DUMPABLE, _CAPBSET_DROP, _SET_NO_NEW_PRIVS, _CAP_AMBIENT, _AMBIENT_CLEAR = 4, 24, 38, 47, 4
_CAPABILITY_VERSION_3 = 0x20080522
_FAILED = 125
"""Exit code when the fork could not become the candidate."""
Job = Dict[str, Any]  # noqa: UP006


def main() -> None:
    """Import, say so, and fork for each job until the other side is gone."""
    del sys.path[0]  # the folder of this file
    for name in sys.argv[1:]:
        importlib.import_module(name)
    gc.freeze()  # forks share what is never collected
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(fileno=os.dup(0)) as jobs:
        jobs.send(b"ready")
        while True:
            message, fds, _, _ = socket.recv_fds(jobs, 1 << 20, 2)
            if not message:
                return
            if os.fork() == 0:
                jobs.close()
                _serve(json.loads(message), (fds[0], fds[1]))
            for fd in fds:
                os.close(fd)


def _serve(job: Job, ends: Tuple[int, int]) -> NoReturn:  # noqa: UP006
    """Fork into the namespaces of process `first`; the fork becomes the candidate's script.

    `ends`: where the fork's process number is told, and where its exit code is.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    report, hold = ends
    try:
        streams = [os.open(f"/proc/{job['pipes']}/fd/{n}", os.O_WRONLY) for n in (1, 2)]
        outside = os.stat("/")  # noqa: PTH116
        _checked(_LIBC.setns(os.pidfd_open(job["first"]), _NAMESPACES))
        if os.path.samestat(outside, os.stat("/")):  # noqa: PTH116
            raise OSError("the sandbox has the root of this machine")
        pid = os.fork()
    except OSError as error:
        os.write(report, f"{error}".encode())
        os._exit(_FAILED)
    if pid == 0:
        _become(job, streams)
    for fd in streams:
        os.close(fd)
    os.write(report, f"{pid}".encode())
    status = os.waitpid(pid, 0)[1]
    code = 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
    with suppress(OSError):  # the namespace was ended
        os.write(hold, f"{code}\n".encode())
    os._exit(0)


def _become(job: Job, streams: "list[int]") -> NoReturn:
    """Turn this process into what bubblewrap would have started, then run the script."""
    try:
        os.setsid()
        os.chdir(job["cwd"])
        for wanted, fd in enumerate([os.open(os.devnull, os.O_RDONLY), *streams]):
            os.dup2(fd, wanted)
        os.closerange(3, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        for name, value in job["limits"].items():
            _limit(getattr(resource, name), value)
        _give_up_privileges()
    except (OSError, ValueError) as error:
        sys.stderr.write(f"cannot enter the sandbox: {error}\n")
        sys.stderr.flush()
        os._exit(_FAILED)
    os.environ.clear()
    os.environ.update(job["env"], PWD=job["cwd"])
    if "numpy.random" in sys.modules:  # else every fork would draw the same numbers unseeded
        sys.modules["numpy.random"].seed()
    _run(job["argv"])


def _limit(kind: int, value: int) -> None:
    hard = resource.getrlimit(kind)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (value, value))


def _give_up_privileges() -> None:
    _checked(_LIBC.prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    for capability in range(64):
        if _LIBC.prctl(_CAPBSET_DROP, capability, 0, 0, 0):  # beyond the last one
            break
    _checked(_LIBC.prctl(_CAP_AMBIENT, _AMBIENT_CLEAR, 0, 0, 0))
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    _checked(_LIBC.capset(header, (ctypes.c_uint32 * 6)()))
    _checked(_LIBC.prctl(_SET_DUMPABLE, 1, 0, 0, 0))  # its own /proc/self stays readable to it
    with open("/proc/self/status", encoding="ascii") as file:  # noqa: PTH123
        told = dict(line.split(":", 1) for line in file)
    kept = [told[f"Cap{kind}"].strip() for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb")]
    if any(int(mask, 16) for mask in kept) or told["NoNewPrivs"].strip() != "1":
        raise OSError("privileges were kept: " + " ".join(kept))


def _checked(result: int) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _run(argv: "list[str]") -> NoReturn:
    """What `python SCRIPT ...` does, or `python -I SCRIPT ...`, in this interpreter."""
    ours = set(sys.modules) - {"__main__"}
    isolated = argv[0] == "-I"
    sys.argv = argv[1:] if isolated else argv
    script = os.path.abspath(sys.argv[0])  # noqa: PTH100
    if not isolated:
        sys.path.insert(0, os.path.dirname(os.path.realpath(script)))  # noqa: PTH120
    importlib.invalidate_caches()
    module = types.ModuleType("__main__")
    module.__dict__.update(__file__=script, __builtins__=__builtins__)
    sys.modules["__main__"] = module
    code = 0
    try:
        with open(script, "rb") as file:  # noqa: PTH123
            source = file.read()
        exec(compile(source, script, "exec", dont_inherit=True), module.__dict__)
    except BaseException as error:  # noqa: BLE001  # told as the interpreter would, without us
        code = _told(error)
    _end(code, ours)


def _told(error: BaseException) -> int:
    """Exit code of an interpreter that `error` ends, after it has been printed."""
    if isinstance(error, SystemExit):
        if error.code is None or isinstance(error.code, int):
            return error.code or 0
        sys.stderr.write(f"{error.code}\n")
        return 1
    trace = error.__traceback__  # from our own frame on
    error = error.with_traceback(trace.tb_next if trace else None)
    sys.excepthook(type(error), error, error.__traceback__)
    return 130 if isinstance(error, KeyboardInterrupt) else 1


def _end(code: int, ours: "set[str]") -> NoReturn:
    """What matters of an interpreter's end: threads, exit functions, files never closed.

    Taking all imported packages down as well would cost as much as many a script does.
    """
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    atexit._run_exitfuncs()
    for name in set(sys.modules) - ours:
        module = sys.modules.pop(name)
        getattr(module, "__dict__", {}).clear()
    gc.collect()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code & 0xFF)


if __name__ == "__main__":
    main()
