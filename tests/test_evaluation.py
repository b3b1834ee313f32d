"""Statuses, feedback and grading of honest evaluations; what cheats do is in test_attacks."""

import json
import sys
import threading
from pathlib import Path

import psutil
import pytest
from evaluation_bench import Bench, toy_task

from fml_hydra import grading
from fml_hydra.baseline import measure
from fml_hydra.errors import InfraError, TaskError
from fml_hydra.execution import FEEDBACK_CHARS


@pytest.fixture(scope="module")
def bench(toy: Path, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """The toy task in plain processes, its baseline measured."""
    folder = tmp_path_factory.mktemp("bench")
    return Bench.open(toy_task(toy, folder), folder, toy / "cache", "process").measured()


@pytest.fixture
def graded(toy: Path, tmp_path: Path):
    """Make a bench of the toy task with another grade.py, not measured."""

    def make(grade: str, **knobs) -> Bench:
        task = toy_task(toy, tmp_path, {"grade.py": grade}, **knobs)
        return Bench.open(task, tmp_path, toy / "cache", "process")

    return make


# --- statuses and feedback


def test_ok_has_metrics_utility_times_and_a_line(bench: Bench) -> None:
    outcome = bench.attack("STEPS = 200")
    assert outcome.status == "ok"
    assert set(outcome.metrics) == {"mse", "n"}
    assert outcome.metrics["n"] == 20.0
    assert outcome.utility == -outcome.metrics["mse"]
    assert outcome.metrics["mse"] < bench.evaluator.baseline["val"]["mse"]
    baseline = bench.evaluator.baseline["val"]["mse"]
    assert outcome.feedback == (
        f"mse = {outcome.metrics['mse']:.6g} (lower is better; baseline {baseline:.6g}); n = 20"
    )
    assert outcome.seconds > 0
    assert outcome.sandbox == "process"
    assert outcome.flags == ()
    assert len(outcome.outputs) == 64


def test_equal_code_gives_equal_outcomes(bench: Bench) -> None:
    first, second = bench.attack("STEPS = 50"), bench.attack("STEPS = 50")
    assert (first.metrics, first.outputs) == (second.metrics, second.outputs)


def test_before_the_baseline_is_known_the_line_does_without(toy: Path, tmp_path: Path) -> None:
    bench = Bench.open(toy_task(toy, tmp_path), tmp_path, toy / "cache", "process")
    outcome = bench.evaluator.evaluate({}, "val")
    assert outcome.feedback == f"mse = {outcome.metrics['mse']:.6g} (lower is better); n = 20"


def test_a_crash_tells_code_and_error(bench: Bench) -> None:
    outcome = bench.attack("raise KeyError('gamma')")
    assert outcome.status == "crash"
    assert outcome.feedback.startswith("exit code 1\nTraceback")
    assert outcome.feedback.endswith("KeyError: 'gamma'")
    assert (outcome.metrics, outcome.utility, outcome.outputs) == ({}, None, "")
    assert "KeyError" in outcome.stderr


def test_what_is_told_does_not_depend_on_where_things_lie(bench: Bench) -> None:
    """An agent's next choice follows from it: machines, checkouts and slots must not matter."""
    lines = "import json\njson.loads('{')"
    first, second = bench.attack(lines), bench.attack(lines)
    assert first.feedback == second.feedback
    assert 'File "/task/repo/solution.py"' in first.feedback
    assert "json/decoder.py" in first.feedback
    for place in {sys.prefix, sys.base_prefix} - {"/usr"}:
        assert f"{place}/" not in first.feedback
    assert str(bench.slots) not in first.feedback
    assert str(bench.slots) in first.stderr  # kept as it was


def test_a_signal_is_a_crash(bench: Bench) -> None:
    outcome = bench.attack("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)")
    assert outcome.status == "crash"
    assert outcome.feedback.startswith("exit code 139")


def test_a_long_error_keeps_head_and_tail(bench: Bench) -> None:
    outcome = bench.attack(
        "import sys\nsys.stderr.write('HEAD' + 'x' * 20000 + 'TAIL')\nraise SystemExit(3)"
    )
    assert outcome.feedback.startswith("exit code 3\nHEADxxx")
    assert outcome.feedback.endswith("xxxTAIL")
    assert "\n[...]\n" in outcome.feedback
    assert len(outcome.feedback) < 2 * FEEDBACK_CHARS + 40


def test_a_network_error_is_explained_wherever_it_stands_in_the_output(bench: Bench) -> None:
    outcome = bench.attack(
        """
        import sys
        fill = "x" * 9000
        sys.exit(fill + "[Errno -3] Temporary failure in name resolution" + fill)
        """
    )
    assert outcome.feedback.startswith("exit code 1 (the sandbox has no network)\nxxx")
    assert "name resolution" not in outcome.feedback
    assert "network" not in bench.attack("import sys; sys.exit('no such file')").feedback


def test_without_outputs_there_is_no_metric(bench: Bench) -> None:
    outcome = bench.attack("import os; os._exit(0)")
    assert outcome.status == "no_metric"
    assert outcome.feedback == "the commands ended without writing predictions.json"


def test_what_the_grader_refuses_is_invalid_with_its_reason(bench: Bench) -> None:
    outcome = bench.attack(
        """
        import os, sys
        open(sys.argv[2] + "/predictions.json", "w").write("[1, 2]")
        os._exit(0)
        """
    )
    assert outcome.status == "invalid"
    assert outcome.feedback == "predictions.json: not a list of 20 numbers"
    assert (outcome.metrics, outcome.utility, outcome.flags) == ({}, None, ())


def test_nothing_of_an_evaluation_stays(bench: Bench) -> None:
    for lines in ("", "raise ValueError", "open('run.py', 'w')"):
        bench.attack(lines)
    assert list(bench.slots.iterdir()) == []
    pristine = bench.task.target_files()
    assert bench.task.repo.joinpath("solution.py").read_text() == pristine["solution.py"]


def test_a_slot_that_cannot_be_made_is_our_fault(bench: Bench) -> None:
    with pytest.raises(InfraError, match="slot"):
        bench.evaluator.evaluate({"no/such/folder/x.py": ""}, "val")
    assert list(bench.slots.iterdir()) == []


def test_two_at_once_do_not_meet(bench: Bench) -> None:
    outcomes = {}

    def work(steps: int) -> None:
        outcomes[steps] = bench.attack(f"STEPS = {steps}\nimport time\ntime.sleep(0.3)")

    threads = [threading.Thread(target=work, args=(steps,)) for steps in (1, 300)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes[1].metrics == bench.attack("STEPS = 1").metrics
    assert outcomes[300].metrics["mse"] < outcomes[1].metrics["mse"]


# --- constraints


@pytest.mark.parametrize(
    ("bound", "steps", "status"),
    [
        ({"at_most": "baseline"}, 200, "ok"),
        ({"at_most": "baseline"}, 1, "invalid"),
        ({"at_most": "baseline", "slack": 100.0}, 1, "ok"),
        ({"at_least": 0.4}, 200, "invalid"),
        ({"at_most": 0.5}, 1, "invalid"),
    ],
)
def test_constraints_decide_and_say_why(toy, tmp_path, bench, bound, steps, status) -> None:
    task = toy_task(toy, tmp_path, constraints=[{"metric": "mse", **bound}])
    narrow = Bench.open(task, tmp_path, toy / "cache", "process")
    narrow.evaluator.baseline = bench.evaluator.baseline
    outcome = narrow.attack(f"STEPS = {steps}")
    assert outcome.status == status
    if status == "invalid":
        assert outcome.utility is None
        assert outcome.metrics["mse"] > 0
        assert "mse = " in outcome.feedback
        assert ("above" if "at_most" in bound else "below") in outcome.feedback


def test_the_baseline_satisfies_itself_on_each_split(toy: Path, tmp_path: Path) -> None:
    task = toy_task(toy, tmp_path, constraints=[{"metric": "mse", "at_most": "baseline"}])
    bench = Bench.open(task, tmp_path, toy / "cache", "process").measured()
    val, test = (bench.evaluator.baseline[split]["mse"] for split in ("val", "test"))
    assert val != test
    for split in ("val", "test"):
        assert bench.evaluator.evaluate({}, split).status == "ok"


def test_a_constraint_on_a_metric_that_is_missing_is_broken(toy: Path, tmp_path: Path) -> None:
    task = toy_task(toy, tmp_path, constraints=[{"metric": "accuracy", "at_least": 0.0}])
    bench = Bench.open(task, tmp_path, toy / "cache", "process")
    with pytest.raises(TaskError, match="constraint metric 'accuracy' is missing"):
        measure(bench.evaluator, tmp_path)


# --- graders

BROKEN = {
    "text": ('def grade(o, a): return "0.5"', "returned str, not a dict"),
    "nothing": ("def grade(o, a): pass", "returned NoneType, not a dict"),
    "empty": ("def grade(o, a): return {}", "returned an empty dict"),
    "a bool": ('def grade(o, a): return {"mse": True}', "no number for mse"),
    "a numpy bool": (
        'import numpy\ndef grade(o, a): return {"mse": numpy.bool_(1)}',
        "no number for mse",
    ),
    "an array": (
        'import numpy\ndef grade(o, a): return {"mse": numpy.ones(2)}',
        "no number for mse",
    ),
    "a number as text": ('def grade(o, a): return {"mse": "0.5"}', "no number for mse"),
    "another name": ('def grade(o, a): return {"acc": 1.0}', "gave no 'mse' (it gave acc)"),
    "raises": ('def grade(o, a):\n    raise KeyError("y")', "raised KeyError: 'y' (grade.py:2)"),
    "leaves": ("import sys\ndef grade(o, a): sys.exit(0)", "raised SystemExit: 0"),
    "dies": ("import os\ndef grade(o, a): os.kill(os.getpid(), 11)", "died (exit code -11)"),
    "is gone": ("import os\ndef grade(o, a): os._exit(0)", "died (exit code 0)"),
}


@pytest.mark.parametrize(("grade", "reason"), BROKEN.values(), ids=BROKEN)
def test_a_grader_that_fails_on_the_baseline_is_a_task_error_in_one_line(
    graded, tmp_path: Path, grade: str, reason: str
) -> None:
    bench = graded(grade)
    with pytest.raises(TaskError) as caught:
        measure(bench.evaluator, tmp_path)
    text = str(caught.value)
    assert str(bench.task.grader) in text
    assert reason in text
    assert "\n" not in text
    assert list(bench.slots.iterdir()) == []


SOME = {k: v for k, v in BROKEN.items() if k in {"nothing", "another name", "raises", "dies"}}


@pytest.mark.parametrize(("grade", "reason"), SOME.values(), ids=SOME)
def test_a_grader_that_fails_on_a_candidate_only_is_invalid_and_flagged(
    graded, bench: Bench, grade: str, reason: str
) -> None:
    broken = graded(grade)
    broken.evaluator.baseline = bench.evaluator.baseline
    outcome = broken.evaluator.evaluate({}, "val")
    assert outcome.status == "invalid"
    assert (outcome.metrics, outcome.utility) == ({}, None)
    assert reason not in outcome.feedback, "it may quote hidden labels"
    assert "cannot be graded" in outcome.feedback
    (flag,) = outcome.flags
    assert reason in flag


@pytest.mark.parametrize(
    "grade", ["def grade(o, a:", "import no_such_module", "raise ValueError('at import')"]
)
def test_a_grader_that_cannot_be_loaded_is_a_task_error_even_later(
    graded, bench: Bench, grade: str
) -> None:
    broken = graded(grade)
    broken.evaluator.baseline = bench.evaluator.baseline
    with pytest.raises(TaskError, match=r"grade.py: (SyntaxError|ModuleNotFoundError|ValueError)"):
        broken.evaluator.evaluate({}, "val")


def test_a_grader_that_hangs_is_given_up(graded, bench: Bench, monkeypatch) -> None:
    monkeypatch.setattr(grading, "GRADING_SECONDS", 1.0)
    slow = graded("import time\ndef grade(o, a): time.sleep(60)")
    with pytest.raises(TaskError, match=r"grade\(\) took over 1 s"):
        slow.evaluator.evaluate({}, "val")
    slow.evaluator.baseline = bench.evaluator.baseline
    assert slow.evaluator.evaluate({}, "val").status == "invalid"
    script = str(slow.task.grader)
    assert not [p for p in psutil.process_iter(["cmdline"]) if script in (p.info["cmdline"] or ())]


def test_a_grader_may_not_take_all_memory(graded, bench: Bench, monkeypatch) -> None:
    monkeypatch.setattr(grading, "GRADING_MB", 256)
    greedy = graded('def grade(o, a): return {"mse": len(bytearray(2**30))}')
    greedy.evaluator.baseline = bench.evaluator.baseline
    outcome = greedy.evaluator.evaluate({}, "val")
    assert outcome.status == "invalid"
    assert "MemoryError" in outcome.flags[0]


@pytest.mark.parametrize("number", ["nan", "inf", "-inf"])
def test_a_number_that_is_not_finite_is_invalid(graded, tmp_path: Path, number: str) -> None:
    bench = graded(f'def grade(o, a): return {{"mse": float("{number}"), "n": 3}}')
    with pytest.raises(TaskError, match=f"not a finite number: mse = {number}"):
        measure(bench.evaluator, tmp_path)
    outcome = bench.evaluator.evaluate({}, "val")
    assert (outcome.status, outcome.metrics) == ("invalid", {"n": 3.0})


def test_a_grader_may_print_and_import_what_lies_beside_it(toy: Path, tmp_path: Path) -> None:
    files = {
        "helper.py": "VALUE = 0.125\n",
        "grade.py": """\
            import os
            import subprocess

            import helper

            print("while loading")


            def grade(outputs, answers):
                print("while grading")
                os.write(1, b"below Python")
                subprocess.run(["echo", "from a child"], check=True)
                return {"mse": helper.VALUE}
            """,
    }
    bench = Bench.open(toy_task(toy, tmp_path, files), tmp_path, toy / "cache", "process")
    outcome = bench.evaluator.evaluate({}, "val")
    assert (outcome.status, outcome.metrics) == ("ok", {"mse": 0.125})


def test_metrics_keep_every_digit(graded) -> None:
    bench = graded('def grade(o, a): return {"mse": 0.1 + 0.2, "n": 10**15 + 1}')
    assert bench.evaluator.evaluate({}, "val").metrics == {"mse": 0.1 + 0.2, "n": 1e15 + 1}


# --- several commands, splits and seeds

TWO = [
    {"run": "{python} train.py {data} {out} {seed}", "data": ["train"]},
    {"run": "{python} predict.py {data} {out} 'a b'", "data": ["eval"]},
]
SCRIPTS = {
    "repo/train.py": """\
        import json, os, sys
        import solution

        data, out, seed = sys.argv[1:]
        print("train", seed, sorted(os.listdir(data)), sorted(os.listdir(out)))
        with open(f"{out}/model.json", "w") as file:
            json.dump(solution.fit(json.load(open(f"{data}/train/points.json"))), file)
        """,
    "repo/predict.py": """\
        import json, os, sys
        import solution

        data, out, word = sys.argv[1:]
        print("predict", word, sorted(os.listdir(data)), sorted(os.listdir(out)))
        slope, intercept = json.load(open(f"{out}/model.json"))
        xs = json.load(open(f"{data}/eval/inputs.json"))
        with open(f"{out}/predictions.json", "w") as file:
            json.dump([slope * x + intercept for x in xs], file)
        """,
}


@pytest.fixture(params=["process", "bubblewrap"])
def two(request, toy: Path, tmp_path: Path) -> Bench:
    """The toy task cut in two commands, under each level that works here."""
    from fml_hydra.sandbox import probe

    if why := probe(request.param):
        pytest.skip(f"{request.param}: {why}")
    protected = ["train.py", "predict.py"]
    task = toy_task(toy, tmp_path, SCRIPTS, commands=TWO, protected=protected)
    return Bench.open(task, tmp_path, toy / "cache", request.param)


def test_commands_share_outputs_and_differ_in_seed_and_inputs(two: Bench) -> None:
    val, test = (two.evaluator.evaluate({}, split) for split in ("val", "test"))
    assert (val.status, test.status) == ("ok", "ok"), val.stderr + test.stderr
    second = "['model.json']"
    assert val.stdout.splitlines()[0] == "train 0 ['train'] []"
    assert test.stdout.splitlines()[0] == "train 1000 ['train'] []"
    seen = "['eval']" if val.sandbox == "bubblewrap" else "['eval', 'train']"
    assert val.stdout.splitlines()[1] == f"predict a b {seen} {second}"
    assert val.metrics["mse"] != test.metrics["mse"]


def test_the_second_command_does_not_see_training_data_nor_other_splits(two: Bench) -> None:
    if two.evaluator.sandbox.level != "bubblewrap":
        pytest.skip("plain processes hide nothing")
    folder = two.evaluator.data.folder
    outcome = two.attack(
        f"""
        import glob, os
        print(sorted(glob.glob("/task/data/*/*")), os.path.exists("{folder}"))
        """
    )
    first, second = [line for line in outcome.stdout.splitlines() if line[0] == "["]
    assert first == "['/task/data/train/points.json'] False"
    assert second == "['/task/data/eval/inputs.json'] False"


def test_a_failing_command_is_the_last_one(two: Bench) -> None:
    outcome = two.attack("import sys\nif 'train.py' in sys.argv[0]: sys.exit(4)")
    assert outcome.status == "crash"
    assert outcome.feedback.startswith("exit code 4")
    assert "predict" not in outcome.stdout


def test_commands_share_one_time_limit(toy: Path, tmp_path: Path) -> None:
    task = toy_task(toy, tmp_path, SCRIPTS, commands=TWO, timeout=3.0)
    bench = Bench.open(task, tmp_path, toy / "cache", "process")
    outcome = bench.attack("import time\ntime.sleep(2.0)")
    assert outcome.status == "timeout"
    assert outcome.stdout.startswith("train")
    assert outcome.seconds < 6.0


def test_a_change_by_the_first_command_is_noticed_before_the_second(two: Bench) -> None:
    outcome = two.attack("import sys\nif 'train.py' in sys.argv[0]: open('predict.py', 'a')")
    assert outcome.status == "ok"  # nothing was written
    outcome = two.attack(
        "import sys\nif 'train.py' in sys.argv[0]: open('predict.py', 'a').write('#')"
    )
    assert outcome.status == "protected"
    assert outcome.feedback == "the code changed protected files: predict.py"
    assert "predict a b" not in outcome.stdout


# --- the baseline


def test_the_baseline_is_measured_once_and_again_when_something_changes(
    toy: Path, tmp_path: Path
) -> None:
    bench = Bench.open(toy_task(toy, tmp_path), tmp_path, toy / "cache", "process")
    first = measure(bench.evaluator, tmp_path / "root")
    assert set(first.metrics) == {"val", "test"}
    assert first.seconds > 0
    marked = json.loads(next((tmp_path / "root" / "baselines").glob("*.json")).read_text())
    assert marked["metrics"] == first.metrics
    assert measure(bench.evaluator, tmp_path / "root") == first
    (bench.task.dir / "repo" / "README.md").write_text("changed")
    measure(bench.evaluator, tmp_path / "root")
    assert len(list((tmp_path / "root" / "baselines").glob("*.json"))) == 2


@pytest.mark.parametrize(
    ("solution", "reason"),
    [
        ("raise RuntimeError('no data')", "crash: RuntimeError: no data"),
        ("raise SystemExit", "no_metric: the commands ended without writing predictions.json"),
    ],
)
def test_a_baseline_that_does_not_run_is_a_task_error(
    toy: Path, tmp_path: Path, solution: str, reason: str
) -> None:
    task = toy_task(toy, tmp_path, {"repo/solution.py": solution})
    bench = Bench.open(task, tmp_path, toy / "cache", "process")
    with pytest.raises(TaskError) as caught:
        measure(bench.evaluator, tmp_path)
    assert f"task toy: the baseline does not run on val ({reason})" in str(caught.value)
    assert "\n" not in str(caught.value)
