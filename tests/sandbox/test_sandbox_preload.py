"""Scripts forked from a warm interpreter do what the same scripts do started afresh."""

import logging
import os
import signal
import sys
import textwrap
import threading
from pathlib import Path

import pytest
from sandbox_bench import Bench

from fml_hydra.sandbox.base import Completed, Limits, Mount
from fml_hydra.sandbox.preload import is_script, warm_python

PYTHON = sys.executable


def both(bench: Bench, script: str, *args: str) -> tuple[Completed, Completed]:
    """The same script started afresh, and forked."""
    (bench.slot / "script.py").write_text(textwrap.dedent(script))
    argv = [PYTHON, "script.py", *args]
    return Bench(bench.sandbox, bench.slot).run(argv), bench.run(argv)


@pytest.mark.parametrize(
    "script",
    [
        "import os, sys; print(sys.argv, sys.path[0], os.getcwd(), __name__, __file__)",
        "import os; print(sorted(os.environ.items()))",
        "import sys; sys.exit(3)",
        "import sys; sys.exit('a reason')",
        "import sys; print('out'); sys.stderr.write('err'); sys.exit(None)",
        "def f():\n    return 1 / 0\nf()",
        "raise ValueError('né') from KeyError('x')",
        "if True print",
        "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
        "import os; os._exit(9)",
        "import atexit; atexit.register(print, 'last'); print('first')",
        "import threading, time\n"
        "threading.Thread(target=lambda: (time.sleep(.1), print('x'))).start()",
        "import sys; print(sys.stdin.read() == '', sys.flags.dont_write_bytecode)",
        "print({'a', 'b', 'c', 'd'}, hash('text'))",
        "import resource as r; print([r.getrlimit(n) for n in "
        "(r.RLIMIT_CORE, r.RLIMIT_NOFILE, r.RLIMIT_FSIZE, r.RLIMIT_DATA, r.RLIMIT_NPROC)])",
        "import os; print(os.listdir('/proc/self/fd'))",
        "import multiprocessing as m\ndef f(x): return x + 1\n"
        "if __name__ == '__main__':\n"
        "    with m.get_context('spawn').Pool(1) as pool: print(pool.map(f, [1]))",
        "import helper; print(helper.VALUE)",
        "import sys; sys.exit(True)",
        "import sys; sys.exit(-1)",
        "import sys; sys.exit((1, 2))",
        "file = open('kept.txt', 'w'); file.write('never closed'); print('written')",
        "class A:\n    def __del__(self): print('gone')\na = A()",
        "import os, threading\nthreading.Thread(target=lambda: os._exit(7)).start()",
        "raise KeyboardInterrupt",
    ],
)
def test_a_forked_script_behaves_like_a_started_one(preloaded: Bench, script: str) -> None:
    (preloaded.slot / "helper.py").write_text("VALUE = 42\n")
    env = {"PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
    (preloaded.slot / "script.py").write_text(script)
    argv = [PYTHON, "script.py", "--word"]
    started = Bench(preloaded.sandbox, preloaded.slot).run(argv, env=env)
    forked = preloaded.run(argv, env=env)
    assert (forked.code, forked.stdout, forked.stderr) == (
        started.code,
        started.stdout,
        started.stderr,
    )
    assert forked.stdout or forked.code


def test_a_file_never_closed_is_written_all_the_same(preloaded: Bench) -> None:
    preloaded.python("f = open('kept', 'w'); f.write('text')")
    assert (preloaded.slot / "kept").read_text() == "text"


def test_the_packages_are_there_and_the_start_is_quick(preloaded: Bench) -> None:
    started, forked = both(preloaded, "import sys; print('numpy' in sys.modules)")
    assert (started.stdout, forked.stdout) == ("False\n", "True\n")


def test_isolated_scripts_do_not_see_their_neighbours(preloaded: Bench) -> None:
    (preloaded.slot / "helper.py").write_text("")
    (preloaded.slot / "script.py").write_text("import sys; print(sys.argv[1:])\nimport helper")
    done = preloaded.run([PYTHON, "-I", "script.py", "word"])
    assert done.stdout == "['word']\n"
    assert "ModuleNotFoundError: No module named 'helper'" in done.stderr


def test_no_privilege_survives_the_way_in(preloaded: Bench) -> None:
    done = preloaded.python(
        "print([l.split()[1] for l in open('/proc/self/status') if l[:3] in ('Cap', 'NoN')])"
    )
    assert done.stdout == f"{['0' * 16] * 5 + ['1']}\n"


def test_unseeded_numbers_differ_from_fork_to_fork(preloaded: Bench) -> None:
    code = "import numpy, random; print(numpy.random.rand(), random.random())"
    assert preloaded.python(code).stdout != preloaded.python(code).stdout


def test_a_daemon_left_behind_and_memory_are_kept_in_check(preloaded: Bench) -> None:
    done = preloaded.python(
        "import os, time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(60)\nprint('left')"
    )
    assert (done.stdout, done.killed) == ("left\n", "")
    assert done.seconds < 20
    tree = """
        import os, time
        for _ in range(3):
            if os.fork() == 0: break
        block = bytearray(90 * 2**20)
        time.sleep(30)
    """
    assert preloaded.python(tree, memory_mb=200).killed == "memory"


def test_several_at_once_keep_their_own_outputs_and_codes(preloaded: Bench) -> None:
    (preloaded.slot / "script.py").write_text(
        "import sys; print(sys.argv[1]); sys.exit(int(sys.argv[1]))"
    )
    done: dict[int, Completed] = {}

    def one(number: int) -> None:
        done[number] = preloaded.run([PYTHON, "script.py", str(number)])

    threads = [threading.Thread(target=one, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {n: (d.code, d.stdout) for n, d in done.items()} == {n: (n, f"{n}\n") for n in range(6)}


def test_a_warm_interpreter_that_died_is_replaced(preloaded: Bench) -> None:
    code = "print('there')"
    preloaded.python(code)
    env = {"PATH": "/usr/bin"}
    first = warm_python(Path(PYTHON), ("json",), env)
    assert first is not None
    assert warm_python(Path(PYTHON), ("json",), {**env, "HOME": "/another"}) is first
    os.kill(first._process.pid, signal.SIGKILL)
    first._process.wait()
    second = warm_python(Path(PYTHON), ("json",), env)
    assert second is not None
    assert second is not first
    assert second.alive


def test_what_cannot_be_imported_is_said_and_done_without(
    preloaded: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        bench = Bench(preloaded.sandbox, preloaded.slot, ("no_such_package",))
        assert bench.python("print('all the same')").stdout == "all the same\n"
        assert bench.python("print('again')").stdout == "again\n"
    (said,) = [r.getMessage() for r in caplog.records if "preloaded" in r.getMessage()]
    assert "No module named 'no_such_package'" in said


def test_a_sandbox_that_cannot_be_made_is_an_error_all_the_same(preloaded: Bench) -> None:
    with pytest.raises(Exception, match="could not start"):
        preloaded.sandbox.run(
            [PYTHON, "x.py"], [preloaded.mount], {}, "/no/such", Limits(10), preload=("numpy",)
        )


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["{p}", "a.py"], True),
        (["{p}", "-I", "a.py", "x"], True),
        (["{p}", "-m", "a.py"], False),
        (["{p}", "-c", "a.py"], False),
        (["{p}"], False),
        (["python", "a.py"], False),
        (["{p}", "-I"], False),
    ],
)
def test_what_counts_as_a_script(words: list[str], expected: bool) -> None:
    assert is_script([w.format(p=PYTHON) for w in words], Path(PYTHON)) is expected


def test_the_fork_is_where_the_mounts_are(preloaded: Bench, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "x").write_text("mounted")
    mounts = [Mount(data, "/task/data")]
    code = "import os; print(open('/task/data/x').read(), sorted(os.listdir('/task')))"
    assert preloaded.python(code, mounts=mounts).stdout == "mounted ['data']\n"
