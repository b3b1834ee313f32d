"""What the strong level hides: files, environment, network, processes."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from sandbox_bench import Bench

import fml_hydra
from fml_hydra.sandbox import Mount

SECRET = "the-hidden-answer"

TRY = """
import sys
for path in sys.argv[1:]:
    try:
        print("read", path, open(path).read())
    except OSError as error:
        print(type(error).__name__)
"""

WALK = """
import os, sys
for folder, folders, files in os.walk("/"):
    folders[:] = [f for f in folders if os.path.join(folder, f) not in sys.argv[2:]]
    for name in files + folders:
        if sys.argv[1] in name:
            print(os.path.join(folder, name))
"""


def test_labels_records_and_other_slots_are_not_there(strong: Bench) -> None:
    root = strong.slot.parent
    paths = [root / "labels.csv", root / "mlruns" / "mlflow.db", root / "slot2" / "model.py"]
    for path in paths:
        path.parent.mkdir(exist_ok=True)
        path.write_text(SECRET)
    relative = [f"../{path.relative_to(root)}" for path in paths]
    done = strong.python(TRY, *map(str, paths), *relative)
    assert done.stdout.split() == ["FileNotFoundError"] * 6


def test_no_way_up_leads_to_a_hidden_file(strong: Bench) -> None:
    (strong.slot.parent / "needle-labels.csv").write_text(SECRET)
    (strong.slot / "needle-mine").write_text("visible")
    done = strong.python(WALK, "needle-", "/proc", "/usr", sys.prefix, sys.base_prefix, seconds=120)
    assert done.stdout.split() == ["/slot/needle-mine"], done.stderr


def test_a_link_out_of_the_slot_leads_nowhere(strong: Bench) -> None:
    (strong.slot.parent / "labels.csv").write_text(SECRET)
    (strong.slot / "link").symlink_to(strong.slot.parent / "labels.csv")
    (strong.slot / "up").symlink_to("..")
    done = strong.python(TRY, "link", "up/labels.csv")
    assert done.stdout.split() == ["FileNotFoundError"] * 2


def test_private_folders_of_this_machine_are_not_there(strong: Bench) -> None:
    script = """
    import os
    for path in ["/root", "/home", "/sys", "/run", "/var", "/etc/shadow", "/etc/hostname", "/boot"]:
        names = os.listdir(path) if os.path.isdir(path) else os.path.exists(path)
        print(path, names)
    """
    visible = [line for line in strong.python(script).stdout.splitlines() if "False" not in line]
    # a parent of the interpreter's prefix may exist, with nothing else in it
    for line in visible:
        folder, _, names = line.partition(" ")
        assert any(Path(p).is_relative_to(folder) for p in (sys.prefix, sys.base_prefix)), line
        assert names.count("'") == 2, line


def test_the_suite_and_its_keys_are_not_in_proc(strong: Bench) -> None:
    """Run a suite with a key in its environment; no environment inside may show it."""
    candidate = (
        "import glob\n"
        "for path in glob.glob('/proc/*/environ') + glob.glob('/proc/*/task/*/environ'):\n"
        "    try: text = open(path, 'rb').read()\n"
        "    except OSError: text = b''\n"
        "    print(path, b'the-hidden-answer' in text)\n"
        "print(len(glob.glob('/proc/[0-9]*')) < 6)\n"
    )
    suite = (
        "import sys; from pathlib import Path; from fml_hydra.sandbox import *\n"
        "from fml_hydra.sandbox.bubblewrap import Bubblewrap\n"
        "box = Bubblewrap(Path(sys.argv[1]), gpus=False)\n"
        "mount = Mount(Path(sys.argv[2]), '/slot', True)\n"
        "done = box.run([sys.executable, '-c', sys.argv[3]], [mount], {}, '/slot', Limits(30))\n"
        "print(done.stdout, done.stderr)\n"
    )
    binary = str(strong.sandbox.binary)  # type: ignore[attr-defined]
    done = subprocess.run(
        [sys.executable, "-c", suite, binary, str(strong.slot), candidate],
        env={"API_KEY": SECRET, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    lines = done.stdout.split("\n")
    assert any("/proc/1/environ False" in line for line in lines), done
    assert "True" in lines
    assert not [line for line in lines if line.startswith("/proc") and line.endswith("True")]


def test_read_only_mounts_are_read_only(strong: Bench) -> None:
    data = strong.slot.parent / "data"
    data.mkdir()
    (data / "x").write_text("1")
    mount = Mount(data, "/data")
    script = "cat /data/x; for f in /data/x /data/new /usr/x /etc/x /x /dev/x; do (: > $f); done"
    done = strong.run(["/bin/sh", "-c", script], mounts=[mount])
    assert done.stdout == "1"
    assert done.stderr.count("Read-only file system") == 6
    assert [path.name for path in data.iterdir()] == ["x"]


def test_a_single_file_can_be_mounted_inside_a_mount(strong: Bench) -> None:
    data = strong.slot.parent / "features.npz"
    data.write_text("features")
    done = strong.run(["cat", "/slot/data/x"], mounts=[Mount(data, "/slot/data/x")])
    assert done.stdout == "features", done.stderr


def test_the_kernels_settings_are_closed(strong: Bench) -> None:
    """Root's files in /proc/sys obey the user, not capabilities."""
    script = "for f in /proc/sys/kernel/core_pattern /proc/sys/vm/swappiness; do (: >> $f); done"
    done = strong.run(["/bin/sh", "-c", script])
    assert done.stderr.count("Read-only") + done.stderr.count("denied") == 2


