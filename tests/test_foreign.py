"""A foreign repository whose test goes on from what its val run left: real processes, real runs."""

import json
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cells import Cell
from evaluation_bench import LIMITS

from fml_hydra.baseline import measure, noise
from fml_hydra.commands import check
from fml_hydra.commands.check import measure_task
from fml_hydra.config import Experiment, load_experiment
from fml_hydra.errors import TaskError
from fml_hydra.evaluation import Evaluator
from fml_hydra.journal import Node
from fml_hydra.kept import Kept
from fml_hydra.overrides import compose_config
from fml_hydra.sandbox import SandboxPolicy, probe
from fml_hydra.terms import Resources

TRAIN = '''\
"""Train on --split val and leave a checkpoint; --split test only evaluates that."""
import json, os, sys
from pathlib import Path

SEED = 42
split = sys.argv[sys.argv.index("--split") + 1]
results, checkpoint = Path("results_tmp"), Path("checkpoint")
results.mkdir(exist_ok=True)
if split == "val":
    import model
    points = json.loads(Path("../data/raw/points.json").read_text())
    bonus = float(Path("~/.cache/bonus.txt").expanduser().read_text())
    checkpoint.mkdir(exist_ok=True)
    (checkpoint / "model.json").write_text(json.dumps(model.RATE + bonus + (SEED - 42) * 0.001))
    with open("trained.txt", "a") as file:
        file.write("x")
    if model.RATE > 1 or SEED == 44:
        print("accuracy is under the bound, result refused")
        raise SystemExit(1)
value = json.loads((checkpoint / "model.json").read_text())
trained = Path("trained.txt").read_text() if Path("trained.txt").exists() else ""
means = {"score": value if split == "val" else value / 2, "trained": len(trained)}
(results / f"{split}_info.json").write_text(json.dumps({"toy": {"means": means}}))
'''
YAML = """\
_target_: fml_hydra.task.TaskSpec
name: paper/foreign
title: A repository of others
problem: none
dir: ${{tasks_dir}}/foreign
repository: {folder}/repository
targets: [model.py]
protected: [train.py]
commands: [{{run: python train.py --split val}}]
test_commands: [{{run: "bash -c 'python train.py --split test'"}}]
results:
  - file: results_tmp/{{split}}_info.json
    format: json
    metrics: {{score: toy.means.score, trained: toy.means.trained}}
metric: {{name: score, direction: higher, best: 1.0, worst: 0.0}}
mounts: {{../data/raw: {folder}/raw, ~/.cache/bonus.txt: {folder}/bonus.txt}}
keep: [checkpoint, results_tmp]
refused: [^accuracy is under]
reseed: [{{file: train.py, find: SEED = 42, replace: "SEED = {{seed}}"}}]
seeds: {{val: 42, test: 42}}
isolation: shared
timeout: 60
"""
Make = Callable[..., Experiment]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository, its data, and the task's definition."""
    root = tmp_path_factory.mktemp("foreign")
    files = {
        "repository/model.py": "RATE = 0.25\n",
        "repository/train.py": TRAIN,
        "repository/results_tmp/val_info.json": '{"toy": {"means": {"score": 1, "trained": 0}}}',
        "raw/points.json": "[1]",
        "bonus.txt": "0.25",
        "conf/task/foreign.yaml": YAML.format(folder=root),
        "tasks/foreign/description.md": "Raise the score.",
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.fixture
def make(folder: Path, tmp_path: Path) -> Make:
    """The experiment, with further overrides."""

    def build(*more: str) -> Experiment:
        return load_experiment(compose_config(words(folder, tmp_path, *more)))

    return build


def words(folder: Path, tmp_path: Path, *more: str) -> list[str]:
    where = ["--config-dir", f"{folder}/conf", f"tasks_dir={folder}/tasks", "task=foreign"]
    return [*where, f"cache_dir={folder}/cache", f"root={tmp_path}/mlruns", "tracking=none", *more]


def opened(
    experiment: Experiment, tmp_path: Path, level: str = "process", **task: Any
) -> Evaluator:
    policy = SandboxPolicy(level=level, require="process", **LIMITS)  # type: ignore[arg-type]
    own = replace(experiment.task, **task)
    return Evaluator.open(own, policy, experiment.cache_dir, tmp_path / "slots")


def left_in(evaluator: Evaluator) -> list[str]:
    return sorted(path.name for path in evaluator._slots.glob("*"))


@pytest.mark.parametrize("level", ["process", "bubblewrap"])
def test_the_test_goes_on_from_what_the_val_run_left(
    make: Make, tmp_path: Path, level: str
) -> None:
    if why := probe(level):  # type: ignore[arg-type]
        pytest.skip(f"{level}: {why}")
    evaluator = opened(make(), tmp_path, level)
    val = evaluator.evaluate({}, "val")
    assert val.metrics == {"score": 0.5, "trained": 1}, val.feedback + val.stderr
    assert val.kept is not None
    assert json.loads((val.kept / "checkpoint" / "model.json").read_text()) == 0.5
    test = evaluator.evaluate({}, "test", kept=val.kept)
    assert test.metrics == {"score": 0.25, "trained": 0}, test.feedback + test.stderr
    assert (test.kept, val.kept.is_dir()) == (None, True)
    again = evaluator.evaluate({}, "test")  # nothing to go on from: trained first
    assert again.metrics == {"score": 0.25, "trained": 1}
    assert left_in(evaluator) == [val.kept.name]


def test_a_result_of_another_run_is_not_this_ones(make: Make, tmp_path: Path) -> None:
    """The repository brought one for val; a val run that fakes one for test gains nothing."""
    evaluator = opened(make(), tmp_path)
    assert evaluator.evaluate({"model.py": "raise SystemExit(0)"}, "val").status == "no_metric"
    fake = (
        "RATE = 0.5\nimport json, os, sys\nos.makedirs('checkpoint', exist_ok=True)\n"
        "open('results_tmp/test_info.json', 'w').write('{\"toy\": {\"means\": {\"score\": 1}}}')\n"
        "open('checkpoint/model.json', 'w').close()\n"
    )
    code = (
        f"{fake}import atexit\natexit.register(lambda: open('checkpoint/model.json', 'w').close())"
    )
    val = evaluator.evaluate({"model.py": code}, "val")
    assert (val.status, val.metrics["score"]) == ("ok", 0.75)
    for kept in (val.kept, None):
        outcome = evaluator.evaluate({"model.py": code}, "test", kept=kept)
        assert (outcome.status, outcome.metrics) == ("crash", {}), kept


def test_a_link_in_place_of_the_results_leads_nowhere(make: Make, tmp_path: Path) -> None:
    """The val commands run again before the test in the same slot; what they left is cleared."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "test_info.json").write_text("mine")
    code = (
        "RATE = 0.5\nimport atexit, os, shutil\ndef swap():\n    shutil.rmtree('results_tmp')\n"
        f"    os.symlink({str(outside)!r}, 'results_tmp')\natexit.register(swap)\n"
    )
    evaluator = opened(make(), tmp_path)
    outcome = evaluator.evaluate({"model.py": code}, "test")
    assert outcome.metrics == {"score": 0.375, "trained": 1}
    assert (outside / "test_info.json").read_text() == "mine"


@pytest.mark.parametrize(
    ("rate", "status", "feedback"),
    [
        ("2", "invalid", "accuracy is under the bound, result refused"),
        ("float('nan')", "invalid", "not a finite number: score = nan"),
        ("1 / 0", "crash", "exit code 1\nTraceback"),
    ],
)
def test_what_the_script_itself_refuses_is_invalid(
    make: Make, tmp_path: Path, rate: str, status: str, feedback: str
) -> None:
    outcome = opened(make(), tmp_path).evaluate({"model.py": f"RATE = {rate}\n"}, "val")
    assert (outcome.status, outcome.utility, outcome.kept) == (status, None, None)
    assert outcome.feedback.startswith(feedback)


def test_nulls_of_a_script_that_ends_well_are_invalid(make: Make, tmp_path: Path) -> None:
    code = (
        "import os\nopen('results_tmp/val_info.json', 'w').write("
        '\'{"toy": {"means": {"score": null, "trained": null}}}\')\nos._exit(0)\n'
    )
    outcome = opened(make(), tmp_path).evaluate({"model.py": code}, "val")
    assert outcome.status == "invalid"
    assert "not a number but NoneType" in outcome.feedback


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("import os\nos.symlink('/etc', 'checkpoint/link')\n", "neither a file nor a folder"),
        ("open('checkpoint/big', 'wb').write(bytes(2**20))\n", "more than 1048576 bytes"),
    ],
)
def test_what_cannot_be_kept_is_flagged(make: Make, tmp_path: Path, code: str, why: str) -> None:
    evaluator = opened(make(), tmp_path, keep_mb=1)
    made = f"import os\nos.makedirs('checkpoint')\n{code}RATE = 0.5\n"
    outcome = evaluator.evaluate({"model.py": made}, "val")
    assert (outcome.status, outcome.kept) == ("ok", None)
    assert outcome.flags[-1].startswith("not kept for the test: ")
    assert why in outcome.flags[-1]
    assert left_in(evaluator) == []


def test_another_seed_is_put_into_the_script_and_protected_there(
    make: Make, tmp_path: Path
) -> None:
    evaluator = opened(make(), tmp_path)
    scores = [evaluator.evaluate({}, "val", shift).metrics["score"] for shift in (0, 3)]
    assert scores == pytest.approx([0.5, 0.503])
    tamper = "RATE = 0.5\nopen('train.py', 'a').write('#')\n"
    for shift in (0, 3):
        outcome = evaluator.evaluate({"model.py": tamper}, "val", shift)
        assert (outcome.status, outcome.metrics) == ("protected", {})


@pytest.mark.parametrize("level", ["process", "bubblewrap"])
def test_data_is_not_mounted_where_a_link_leads(make: Make, tmp_path: Path, level: str) -> None:
    if why := probe(level):  # type: ignore[arg-type]
        pytest.skip(f"{level}: {why}")
    experiment = make()
    (tmp_path / "raw").mkdir()
    mounts = {**experiment.task.mounts, "inner/raw": tmp_path / "raw"}
    evaluator = opened(experiment, tmp_path, level, mounts=mounts)
    code = "import os\nos.rename('inner', 'moved')\nos.symlink('/etc', 'inner')\nRATE = 0.5\n"
    outcome = evaluator.evaluate({"model.py": code}, "val")
    assert outcome.status == "protected"
    assert outcome.feedback == "the code put a link where data lies: inner/raw"


def test_data_in_other_data_is_refused(make: Make, tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    nested = {"store": tmp_path / "raw", "store/more": tmp_path / "raw"}
    with pytest.raises(TaskError, match="store/more lies in other data"):
        opened(make(), tmp_path, mounts=nested).evaluate({}, "val")
    assert list((tmp_path / "raw").iterdir()) == []


def test_without_a_gpu_the_commands_run_on_the_cpu_and_it_is_said(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    code = "import os\nprint(repr(os.environ.get('CUDA_VISIBLE_DEVICES')))\nRATE = 0.5\n"
    assert "None" in opened(make(), tmp_path).evaluate({"model.py": code}, "val").stdout
    assert caplog.text.count("GPU") == 0
    evaluator = opened(make(), tmp_path, resources=Resources(gpus=1))
    assert "''" in evaluator.evaluate({"model.py": code}, "val").stdout
    assert caplog.text.count("the task wants 1 GPU, this process has none") == 1
    with pytest.raises(TaskError, match="resources.require: the task wants 1 GPU"):
        opened(make(), tmp_path, resources=Resources(gpus=1, require=True))


@pytest.mark.parametrize("level", ["process", "bubblewrap"])
def test_the_commands_see_the_gpu_that_is_leased(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, level: str
) -> None:
    if why := probe(level):  # type: ignore[arg-type]
        pytest.skip(f"{level}: {why}")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
    code = "import os\nprint(os.environ['CUDA_VISIBLE_DEVICES'])\nRATE = 0.5\n"
    evaluator = opened(make(), tmp_path, level, resources=Resources(gpus=1))
    assert getattr(evaluator.sandbox, "gpus", True)  # bubblewrap shows the devices
    with evaluator.gpus.lease():
        assert evaluator.evaluate({"model.py": code}, "val").stdout == "5\n"


def test_baseline_and_check_test_in_the_state_of_val(make: Make, tmp_path: Path) -> None:
    experiment = make()
    evaluator = opened(experiment, tmp_path)
    baseline = measure(evaluator, tmp_path)
    assert baseline.metrics["test"] == {"score": 0.25, "trained": 0}
    assert left_in(evaluator) == []
    assert noise(evaluator, experiment.root) is None
    experiment = replace(experiment, sandbox=replace(experiment.sandbox, level="process"))
    (row,) = measure_task(experiment, seeds=10, ideas=True)
    assert row.values["val"] == pytest.approx([0.5, 0.501, 0.503, 0.504])
    assert row.values["test"] == pytest.approx([0.25, 0.2505, 0.2515, 0.252])
    known = noise(evaluator, experiment.root)
    assert known is not None
    assert (known.seeds, known.source) == (4, "measured")
    assert known.sd == pytest.approx({"val": 0.00182574, "test": 0.00091287}, rel=1e-4)
    left_out, kept_in = row.feedback.split("; ")
    assert left_out == "left out: seed 44, invalid"  # the script's own constraint
    assert kept_in.startswith("noise over 4 seeds, kept in ")


def test_a_slow_task_is_checked_with_one_seed_unless_more_are_asked_for(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check, "PATIENCE", 0.0)
    experiment = replace(make(), sandbox=replace(make().sandbox, level="process"))
    (row,) = measure_task(experiment, seeds=2, ideas=False)
    assert (len(row.values["val"]), row.verdict) == (1, "not declared")
    assert row.feedback.startswith("one seed, since it takes 0 s")
    (row,) = measure_task(experiment, seeds=2, ideas=False, patient=True)
    assert len(row.values["test"]) == 2


def test_a_seed_that_changes_nothing_is_no_noise_of_zero(make: Make, tmp_path: Path) -> None:
    experiment = make()
    nothing = replace(experiment.task.reseed[0], replace="SEED = 42  # {seed}")
    task = replace(experiment.task, reseed=(nothing,))
    sandbox = replace(experiment.sandbox, level="process")
    experiment = replace(experiment, task=task, sandbox=sandbox)
    (row,) = measure_task(experiment, seeds=2, ideas=False)
    assert row.values["val"] == [0.5, 0.5]
    assert row.feedback == "2 seeds give the same value: the noise is not known"
    assert noise(opened(experiment, tmp_path), experiment.root) is None
    unseeded = replace(experiment, task=replace(task, reseed=()))
    (row,) = measure_task(unseeded, seeds=2, ideas=False)
    assert (len(row.values["val"]), row.feedback) == (1, check.NO_SEED)


# --- runs


@pytest.fixture
def cell(folder: Path, tmp_path: Path) -> Cell:
    """A run of three steps that sets RATE at random."""
    more = ("agent=random_search", "budget.steps=3", "sandbox=process")
    cfg = compose_config(words(folder, tmp_path, *more))
    return Cell(cfg, load_experiment(cfg), tmp_path / "run")


def test_a_run_keeps_the_best_steps_outputs_and_tests_with_them(cell: Cell) -> None:
    state = cell.run()
    best = state.history().best()
    assert best is not None
    kept = Kept.below(cell.folder).of(best)
    assert kept is not None
    assert [path.name for path in kept.parent.iterdir()] == [str(best.id)]
    value = json.loads((kept / "checkpoint" / "model.json").read_text())
    assert best.metrics["score"] == value
    assert state.test["metrics"] == {"score": value / 2, "trained": 0}
    assert "again" not in state.test
    assert state.header["noise"] is None
    assert state.header["gpus"] == {"wanted": 0, "leased": 0}
    assert list((cell.folder / "slots").iterdir()) == []


def test_what_a_kill_lost_is_made_again_and_said(
    cell: Cell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes after the best step is in the journal, and before what it left has its place."""

    def interrupted(self: Kept, node: Node, left: Path | None, best: Node | None) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Kept, "settle", interrupted)
    with pytest.raises(KeyboardInterrupt):
        cell.run()
    monkeypatch.setattr(Kept, "settle", lambda *_: None)
    state = cell.run()
    best = state.history().best()
    assert best is not None
    assert state.test["again"] == f"step {best.id}: it is not there"
    assert state.test["metrics"] == {"score": best.metrics["score"] / 2, "trained": 1}
