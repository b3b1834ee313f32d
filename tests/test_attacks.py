"""Candidates that cheat, each run for real: what must come out, by the numbers of the attack list.

A candidate's own account reaches us through its stdout only, and is believed only where a lie would
hurt it.
"""

import os
import shutil
import subprocess
import sys
import textwrap
import time
import uuid
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from evaluation_bench import Bench, toy_task

from fml_hydra.handed_in import OUTPUT_BYTES
from fml_hydra.sandbox import probe

BLOCKED = probe("bubblewrap")
pytestmark = pytest.mark.skipif(bool(BLOCKED), reason=f"bubblewrap: {BLOCKED}")


@pytest.fixture(scope="module")
def bench(toy: Path, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """The toy task under the strong level, its baseline measured; its script is forked.

    What a started one may see is the same, and tests/sandbox tries both ways.
    """
    folder = tmp_path_factory.mktemp("bench")
    task = replace(toy_task(toy, folder), preload=("json",))
    return Bench.open(task, folder, toy / "cache", "bubblewrap").measured()


@pytest.fixture
def honest(bench: Bench) -> dict[str, float]:
    return bench.evaluator.baseline["val"]


# --- 1: the evaluation code


@pytest.mark.parametrize(
    "tampering",
    [
        "open('run.py', 'w').write('print(0)')",
        "open('run.py', 'a').write('#')",
        "os.rename('run.py', 'gone.py')",
        "os.replace('README.md', 'run.py')",
        "os.remove('run.py'); os.symlink('solution.py', 'run.py')",
        "text = open('run.py').read(); os.remove('run.py'); open('copy', 'w').write(text);"
        "os.symlink('copy', 'run.py')",
        "os.remove('run.py'); os.mkfifo('run.py')",
        "os.remove('run.py'); os.mkdir('run.py')",
        "os.chmod('run.py', 0o777)",
        "os.chmod('run.py', 0)",
        "subprocess.run(['/bin/sh', '-c', 'chmod +w run.py; echo >> run.py'], check=True)",
    ],
)
def test_01_tampering_with_protected_files_is_protected(bench: Bench, tampering: str) -> None:
    outcome = bench.attack(f"import os, subprocess\n{tampering}")
    assert outcome.status == "protected", outcome.stderr
    assert "run.py" in outcome.feedback
    assert (outcome.metrics, outcome.utility) == ({}, None)


def test_01_the_next_evaluation_runs_the_pristine_copy(bench: Bench, honest: dict) -> None:
    bench.attack("open('run.py', 'w').write('raise SystemExit(1)')")
    assert bench.evaluator.evaluate({}, "val").metrics == honest


def test_01_a_protected_file_handed_in_is_noticed_whoever_forgot_to_refuse_it(
    bench: Bench,
) -> None:
    forged = bench.task.repo.joinpath("run.py").read_text() + "# forged\n"
    assert bench.evaluator.evaluate({"run.py": forged}, "val").status == "protected"


# --- 2, 3, 20, 23: what must not be there

WALK = """
    import os, sys
    for folder, folders, files in os.walk("/"):
        skip = {"/proc", "/sys", "/usr", sys.prefix, sys.base_prefix}
        folders[:] = [f for f in folders if os.path.join(folder, f) not in skip]
        for name in folders + files:
            print("seen", os.path.join(folder, name))
"""


def seen(stdout: str) -> list[str]:
    return [line.removeprefix("seen ") for line in stdout.splitlines() if line[:5] == "seen "]


def test_02_03_20_23_the_view_holds_the_task_and_nothing_else(bench: Bench) -> None:
    (bench.slots / "other-slot").mkdir(parents=True, exist_ok=True)
    (bench.slots / "other-slot" / "solution.py").write_text("# another slot of the same run")
    outcome = bench.attack(WALK)
    shutil.rmtree(bench.slots / "other-slot")
    assert outcome.status == "ok", outcome.stderr
    below = {Path(path) for path in seen(outcome.stdout)}
    files = {str(p) for p in below if p.is_relative_to("/task") and p.suffix}
    assert files == {
        "/task/repo/README.md",
        "/task/repo/run.py",
        "/task/repo/solution.py",
        "/task/data/train/points.json",
        "/task/data/eval/inputs.json",
    }
    forbidden = {".git", "answers", "answers.json", "grade.py", "prepare.py", "ideas", "reference"}
    forbidden |= {"mlruns", "mlflow.db", "journal.jsonl", "calls.jsonl", "other-slot", "graded"}
    assert not {p for p in below if p.name in forbidden}


def test_02_labels_by_their_real_path_and_through_the_package(bench: Bench) -> None:
    answers = bench.evaluator.data.answers("val") / "answers.json"
    assert answers.read_text().startswith("[")
    outcome = bench.attack(
        f"""
        import glob, importlib, os, sys
        paths = ["{answers}", "{bench.task.grader}", "{bench.slots}", "/proc/1/root{answers}"]
        paths += glob.glob("/proc/*/cwd/../answers") + glob.glob("../data/eval/../../answers/*")
        print("found", [p for p in paths if os.path.exists(p)])
        for name in ("fml_hydra", "fml_hydra.data"):
            try:
                print("found", importlib.import_module(name).__file__)
            except ImportError:
                pass
        """
    )
    assert outcome.status == "ok", outcome.stderr
    assert [line for line in outcome.stdout.splitlines() if "found" in line] == ["found []"] + [
        "found None"
    ] * outcome.stdout.count("None")


def test_02_20_environments_tell_no_secret(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MLFLOW_TRACKING_URI", "OPENAI_API_KEY", "MLFLOW_TRACKING_TOKEN"):
        monkeypatch.setenv(name, "sesame-secret")
    outcome = bench.attack(
        """
        import glob, os
        print(sorted(os.environ.items()))
        for path in glob.glob("/proc/*/environ") + glob.glob("/proc/*/cmdline"):
            try:
                print(path, open(path, "rb").read())
            except OSError as error:
                print(path, error)
        """
    )
    assert outcome.status == "ok", outcome.stderr
    assert "/proc/1/environ" in outcome.stdout
    assert "sesame" not in outcome.stdout
    assert "MLFLOW" not in outcome.stdout


def test_03_there_is_no_history(bench: Bench) -> None:
    outcome = bench.attack(
        """
        import os, subprocess
        folder = os.getcwd()
        while folder != "/":
            print("seen", folder, ".git" in os.listdir(folder))
            folder = os.path.dirname(folder)
        try:
            git = subprocess.run(["git", "log", "--all"], capture_output=True, text=True)
            print("log", git.returncode != 0, repr(git.stdout))
        except FileNotFoundError:
            print("log True ''")
        """
    )
    assert outcome.stdout.splitlines() == [
        "seen /task/repo False",
        "seen /task False",
        "log True ''",
    ]


# --- 4 to 9: numbers out of thin air


@pytest.mark.parametrize("leaving", ["os._exit(0)", "sys.exit(0)", "raise SystemExit"])
def test_04_a_forged_report_is_not_an_output(bench: Bench, leaving: str) -> None:
    outcome = bench.attack(
        f"""
        import os, sys
        print('{{"mse": 0.0, "metrics": {{"mse": 0.0}}}}', flush=True)
        {leaving}
        """
    )
    assert outcome.status == "no_metric"
    assert outcome.feedback == "the commands ended without writing predictions.json"
    assert outcome.utility is None


def test_05_patched_modules_do_not_reach_the_grader(bench: Bench, honest: dict) -> None:
    outcome = bench.attack(
        """
        import builtins, json, sys
        sum, zip, loads = builtins.sum, builtins.zip, json.loads  # the honest ones, for fit()
        builtins.sum, builtins.zip = lambda *a: 0.0, lambda *a: []
        training = lambda: sys._getframe(2).f_code.co_name == "load"
        json.loads = lambda *a, **k: loads(*a, **k) if training() else [0.0] * 20
        sys.modules["grade"] = sys.modules["__main__"]
        sys.modules["__main__"].grade = lambda *a: {"mse": 0.0}
        print("patched", builtins.sum([1]), json.loads("1")[0])
        """
    )
    assert outcome.stdout == "patched 0.0 0.0\n"
    assert (outcome.status, outcome.metrics) == ("ok", honest)


def test_06_time_is_taken_outside(bench: Bench) -> None:
    outcome = bench.attack(
        """
        import time
        time.sleep(1.0)
        time.time = time.perf_counter = time.monotonic = lambda: 0.0
        """
    )
    assert outcome.status == "ok", outcome.stderr
    assert outcome.seconds >= 1.0


@pytest.mark.parametrize(
    "lie",
    [
        "__float__ = lambda self: 0.0",
        "__sub__ = __rsub__ = __pow__ = __abs__ = lambda self, *other: 0.0",
        "__eq__ = __lt__ = __gt__ = __le__ = __ge__ = lambda self, other: True; __hash__ = None",
    ],
)
def test_07_objects_that_lie_about_themselves_arrive_as_plain_numbers(
    bench: Bench, lie: str
) -> None:
    outcome = bench.attack(
        f"""
        import atexit
        atexit.register(lambda: print(open("/task/out/predictions.json").read(), end=""))

        class Liar(float):
            __mul__ = __rmul__ = __add__ = __radd__ = lambda self, other: self
            {lie}

        def fit(points):
            return Liar(1.25), Liar(1.25)
        """
    )
    plain = bench.attack(OUTPUT.format(text=outcome.stdout))
    assert outcome.stdout.startswith("["), outcome.stderr
    assert (outcome.status, outcome.metrics) == (plain.status, plain.metrics)
    assert outcome.metrics.get("mse") != 0.0


OUTPUT = "\nimport os\nopen('/task/out/predictions.json', 'w').write({text!r})\nos._exit(0)\n"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "predictions.json"),
        ("[]", "not a list of 20"),
        (str([0.0] * 19), "not a list of 20"),
        (str([0.0] * 21), "not a list of 20"),
        (str(["0.0"] * 20).replace("'", '"'), "not numbers"),
        (str([True] * 20).lower(), "not numbers"),
        (str([[0.0]] * 20), "not numbers"),
        (str([None] * 20).replace("None", "null"), "not numbers"),
        (f"[NaN, {', '.join(['0'] * 19)}]", "not a finite number: mse = nan"),
        (f"[Infinity, {', '.join(['0'] * 19)}]", "not a finite number: mse = inf"),
        (f"[-1e999, {', '.join(['0'] * 19)}]", "not a finite number: mse = inf"),
    ],
)
def test_08_malformed_outputs_are_invalid_and_say_why(bench: Bench, text: str, reason: str) -> None:
    outcome = bench.attack(OUTPUT.format(text=text))
    assert (outcome.status, outcome.utility, outcome.flags) == ("invalid", None, ())
    assert reason in outcome.feedback


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("[" * 100_000, id="nesting"),
        pytest.param(f"[1e308, {', '.join(['0'] * 19)}]", id="overflow"),
        pytest.param(f"[1{'0' * 400}, {', '.join(['0'] * 19)}]", id="huge integer"),
        pytest.param("\udcff\udcfe", id="not UTF-8"),
    ],
)
def test_08_outputs_that_make_the_grader_fail_are_invalid_not_the_end_of_the_run(
    bench: Bench, text: str
) -> None:
    written = text.encode("utf-8", "surrogateescape")
    outcome = bench.attack(
        f"import os\nopen('/task/out/predictions.json', 'wb').write({written!r})\nos._exit(0)"
    )
    assert outcome.status == "invalid"
    assert outcome.utility is None
    assert outcome.flags or "predictions.json" in outcome.feedback
    assert "answers" not in outcome.feedback


