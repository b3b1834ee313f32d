"""Tasks of FML-bench from preparing to the held-out test, and tasks in its format, end to end."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from bench_checkout import Elsewhere, make_elsewhere, write
from cells import Cell
from evaluation_bench import LIMITS
from omegaconf import OmegaConf

from fml_hydra.bench_format import BenchTask
from fml_hydra.commands import tasks
from fml_hydra.config import load_experiment
from fml_hydra.errors import ConfigError, NotPrepared
from fml_hydra.evaluation import Evaluator
from fml_hydra.overrides import compose_config, options, parse, preflight
from fml_hydra.resources import conf_dir
from fml_hydra.sandbox import SandboxPolicy

SUITES = {"paper": 8, "fml18": 18, "fml_lite": 8}


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Elsewhere:
    return make_elsewhere(tmp_path_factory.mktemp("elsewhere"))


@pytest.fixture(scope="module")
def cache(elsewhere: Elsewhere, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache in which suite/demo has been prepared."""
    folder = tmp_path_factory.mktemp("cache")
    assert tasks.main(["prepare", "suite/demo", *elsewhere.words(folder)]) == 0
    return folder


@pytest.fixture
def evaluator(elsewhere: Elsewhere, cache: Path, tmp_path: Path) -> Callable[..., Evaluator]:
    """An evaluator of a prepared task, in plain processes."""

    def build(task: str, *words: str) -> Evaluator:
        cfg = compose_config([*(words or elsewhere.words(cache)), f"task={task}"])
        policy = SandboxPolicy(level="process", require="process", **LIMITS)
        experiment = load_experiment(cfg)
        parts = (experiment.task, policy, experiment.cache_dir, tmp_path / "slots")
        return Evaluator.open(*parts)

    return build


def test_a_run_on_what_is_not_prepared_is_refused(elsewhere: Elsewhere, tmp_path: Path) -> None:
    words = elsewhere.words(tmp_path, "task=suite/demo")
    with pytest.raises(NotPrepared, match=r"no repository; run `.* tasks prepare suite/demo`"):
        preflight(parse(words))
    assert load_experiment(compose_config(words), prepared=False).task.name == "suite/demo"


def test_all_that_are_not_prepared_are_named_at_once(elsewhere: Elsewhere, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"2 tasks .* prepare suite/broken suite/demo`") as caught:
        preflight(parse(["-m", *elsewhere.words(tmp_path, "task=suite/all")]))
    assert "\n" not in str(caught.value)
    with pytest.raises(ConfigError, match=r"2 tasks .* prepare suite/broken suite/demo`"):
        tasks.main(["check", "suite/all", *elsewhere.words(tmp_path)])


