"""What every level does: run, pass through, limit, clean up nothing it should not."""

import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sandbox_bench import Bench

from fml_hydra.errors import SandboxError
from fml_hydra.sandbox import Limits, Mount, watch


@pytest.mark.parametrize("code", [0, 1, 3, 255])
def test_exit_codes_pass_through(bench: Bench, code: int) -> None:
    done = bench.run(["/bin/sh", "-c", f"echo out; echo err >&2; exit {code}"])
    assert (done.code, done.stdout, done.stderr, done.killed) == (code, "out\n", "err\n", "")


def test_a_signal_is_128_plus_its_number(bench: Bench) -> None:
    assert bench.run(["/bin/sh", "-c", "kill -SEGV $$"]).code == 128 + 11


def test_an_unknown_command_is_the_candidates_failure(bench: Bench) -> None:
    done = bench.run(["no-such-command"])
    assert done.code == 127
    assert "no-such-command" in done.stderr


def test_arguments_arrive_as_they_are(bench: Bench) -> None:
    words = ["a b", "$HOME", "`id`", "", "--", "-n", "ü\n"]
    assert bench.python("import sys; print(sys.argv[1:])", *words).stdout.strip() == str(words)


def test_files_written_to_the_slot_are_there(bench: Bench) -> None:
    (bench.slot / "given").write_text("1")
    done = bench.python("open('made', 'w').write(open('given').read() + '2')")
    assert done.code == 0, done.stderr
    assert (bench.slot / "made").read_text() == "12"


def test_home_and_tmp_are_writable_and_not_ours(bench: Bench) -> None:
    done = bench.python(
        """
        import pathlib, tempfile
        home = pathlib.Path.home()
        (home / "x").write_text("x")
        print(home, tempfile.mkdtemp())
        """
    )
    assert done.code == 0, done.stderr
    home, temporary = done.stdout.split()
    assert home != str(Path.home())
    assert not Path(home, "x").exists()
    assert not Path(temporary).exists()


def test_nothing_of_our_environment_arrives(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LD_PRELOAD", "PYTHONPATH", "PYTHONSTARTUP", "OPENAI_API_KEY", "BASH_ENV", "ENV"):
        monkeypatch.setenv(name, "/leaked")
    done = bench.python("import os; print(dict(os.environ))", env={"OMP_NUM_THREADS": "1"})
    assert "'OMP_NUM_THREADS': '1'" in done.stdout
    assert "leaked" not in done.stdout + done.stderr


def test_a_setting_of_the_caller_wins(bench: Bench) -> None:
    done = bench.run(["/bin/sh", "-c", "echo $LANG $GIVEN"], env={"LANG": "C", "GIVEN": "it's"})
    assert done.stdout == "C it's\n"


def test_the_interpreter_is_first_on_the_path(bench: Bench) -> None:
    done = bench.run([Path(sys.executable).name, "-c", "import sys, numpy; print(sys.prefix)"])
    assert done.code == 0, done.stderr
    assert Path(done.stdout.strip()) == Path(sys.prefix)


def test_stdin_is_empty(bench: Bench) -> None:
    assert bench.python("print(len(open(0).read()))").stdout == "0\n"


def test_no_descriptor_is_inherited(bench: Bench) -> None:
    reading, writing = os.pipe()
    os.set_inheritable(writing, True)
    try:
        done = bench.python("import os; print(sorted(map(int, os.listdir('/proc/self/fd')))[:-1])")
    finally:
        os.close(reading)
        os.close(writing)
    assert done.stdout == "[0, 1, 2]\n"


def test_timeout(bench: Bench) -> None:
    started = time.monotonic()
    done = bench.python("print('begun', flush=True); import time; time.sleep(60)", seconds=1.5)
    assert (done.code, done.killed, done.stdout) == (None, "timeout", "begun\n")
    assert 1.5 <= done.seconds < 5
    assert time.monotonic() - started < 15


def test_the_end_is_noticed_when_it_happens(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    if not hasattr(os, "pidfd_open"):
        pytest.skip("needs pidfd")
    monkeypatch.setattr(watch, "LOOK", 30.0)
    assert bench.run(["true"]).seconds < 10


def test_closed_output_does_not_end_a_command(bench: Bench) -> None:
    done = bench.run(["/bin/sh", "-c", "exec >&- 2>&-; sleep 0.3; : > made"])
    assert done.code == 0
    assert done.seconds >= 0.3
    assert (bench.slot / "made").exists()


def test_a_small_training_fits_in_a_gigabyte(bench: Bench) -> None:
    done = bench.python(
        """
        import torch
        torch.manual_seed(0)
        x = torch.randn(256, 20); y = x.sum(1, keepdim=True)
        net = torch.nn.Sequential(torch.nn.Linear(20, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
        optimizer = torch.optim.Adam(net.parameters(), 1e-2)
        losses = []
        for _ in range(50):
            loss = (net(x) - y).square().mean()
            optimizer.zero_grad(); loss.backward(); optimizer.step()
            losses.append(loss.item())
        print(losses[-1] < losses[0] / 4)
        """,
        memory_mb=1024,
        seconds=120,
        env={"OMP_NUM_THREADS": "1"},
    )
    assert (done.code, done.stdout) == (0, "True\n"), done.stderr


def test_several_at_once_do_not_mix(bench: Bench) -> None:
    def one(number: int) -> str:
        script = f"sleep 0.1; echo {number}; echo {number} > f{number}"
        return bench.run(["/bin/sh", "-c", script]).stdout

    before = threading.active_count()
    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(one, range(12))) == [f"{number}\n" for number in range(12)]
    assert sorted(path.name for path in bench.slot.iterdir()) == sorted(f"f{n}" for n in range(12))
    assert threading.active_count() == before


def test_no_descriptor_is_left_behind(bench: Bench) -> None:
    bench.run(["true"])
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        bench.run(["true"])
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_missing_mount_or_folder_is_our_failure(bench: Bench, tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match="nothing to mount"):
        bench.run(["true"], mounts=[Mount(tmp_path / "absent", "/data")])
    with pytest.raises(SandboxError, match="cannot start|could not start"):
        bench.sandbox.run(["true"], [bench.mount], {}, "/no/such/folder", Limits(10))