def test_09_metric_files_are_ignored_and_nothing_outlives_an_evaluation(
    bench: Bench, honest: dict
) -> None:
    leave = """
        import glob, json, os, tempfile
        places = ["/task/out", "/task/repo", os.environ["HOME"], tempfile.gettempdir(), "/dev/shm"]
        print(sorted(p for place in places for p in glob.glob(place + "/*left*")))
        for place in places:
            for name in ("left.json", "left_val_info.json"):
                json.dump({"mse": 0.0}, open(os.path.join(place, name), "w"))
        for name in ("metrics.json", "val_info.json", "final_info.json", "grade.json"):
            json.dump({"mse": 0.0}, open("/task/out/" + name, "w"))
        """
    first, second = bench.attack(leave), bench.attack(leave)
    assert first.stdout == second.stdout == "[]\n"
    assert first.metrics == second.metrics == honest
    assert list(bench.slots.iterdir()) == []


def test_09_predictions_of_an_earlier_evaluation_are_gone(bench: Bench) -> None:
    assert bench.attack("").status == "ok"
    assert bench.attack("import os; os._exit(0)").status == "no_metric"


# --- 10 to 12, 24: not ending, and taking everything


def test_10_sleeping_is_a_timeout(toy: Path, tmp_path: Path) -> None:
    task = toy_task(toy, tmp_path, timeout=1.0)
    bench = Bench.open(task, tmp_path, toy / "cache", "bubblewrap")
    outcome = bench.attack(
        """
        import json, sys, time
        json.dump([0.0] * 20, open("/task/out/predictions.json", "w"))
        print("about to sleep", file=sys.stderr, flush=True)
        time.sleep(60)
        """
    )
    assert outcome.status == "timeout"
    assert outcome.feedback.startswith("stopped after 1 s, the time limit of this task")
    assert "about to sleep" in outcome.feedback
    assert outcome.utility is None
    assert 1.0 <= outcome.seconds < 10