def test_one_failure_does_not_stop_the_others(
    elsewhere: Elsewhere, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tasks.main(["prepare", "suite/all", *elsewhere.words(tmp_path)]) == 1
    told = capsys.readouterr().out
    assert f"suite/demo: repository: {tmp_path}/checkouts/project-" in told
    assert f"from file://{elsewhere.bare} {elsewhere.pinned[:12]})" in told
    assert "suite/broken: repository FAILED: " in told
    assert "1 failed:\nsuite/broken, repository: " in told


def test_the_list_says_what_is_fetched_and_what_is_there(
    elsewhere: Elsewhere, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tasks.main(["list", "suite/all", *elsewhere.words(cache)]) == 0
    rows = [line.split("│") for line in capsys.readouterr().out.splitlines() if "suite/" in line]
    found = {(row[1].strip(), row[-2].strip()) for row in rows}
    assert found == {
        ("suite/demo", "prepared"),
        ("suite/demo", "yes"),
        ("suite/broken", "no repository"),
        ("suite/broken", "no"),
    }


def test_a_run_from_the_baseline_to_the_test_and_again(
    elsewhere: Elsewhere, cache: Path, tmp_path: Path
) -> None:
    more = ["tracking=none", f"root={tmp_path}/mlruns", "sandbox=process", "budget.steps=2"]
    cfg = compose_config(elsewhere.words(cache, "task=suite/demo", "agent=repeat_baseline", *more))
    cell = Cell(cfg, load_experiment(cfg), tmp_path / "run")
    assert cell.identity.startswith("suite-demo.repeat_baseline.")
    state = cell.run()
    assert state.test is not None
    assert state.header["baseline"]["val"] == {"error": 0.5, "tpr": 0.0}
    assert state.header["repository"]["commit"] == elsewhere.pinned
    assert state.test["value"] == pytest.approx(0.51)
    events = (tmp_path / "run/journal.jsonl").read_text()
    assert cell.run().test == state.test
    assert (tmp_path / "run/journal.jsonl").read_text().startswith(events)


def test_a_candidate_is_measured_refused_or_caught(evaluator: Callable[..., Evaluator]) -> None:
    opened = evaluator("suite/demo")
    better = opened.evaluate({"model.py": "SLOPE = 0.75\n"}, "val")
    assert (better.status, better.metrics["error"]) == ("ok", 0.25)
    refused = opened.evaluate({"model.py": "SLOPE = 2\n"}, "val")
    assert refused.status == "invalid"
    assert "Invalid results: slope (2) > 1" in refused.feedback
    cheat = "SLOPE = 1\nopen('scoring.py', 'w').write('def error(slope): return 0')\n"
    assert opened.evaluate({"model.py": cheat}, "val").status == "protected"


@pytest.mark.parametrize(("name", "test"), [("Line", 0.51), ("Line_old", 0.5)])
def test_a_task_in_that_format_works_by_its_path(
    elsewhere: Elsewhere,
    evaluator: Callable[..., Evaluator],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    test: float,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert tasks.main(["new", "mine", f"fml_bench={elsewhere.bench}/ml_tasks/{name}"]) == 0
    words = ["--config-dir", "conf", "tasks_dir=tasks", f"cache_dir={tmp_path}/cache"]
    assert tasks.main(["prepare", "mine", *words]) == 0
    opened = evaluator("mine", *words)
    task = opened.task
    assert "ine." in task.description()
    assert set(task.protected) == {"evaluate.py", "scoring.py"}
    assert (task.metric.name, task.metric.direction) == ("error_mean", "lower")
    write(elsewhere.workspace / "results_tmp/final_info.json", "{}")  # not this evaluation's
    baseline = opened.evaluate({"model.py": "SLOPE = 0.5\n"}, "val")
    assert (baseline.status, baseline.metrics) == ("ok", {"error_mean": 0.5, "TPR@0.1%_mean": 0.0})
    assert task.reported is not None
    assert (task.reported.baseline.val, task.reported.baseline.test) == (0.5, test)


def test_its_commands_become_ours(elsewhere: Elsewhere, tmp_path: Path) -> None:
    from fml_hydra.bench_task import write_bench_task

    bench = elsewhere.bench / "ml_tasks"
    new, old = (
        OmegaConf.load(write_bench_task(tmp_path, name, bench / name)[0])
        for name in ("Line", "Line_old")
    )
    assert [command.run for command in new.commands] == ["python evaluate.py --split val"]
    assert [command.run for command in new.test_commands] == ["python evaluate.py --split test"]
    assert new.origin.files["split_config.json"].endswith("ml_tasks/Line/split_config.json")
    assert new.origin.url == str(elsewhere.workspace)
    assert new.keep == ["model_checkpoint"]
    assert [command.run for command in old.commands] == [
        "bash -c 'echo $''{{HOME}} | wc -l'",
        "python evaluate.py",
    ]
    assert old.results[0].file == "results_tmp/final_info.json"


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({}, "config.json does not exist"),
        ({"config.json": "{"}, "config.json: not JSON"),
        ({"config.json": "[]"}, "config.json: must hold an object"),
        ({"config.json": "{}"}, "config.json: repo_dir is missing"),
        ({"config.json": '{"execute_commands": ["x"]}'}, "config.json: repo_dir is missing"),
    ],
)
def test_what_is_no_task_of_that_format_is_said(
    tmp_path: Path, files: dict[str, str], reason: str
) -> None:
    for name, text in files.items():
        write(tmp_path / name, text)
    with pytest.raises(ConfigError, match=reason):
        BenchTask.read(tmp_path)


def test_a_copy_of_what_is_not_there_is_said(elsewhere: Elsewhere, tmp_path: Path) -> None:
    from fml_hydra.bench_task import write_bench_task

    line = elsewhere.bench / "ml_tasks/Line"
    config = json.loads((line / "config.json").read_text())
    config["val_command"] = "cp ../../../ml_tasks/Bad/gone.py . && python gone.py"
    bad = tmp_path / "ml_tasks/Bad"
    write(bad / "config.json", json.dumps(config))
    write(bad / "prompt.json", "{}")
    with pytest.raises(ConfigError, match=r"Bad/config.json: `cp .*gone.py does not exist"):
        write_bench_task(tmp_path, "bad", bad)


@pytest.mark.parametrize("suite", SUITES)
def test_the_shipped_suites_are_complete(suite: str) -> None:
    names = options("task", suite)
    assert len(names) == SUITES[suite]
    for name in names:
        text = OmegaConf.load(conf_dir() / "task" / f"{name}.yaml")
        same = next(d for d in text.defaults if "@_here_" in str(d))
        if str(same) == "/task/base/fml_bench@_here_":
            assert text.name == name
        else:  # the same task under another suite's name
            assert (conf_dir() / f"{str(same).removesuffix('@_here_')[1:]}.yaml").exists()


@pytest.mark.parametrize("name", options("task", "fml18"))
def test_a_shipped_task_is_well_defined(name: str, tmp_path: Path) -> None:
    cfg = compose_config([f"task={name}", f"cache_dir={tmp_path}"])
    task = load_experiment(cfg, prepared=False).task
    assert task.origin is not None
    assert task.reported is not None
    assert set(task.protected) >= set(task.origin.files) - set(task.targets)
    assert task.isolation == "shared"
    for split in ("val", "test"):
        value = getattr(task.reported.baseline, split)
        assert task.metric.normalized_improvement(task.metric.best, value) > 0