def test_no_privileges(strong: Bench) -> None:
    done = strong.run(["/bin/sh", "-c", "grep Cap /proc/self/status; grep NoNew /proc/self/status"])
    assert done.stdout.count("0000000000000000") == 5
    assert "NoNewPrivs:\t1" in done.stdout


@pytest.fixture
def listener() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_no_network(strong: Bench, listener: int) -> None:
    socket.create_connection(("127.0.0.1", listener), 5).close()  # it does listen
    done = strong.python(
        """
        import socket, sys
        def attempt(do):
            try: do(); print("reached")
            except OSError as error: print(error.strerror or error)
        attempt(lambda: socket.create_connection(("127.0.0.1", int(sys.argv[1])), 5))
        attempt(lambda: socket.create_connection(("192.0.2.1", 80), 5))
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        attempt(lambda: udp.sendto(b"x", ("192.0.2.1", 53)))
        attempt(lambda: socket.getaddrinfo("example.org", 80))
        """,
        str(listener),
    )
    assert "reached" not in done.stdout
    lines = done.stdout.splitlines()
    assert lines[:3] == ["Connection refused", "Network is unreachable", "Network is unreachable"]


def test_the_parent_can_be_neither_killed_nor_traced(strong: Bench) -> None:
    done = strong.python(
        """
        import ctypes, os, signal, sys
        suite = int(sys.argv[1])
        libc = ctypes.CDLL(None, use_errno=True)
        parent = os.getppid() or 1  # 0: it lies outside
        print(os.getpid() < 10)
        for pid in (suite, 2**21):
            try: os.kill(pid, signal.SIGKILL); print("killed")
            except OSError as error: print(type(error).__name__)
        print(libc.ptrace(16, suite, 0, 0), os.strerror(ctypes.get_errno()))
        os.kill(parent, signal.SIGKILL)
        print("alive", os.getppid() in (0, 1))
        """,
        str(os.getpid()),
    )
    assert done.stdout.splitlines() == [
        "True",
        "ProcessLookupError",
        "ProcessLookupError",
        "-1 No such process",
        "alive True",
    ], done.stderr


def test_killing_everybody_ends_nobody_outside(strong: Bench) -> None:
    strong.python("import os, signal\ntry: os.kill(-1, signal.SIGKILL)\nexcept OSError: pass")
    assert strong.python("print('the next one runs')").stdout == "the next one runs\n"


def test_no_namespaces_inside(strong: Bench) -> None:
    if "--disable-userns" not in strong.sandbox.flags:  # type: ignore[attr-defined]
        pytest.skip("this machine does not allow --disable-userns")
    done = strong.python(
        """
        import ctypes, os
        libc = ctypes.CDLL(None, use_errno=True)
        print(libc.unshare(0x10000000), os.strerror(ctypes.get_errno()))
        """
    )
    assert done.stdout.startswith("-1 "), done.stdout


def test_the_running_package_cannot_be_read(strong: Bench) -> None:
    done = strong.python(TRY, str(Path(fml_hydra.__file__)))
    assert "read" not in done.stdout
    assert "Error" in done.stdout