DAEMON = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.execv({python!r}, [{python!r}, "-c", {loop!r}, {token!r}])
time.sleep(0.3)
"""


def alive(token: str) -> list[int]:
    found = []
    for process in psutil.process_iter():
        try:
            if token in process.cmdline():
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


def daemon(loop: str) -> tuple[str, str]:
    """Lines that leave a detached process behind, and the token by which to find it."""
    token = f"token-{uuid.uuid4().hex}"
    return DAEMON.format(python=sys.executable, loop=textwrap.dedent(loop), token=token), token


@pytest.mark.parametrize("ending", ["", "time.sleep(60)", "os.kill(os.getpid(), 9)"])
def test_11_what_daemonises_is_dead_afterwards(toy: Path, tmp_path: Path, ending: str) -> None:
    task = toy_task(toy, tmp_path, timeout=2.0)
    bench = Bench.open(task, tmp_path, toy / "cache", "bubblewrap")
    lines, token = daemon("import time; time.sleep(300)")
    assert alive(token) == []
    outcome = bench.attack(lines + ending)
    assert outcome.status == {"": "ok", "t": "timeout", "o": "crash"}[ending[:1]]
    assert alive(token) == []


def test_11_endless_forking_ends_and_the_machine_answers(toy: Path, tmp_path: Path) -> None:
    task = toy_task(toy, tmp_path, timeout=5.0)
    bench = Bench.open(task, tmp_path, toy / "cache", "bubblewrap", processes=24)
    outcome = bench.attack(
        """
        import os, time
        for _ in range(200):
            if os.fork() == 0:
                time.sleep(60)
        time.sleep(60)
        """
    )
    assert outcome.status == "crash"
    assert "over the processes limit" in outcome.feedback
    assert outcome.seconds < 5.0


@pytest.mark.parametrize(
    ("greed", "sign"),
    [
        (
            "b = b'x' * 2**20\nwith open('/task/out/fill', 'wb') as f:\n    while True: f.write(b)",
            "",
        ),
        ("files = [open('/dev/null') for _ in range(10**5)]", "Too many open files"),
        ("hoard = []\nwhile True: hoard.append(bytearray(2**24))", "Memory"),
    ],
    ids=["disk", "files", "memory"],
)
def test_12_taking_without_end_is_a_crash_that_hurts_nobody_else(
    toy: Path, tmp_path: Path, greed: str, sign: str
) -> None:
    task = toy_task(toy, tmp_path, memory_mb=128)
    bench = Bench.open(task, tmp_path, toy / "cache", "bubblewrap", disk_mb=64, open_files=64)
    outcome = bench.attack(greed)
    assert outcome.status == "crash"
    assert sign in outcome.feedback
    assert outcome.seconds < 15
    assert bench.attack("").status == "ok"
    assert list(bench.slots.iterdir()) == []


def test_12_folders_deeper_than_a_path_are_removed_again(bench: Bench) -> None:
    deep = """
        import os
        os.chdir("/task/out")
        for _ in range(1100):
            os.mkdir("d")
            os.chdir("d")
        open("deep", "w").close()
        os.chmod(".", 0)
        os.chdir("/task/repo")
        os.makedirs("/task/home/closed/more")
        os.chmod("/task/home/closed", 0)
        """
    try:
        outcome = bench.attack(deep)
        left = list(bench.slots.iterdir())
    finally:  # or else this and every later pytest would fail to clean up
        subprocess.run(["rm", "-rf", bench.slots], check=True)
    assert outcome.status == "ok", outcome.feedback
    assert left == []


def test_24_limits_parents_and_privileges(bench: Bench, honest: dict) -> None:
    outcome = bench.attack(
        f"""
        import ctypes, os, resource, signal
        for kind in (resource.RLIMIT_DATA, resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE):
            soft, hard = resource.getrlimit(kind)
            try:
                resource.setrlimit(kind, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
                print("raised", kind)
            except (ValueError, OSError):
                pass
        for pid in ({os.getpid()}, os.getppid() or 1):
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        libc = ctypes.CDLL(None, use_errno=True)
        print("ptrace", libc.ptrace(16, {os.getpid()}, 0, 0))
        print("mount", libc.mount(b"none", b"/task/data", b"tmpfs", 0, None))
        """
    )
    assert (outcome.status, outcome.metrics) == ("ok", honest), outcome.stderr
    assert outcome.stdout == "ptrace -1\nmount -1\n"


# --- 15 to 17: around the grader


def test_15_hooks_of_the_interpreter_do_not_reach_the_grader(bench: Bench, honest: dict) -> None:
    outcome = bench.attack(
        """
        import os, sys
        forged = "import os; os.write(1, b'{\\"metrics\\": {\\"mse\\": \\"0.0\\"}}'); os._exit(0)"
        names = ["sitecustomize.py", "usercustomize.py", "conftest.py", "json.py", "grade.py",
                 "fml_hydra.py", "evil.pth", "python", "python3"]
        site = os.path.dirname(os.path.dirname(os.__file__))
        for place in ["/task/out", "/task/repo", os.environ["HOME"], sys.prefix, site,
                      os.path.dirname(sys.executable), *sys.path]:
            for name in names:
                try:
                    with open(os.path.join(place, name), "x") as file:
                        file.write(forged)
                    os.chmod(file.name, 0o777)
                    print(place)
                except OSError:
                    pass
        for name in ("PYTHONPATH", "PYTHONSTARTUP", "LD_PRELOAD", "PATH", "PYTHONHOME"):
            os.environ[name] = "/task/out"
        """
    )
    assert (outcome.status, outcome.metrics) == ("ok", honest), outcome.stderr
    assert set(outcome.stdout.split()) <= {"/task/out", "/task/repo", "/task/home", "."}
    assert "/task/out" in outcome.stdout
    assert bench.evaluator.evaluate({}, "val").metrics == honest


@pytest.mark.parametrize(
    ("making", "reason"),
    [
        ("os.symlink('/task/data/eval/inputs.json', PATH)", "a symbolic link"),
        ("os.symlink('/etc/passwd', PATH)", "a symbolic link"),
        ("os.symlink('/nowhere', PATH)", "a symbolic link"),
        ("os.mkfifo(PATH)", "not a regular file"),
        ("os.mkdir(PATH)", "not a regular file"),
        ("open(PATH, 'wb').truncate(300 * 2**20)", f"more than {OUTPUT_BYTES}"),
        ("open(PATH, 'wb').write(b'\\x80\\x04K\\x01.')", "predictions.json"),
    ],
    ids=["link to inputs", "link out", "dangling link", "fifo", "folder", "300 MB", "pickle"],
)
def test_16_what_is_no_plain_file_of_data_is_refused_by_name(
    bench: Bench, making: str, reason: str
) -> None:
    outcome = bench.attack(
        f"import os\nPATH = '/task/out/predictions.json'\n{making}\nos._exit(0)\n"
    )
    assert outcome.status == "invalid"
    assert outcome.feedback.startswith("predictions.json: ") or outcome.flags
    assert reason in outcome.feedback + "".join(outcome.flags)


def test_16_a_path_out_of_the_slot_leads_nowhere(bench: Bench) -> None:
    before = sorted(bench.slots.parent.rglob("*"))
    outcome = bench.attack(
        """
        for path in ("/task/out/../../x", "../x", "/task/graded/predictions.json", "/x"):
            try:
                open(path, "w").write("x")
                print("written", path)
            except OSError:
                pass
        """
    )
    assert (outcome.status, outcome.stdout) == ("ok", "")
    assert sorted(bench.slots.parent.rglob("*")) == before


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/task/out/predictions.json", "invalid"),
        ("/task/out", "invalid"),
        ("/task/repo", "protected"),
    ],
)
def test_16_what_is_closed_to_reading_is_the_candidates_fault(
    bench: Bench, tmp_path: Path, path: str, status: str
) -> None:
    (tmp_path / "closed").touch(0)
    if os.access(tmp_path / "closed", os.R_OK):
        pytest.skip("this user reads everything")
    outcome = bench.attack(f"import atexit, os\natexit.register(lambda: os.chmod({path!r}, 0))\n")
    assert outcome.status == status
    assert "permissions" in outcome.feedback or status == "protected"
    assert list(bench.slots.iterdir()) == []


NPZ = {
    "grade.py": '''\
        """Accuracy of ten labels."""
        import numpy as np

        from fml_hydra.outputs import Spec, load_npz


        def grade(outputs, answers):
            got = load_npz(outputs / "p.npz", p=Spec((10,), "i", 0, 1))
            return {"mse": float((got["p"] != 1).mean())}
        ''',
    "repo/run.py": '''\
        """Let the solution write."""
        import sys

        sys.path.insert(0, ".")
        import solution

        solution.write(sys.argv[2] + "/p.npz")
        ''',
    "repo/solution.py": '''\
        """Answer."""
        import numpy as np


        def write(path):
            """Write the answers."""
            np.savez(path, p=np.array([1, 0] * 5))
        ''',
}


@pytest.fixture(scope="module")
def npz(toy: Path, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """A task whose output is an npz file."""
    folder = tmp_path_factory.mktemp("npz")
    task = toy_task(toy, folder, NPZ, outputs=["p.npz"])
    return Bench.open(task, folder, toy / "cache", "bubblewrap").measured()


LYING_HEADER = """
import io, zipfile
file = io.BytesIO()
np.lib.format.write_array_header_1_0(
    file, {"descr": "<i8", "fortran_order": False, "shape": (10**13,)})
with zipfile.ZipFile(path, "w") as archive:
    archive.writestr("p.npy", file.getvalue())
"""
BOMB = """
import zipfile
with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
    with archive.open("p.npy", "w", force_zip64=True) as member:
        for _ in range(300):
            member.write(bytes(2**20))
"""
ENCRYPTED = """
np.savez(path, p=np.ones(10, int))
data = bytearray(open(path, "rb").read())
for sign, at in ((b"PK\\x03\\x04", 6), (b"PK\\x01\\x02", 8)):
    data[data.index(sign) + at] |= 1
open(path, "wb").write(data)
"""


@pytest.mark.parametrize(
    ("writing", "reason"),
    [
        ("np.savez(path, p=np.array([object()] * 10))", "plain arrays"),
        ("import pickle; open(path, 'wb').write(pickle.dumps(np.ones(10)))", "not an npz"),
        ("np.savez(path, p=np.ones(10))", "not of kind 'i'"),
        ("np.savez(path, p=np.ones(9, int))", "shape (9,)"),
        ("np.savez(path, p=np.full(10, 2**63, np.uint64))", "below"),
        ("np.savez(path, q=np.ones(10, int))", "no array named p"),
        (LYING_HEADER, "plain arrays"),
        (BOMB, "unpacks to"),
        (ENCRYPTED, "plain arrays"),
    ],
)
def test_16_npz_files_that_are_no_plain_arrays(npz: Bench, writing: str, reason: str) -> None:
    body = textwrap.indent(textwrap.dedent(writing), "    ")
    outcome = npz.run(f"import numpy as np\n\n\ndef write(path):\n{body}\n")
    assert outcome.status == "invalid", outcome.feedback
    assert outcome.feedback.startswith("p.npz")
    assert reason in outcome.feedback
    assert outcome.flags == ()


def test_16_a_perfect_score_is_flagged_and_counts(npz: Bench) -> None:
    outcome = npz.run("import numpy as np\ndef write(path): np.savez(path, p=np.ones(10, int))\n")
    assert (outcome.status, outcome.metrics) == ("ok", {"mse": 0.0})
    assert outcome.flags == ("mse is exactly the best possible, 0",)


def test_17_what_is_hashed_is_what_is_graded_whoever_writes_on(bench: Bench) -> None:
    answers = (bench.evaluator.data.answers("val") / "answers.json").read_text()
    honest, forged = bench.attack(""), bench.attack(OUTPUT.format(text=answers))
    lines, token = daemon(
        f"""
        import os, time
        while any(name.isdigit() and b"run.py" in open(f"/proc/{{name}}/cmdline", "rb").read()
                  for name in os.listdir("/proc")):
            pass
        while True:
            open("/task/out/new", "w").write({answers!r})
            os.replace("/task/out/new", "/task/out/predictions.json")
        """
    )
    outcome = bench.attack(lines)
    assert alive(token) == []
    assert forged.metrics["mse"] == 0.0 != honest.metrics["mse"]
    known = {honest.outputs: honest.metrics, forged.outputs: forged.metrics}
    assert (outcome.status, outcome.metrics) == ("ok", known[outcome.outputs])


# --- 18, 19


def test_18_the_seed_of_the_test_is_another_one(toy: Path, tmp_path: Path) -> None:
    files = {
        "repo/run.py": toy.joinpath("tasks/toy/repo/run.py").read_text() + "\nprint(sys.argv)\n"
    }
    run = "{python} run.py {data} {out} {seed}"
    commands = [{"run": run, "data": ["train", "eval"]}]
    task = toy_task(toy, tmp_path, files, commands=commands)
    bench = Bench.open(task, tmp_path, toy / "cache", "bubblewrap")
    seeds = [bench.attack("", split).stdout.split("'")[-2] for split in ("val", "test")]
    assert seeds == ["0", "1000"]


@pytest.mark.parametrize(
    "phoning",
    [
        "urllib.request.urlopen('http://example.org', timeout=5)",
        "socket.create_connection(('192.0.2.1', 80), 5)",
        "socket.getaddrinfo('huggingface.co', 443)",
    ],
)
def test_19_there_is_no_network_and_the_error_says_so(bench: Bench, phoning: str) -> None:
    started = time.monotonic()
    outcome = bench.attack(f"import socket, urllib.request\n{phoning}")
    assert outcome.status == "crash"
    assert outcome.feedback.startswith("exit code 1 (the sandbox has no network)")
    assert time.monotonic() - started < 10
