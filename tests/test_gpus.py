"""GPUs shared among the processes of a machine: real locks, processes, a scripted nvidia-smi."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from fml_hydra import gpus
from fml_hydra.errors import TaskError
from fml_hydra.gpus import Gpus, present


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine of its own: its folder of locks, and an nvidia-smi that knows two GPUs."""
    smi = tmp_path / "bin" / "nvidia-smi"
    smi.parent.mkdir()
    smi.write_text('#!/bin/sh\n[ "$1" = --query-gpu=index ] && printf "0\\n1\\n"\n')
    smi.chmod(0o755)
    monkeypatch.setenv("PATH", f"{smi.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(gpus, "_POLL", 0.01)
    monkeypatch.delenv(gpus.VISIBLE, raising=False)
    return tmp_path


@pytest.mark.parametrize(
    ("visible", "found"),
    [
        (None, ("0", "1")),
        ("1", ("1",)),
        ("3, 1", ("3", "1")),
        ("GPU-8932f937,MIG-2/1/0", ("GPU-8932f937", "MIG-2/1/0")),
        ("0,-1,1", ("0",)),
        ("", ()),
        ("NoDevFiles", ()),
    ],
)
def test_the_gpus_are_those_this_process_may_use(
    monkeypatch: pytest.MonkeyPatch, visible: str | None, found: tuple[str, ...]
) -> None:
    if visible is not None:
        monkeypatch.setenv(gpus.VISIBLE, visible)
    assert present() == found


def test_a_driver_that_fails_is_no_gpu(machine: Path) -> None:
    (machine / "bin" / "nvidia-smi").write_text("#!/bin/sh\necho 0\nexit 9\n")
    assert present() == ()
    (machine / "bin" / "nvidia-smi").unlink()
    assert present() == ()


def test_each_lease_is_of_other_gpus(machine: Path) -> None:
    one = Gpus.find(1, require=True)
    with one.lease() as first, one.lease() as second:
        assert first == {"CUDA_VISIBLE_DEVICES": "0", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
        assert second["CUDA_VISIBLE_DEVICES"] == "1"
    with Gpus.find(2, require=True).lease() as both:
        assert both["CUDA_VISIBLE_DEVICES"] == "0,1"
    with Gpus.find(0, require=True).lease() as none:
        assert none == {}


def test_who_finds_them_all_taken_says_so_and_waits() -> None:
    said: list[str] = []
    both, one = Gpus.find(2, require=False), Gpus.find(1, require=False)
    got: list[str] = []

    def wait() -> None:
        with one.lease(said.append) as variables:
            got.append(variables[gpus.VISIBLE])

    waiting = threading.Thread(target=wait)
    with both.lease():
        waiting.start()
        while not said:
            time.sleep(0.01)
        time.sleep(0.05)
        assert got == []
    waiting.join(10)
    assert said == ["waiting for a GPU", "evaluating on GPU 0"]
    assert got == ["0"]


def test_who_wants_two_is_not_overtaken_by_those_who_want_one() -> None:
    order: list[str] = []
    both, one = Gpus.find(2, require=False), Gpus.find(1, require=False)
    gathers = threading.Event()

    def take(who: str, gpus_: Gpus, said) -> None:
        with gpus_.lease(said):
            order.append(who)

    with one.lease():
        two = threading.Thread(target=take, args=("two", both, lambda _: gathers.set()))
        two.start()
        assert gathers.wait(10)
        queued = threading.Event()
        late = threading.Thread(target=take, args=("late", one, lambda _: queued.set()))
        late.start()  # the second GPU is held by the one who gathers, and the queue is theirs
        assert queued.wait(10)
        assert order == []
    two.join(10)
    late.join(10)
    assert order == ["two", "late"]


def test_a_killed_process_holds_nothing(machine: Path) -> None:
    code = (
        "import sys, time\nfrom fml_hydra.gpus import Gpus\n"
        "with Gpus.find(2, True).lease() as got:\n    print(got, flush=True)\n    time.sleep(60)"
    )
    holder = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert "0,1" in holder.stdout.readline()
    said: list[str] = []

    def told(what: str) -> None:
        said.append(what)
        holder.send_signal(signal.SIGKILL)

    with Gpus.find(1, require=True).lease(told) as got:
        assert got[gpus.VISIBLE] == "0"
    assert said[0] == "waiting for a GPU"
    holder.wait(10)
    holder.stdout.close()


def test_without_enough_the_task_gets_what_is_there_or_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(gpus.VISIBLE, "")
    none = Gpus.find(1, require=False)
    assert none.missing == "the task wants 1 GPU, this process has none, so the CPU is used"
    with none.lease() as variables:
        assert variables == {gpus.VISIBLE: ""}
    with pytest.raises(TaskError, match="wants 1 GPU, this process has none.*require=false"):
        Gpus.find(1, require=True)
    monkeypatch.setenv(gpus.VISIBLE, "1")
    fewer = Gpus.find(2, require=False)
    assert fewer.missing == "the task wants 2 GPUs, this process has only 1"
    with fewer.lease() as variables:
        assert variables[gpus.VISIBLE] == "1"
