"""Nothing outlives a command and no command takes more than it may, at every level."""

import time
from pathlib import Path

import psutil
import pytest
from sandbox_bench import Bench

HEART = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGHUP, signal.SIG_IGN)
def beat():
    while True:
        with open("heart", "a") as file:
            file.write(".")
        time.sleep(0.02)
def wait():
    while not os.path.exists("heart"):
        time.sleep(0.01)
"""

ESCAPES = {
    "background": "if os.fork() == 0: beat()",
    "setsid": "if os.fork() == 0: os.setsid(); beat()",
    "double fork": """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0: beat()
    os._exit(0)
""",
    "closed output": """
if os.fork() == 0:
    os.setsid()
    for fd in (0, 1, 2): os.close(fd)
    beat()
""",
}


def _still_beats(heart: Path) -> bool:
    before = heart.stat().st_size
    assert before > 0
    time.sleep(0.3)
    return heart.stat().st_size > before


@pytest.mark.parametrize("escape", ESCAPES)
@pytest.mark.parametrize("end", ["ends", "times out"])
def test_what_it_leaves_behind_is_ended(bench: Bench, escape: str, end: str) -> None:
    then = "wait()" if end == "ends" else "wait(); time.sleep(60)"
    done = bench.python(f"{HEART}\n{ESCAPES[escape]}\n{then}", seconds=60 if end == "ends" else 2)
    assert done.killed == ("" if end == "ends" else "timeout"), done.stderr
    assert not _still_beats(bench.slot / "heart")


def test_a_heart_would_be_seen_beating(tmp_path: Path) -> None:
    """The check above can fail."""
    process = psutil.Popen(["python3", "-c", f"{HEART}\nbeat()"], cwd=tmp_path)
    try:
        deadline = time.monotonic() + 20
        while not (tmp_path / "heart").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        assert _still_beats(tmp_path / "heart")
    finally:
        process.kill()
        process.wait()


def test_a_child_that_empties_its_environment_is_known_by_its_parent(bench: Bench) -> None:
    code = f"{HEART}\nbeat()"
    done = bench.python(
        """
        import subprocess, sys, time, os
        subprocess.Popen([sys.executable, "-c", sys.argv[1]], env={}, start_new_session=True)
        time.sleep(1.5)
        """,
        code,
    )
    assert done.code == 0, done.stderr
    assert not _still_beats(bench.slot / "heart")


def test_a_fork_bomb_is_bounded(bench: Bench) -> None:
    marker = f"bomb-{bench.slot.parent.name}-{bench.sandbox.level}"
    code = "import os, time\nfor _ in range(11): os.fork()\ntime.sleep(30)"  # would stop at 2048
    done = bench.python(code, marker, processes=40, seconds=30)
    assert done.killed == "processes"
    left = [p for p in psutil.process_iter(["cmdline"]) if marker in (p.info["cmdline"] or [])]
    assert [p for p in left if p.status() != psutil.STATUS_ZOMBIE] == []


def test_threads_are_not_processes(bench: Bench) -> None:
    done = bench.python(
        """
        import threading, time
        threads = [threading.Thread(target=time.sleep, args=(0.8,)) for _ in range(40)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        """,
        processes=4,
    )
    assert (done.code, done.killed) == (0, ""), done.stderr


def test_one_process_cannot_allocate_without_end(bench: Bench) -> None:
    done = bench.python("x = bytearray(600 << 20); print(len(x))", memory_mb=300)
    assert (done.code, done.stdout) == (1, "")
    assert "MemoryError" in done.stderr


def test_several_processes_cannot_either(bench: Bench) -> None:
    done = bench.python(
        """
        import os, time
        for _ in range(4):
            if os.fork() == 0: break
        x = bytearray(os.urandom(1)) * (120 << 20)
        time.sleep(30)
        """,
        memory_mb=300,
        seconds=60,
    )
    assert (done.code, done.killed) == (None, "memory"), done.stderr


def test_memory_shared_with_children_counts_once(bench: Bench) -> None:
    done = bench.python(
        """
        import os, time
        x = bytearray(os.urandom(1)) * (150 << 20)
        for _ in range(4):
            if os.fork() == 0: break
        time.sleep(1.5)
        """,
        memory_mb=400,
    )
    assert (done.code, done.killed) == (0, ""), done.stderr


def test_one_file_cannot_grow_without_end(bench: Bench) -> None:
    done = bench.python("open('big', 'wb').write(bytes(80 << 20))", disk_mb=20)
    assert done.code == 1
    assert "File too large" in done.stderr
    assert (bench.slot / "big").stat().st_size <= 20 << 20


@pytest.mark.parametrize(
    "flood",
    [
        "open(f'{n}', 'wb').write(os.urandom(1 << 20))",
        "open(f'{n}', 'w').close()",
        "os.makedirs(f'a{n}/b/c')",
    ],
)
def test_many_files_are_a_flood(bench: Bench, flood: str) -> None:
    code = f"""
import itertools, os, time
for n in itertools.count():
    {flood}
    time.sleep(1e-3)
"""
    done = bench.python(code, disk_mb=2, seconds=60)
    assert (done.code, done.killed) == (None, "disk"), done.stderr


def test_temporary_files_count_too(bench: Bench) -> None:
    code = """
    import itertools, tempfile
    folder = tempfile.mkdtemp()
    for n in itertools.count():
        open(f"{folder}/{n}", "wb").write(bytes(1 << 20))
    """
    done = bench.python(code, disk_mb=16, seconds=60)
    assert done.killed == "disk" or "No space left" in done.stderr


def test_what_lay_in_the_slot_before_does_not_count(bench: Bench) -> None:
    (bench.slot / "given").write_bytes(bytes(30 << 20))
    done = bench.run(["sleep", "0.7"], disk_mb=16)
    assert (done.code, done.killed) == (0, "")


def test_open_files_are_limited_and_the_limit_is_hard(bench: Bench) -> None:
    done = bench.python(
        """
        import resource
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (64, 10**5))
        except (ValueError, PermissionError) as error:
            print("hard")
        files = [open("/dev/null") for _ in range(100)]
        """,
        open_files=64,
    )
    assert done.code == 1
    assert "Too many open files" in done.stderr
    if bench.sandbox.level == "bubblewrap":
        assert done.stdout == "hard\n"
