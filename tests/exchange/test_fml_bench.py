"""FML-bench's results in and out: right numbers, nothing lost, clear words for what is wrong."""

import json
import math
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from native import checkout, final_test, info, put, result, step

from fml_hydra.analysis.explored import explored
from fml_hydra.analysis.load import load_folder, load_runs, load_steps, read_journal
from fml_hydra.analysis.process import process_table
from fml_hydra.cli import main
from fml_hydra.exchange.layout import restored, storable
from fml_hydra.exchange.tasks import known_tasks

sys.path.append(str(Path(__file__).parents[1] / "analysis"))
from journals import ERROR, events, written  # noqa: E402

FAIR, DATA, KEY = "Fairness_and_Bias_aif360", "compas", "abs_aod_mean"
VALUES = [None, 0.4, 0.45, None, 0.3, 0.3]
PLACES = [(3, 4), (3, 4), (-3, 4), (0, 0), (6, 8), (3, 4)]


class Told:
    """An embedder that knows a vector for each text."""

    name = "told"

    def embed(self, texts):
        return np.array([PLACES[int(t.split()[2]) - 1] if t else (0, 0) for t in texts], float)


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as caught:
        main(list(words))
    return int(caught.value.code or 0)


def bring(results: Path, root: Path, *words: str) -> int:
    return run("import", "fml-bench", str(results), f"root={root}", "tracking=none", *words)


def send(root: Path, out: Path, *words: str) -> int:
    where = (f"root={root}", "tracking=none", "sweep=all")
    return run("export", "fml-bench", "--out", str(out), *where, *words)


def contents(folder: Path) -> dict[str, bytes]:
    """All files but ours."""
    files = (p for p in folder.rglob("*") if p.is_file())
    named = {p.relative_to(folder): p.read_bytes() for p in files}
    return {str(name): data for name, data in named.items() if "fml_hydra" not in name.parts}


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("bench")
    checkout(
        root, "Unlearning_open_unlearning", "tofu_unlearning", "forget_quality_mean", 1e-8, 1e-9
    )
    return checkout(root, FAIR, DATA, KEY, val=0.5, test=0.6)


@pytest.fixture(scope="module")
def fair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of one run on the fairness task."""
    results = tmp_path_factory.mktemp("results") / "round"
    steps = [step(k, value) for k, value in enumerate(VALUES, start=1)]
    steps[1]["val_result"]["results"] = info(DATA, KEY, 0.4) | {"odd": {"means": {"x": math.nan}}}
    steps[2]["metadata"]["parent_id"] = "i2"
    steps[3]["val_result"]["error"] = "Timeout after 2400 seconds"
    folder = result(results, "aide", FAIR, steps, baseline_primary_metric=0.5)
    final_test(folder, info(DATA, KEY, 0.35))
    snapshot = folder / "step_snapshots" / "step_0002_code.json"
    code = json.loads(snapshot.read_text())
    put(snapshot, code | {next(iter(code)).replace("lib/a.py", "split_config.json"): "{}"})
    (folder / "curve.png").write_bytes(b"\x89PNG\xff")
    return results


@pytest.fixture(scope="module")
def root(fair: Path, bench: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where that run was brought in."""
    root = tmp_path_factory.mktemp("in") / "mlruns"
    assert bring(fair, root, f"bench={bench}") == 0
    return root


def test_the_twelve_metrics_by_hand(root):
    runs = load_folder(root)
    (found,) = process_table(runs, explored(runs, Told())).to_dict("records")
    curve = [0, 0.1, 0.1, 0.1, 0.2, 0.2]
    expected = {
        # around (2, 4), the mean of PLACES; step 1 is the baseline's code, at (3, 4)
        "Exploration Spread": (1 + 1 + 5 + math.sqrt(20) + math.sqrt(32) + 1) / 6,
        "Exploration Uniqueness": 3 / 6,  # along (3, 4), along (-3, 4), at 0
        "Exploration Reach": 6,
        "Effective dim": (48 + 32) ** 2 / (48**2 + 32**2 + 2 * 24**2),
        "Val-test |gap|": 0.05,  # 0.5 - 0.3 on val, 0.6 - 0.35 on test
        "Valid step ratio": 4 / 6,
        "AUC-over-steps": sum(curve) / 6,
        "First-improvement step": 2,
        "Late-gain fraction": 0.5,
        "Best-improvement step": 6,
        "Token cost (M)": 0.001,
        "Wall-clock time (h)": 1800.5 / 3600,
    }
    assert {name: found[name] for name in expected} == pytest.approx(expected, abs=1e-9)


def test_what_the_tables_say_of_an_imported_run(root):
    (run,) = load_folder(root).to_dict("records")
    known = {k: run[k] for k in ("task", "agent", "llm", "seed", "sandbox", "isolation", "test")}
    assert known == {
        "task": FAIR,
        "agent": "aide",
        "llm": "gpt-5",
        "seed": 0,
        "sandbox": "imported",
        "isolation": "shared",
        "test": 0.35,
    }
    assert (run["budget"], run["termination"]) == (50, "finished_early")
    assert math.isnan(run["cost_usd"])
    assert math.isnan(run["seconds_llm"])
    steps = load_steps(load_folder(root))
    assert list(steps["status"]) == ["crash", "ok", "ok", "timeout", "ok", "ok"]
    assert list(steps["parents"]) == ["", "", "1", "", "", ""]
    assert list(steps["tokens"]) == [100] * 6
    assert steps[f"metric.{DATA}.other_mean"][1] == 7.0


def test_code_that_is_the_baselines_is_no_change(root):
    nodes = list(read_journal(load_folder(root).loc[0]).history())
    assert nodes[0].snapshot == {}
    assert nodes[1].snapshot == {"lib/a.py": "a = 2\n"}
    assert (root / "runs" / "arriving").exists() is False
    (folder,) = (root / "runs").iterdir()
    assert (folder / "steps/0001/code/lib/a.py").read_text() == "a = 2\n"


def test_theirs_comes_back_byte_for_byte_except_what_was_named(root, fair, tmp_path, capsys):
    assert send(root, tmp_path / "out") == 0
    there, back = contents(fair), contents(tmp_path / "out" / "gpt-5.s0")
    assert set(there) - set(back) == {f"aide/{FAIR}/20260102_030405/curve.png"}
    assert back == {name: data for name, data in there.items() if name in back}
    assert bring(fair, tmp_path / "again", f"bench={tmp_path}/out/fml_bench") == 0
    said = capsys.readouterr().out
    assert "curve.png" in said
    assert list(load_folder(tmp_path / "again")["baseline_test"]) == [0.6]


def test_ours_comes_back_as_it_was(tmp_path):
    code = {"pristine": {"model.py": "x = 0\n"}, "commit": "c", "baseline_utility": -0.5}
    done = events([0.4, None, 0.3], ERROR, (0.5, 0.6), test=0.35, **code)
    folder = tmp_path / "mlruns" / "runs" / "toy.aide.s3"
    written(folder, done)
    (folder / "config.yaml").write_text("seed: 3\n")
    put(folder / "steps" / "0000" / "stdout.txt", "hello")
    going = events([0.4], ERROR, (0.5, 0.6), instance="i1", seed=4, agent="ai_scientist_v2", **code)
    written(tmp_path / "mlruns" / "runs" / "toy.ai_scientist_v2.s4", going)
    assert send(tmp_path / "mlruns", tmp_path / "out") == 0
    assert not list((tmp_path / "out" / "offline.s4").rglob("summary.json"))
    assert bring(tmp_path / "out", tmp_path / "back") == 0
    for run in (tmp_path / "mlruns" / "runs").iterdir():
        assert contents(run) == contents(tmp_path / "back" / "runs" / run.name)


def test_a_run_that_went_on_between_two_exports_is_replaced(tmp_path):
    code = {"pristine": {"model.py": "x = 0\n"}, "commit": "c"}
    done = events([0.4, 0.3], ERROR, (0.5, 0.6), test=0.35, **code)
    folder = tmp_path / "mlruns" / "runs" / "r"
    for history in (done[:2], done, done[:3]):
        written(folder, history)
        assert send(tmp_path / "mlruns", tmp_path / "out") == 0
        assert bring(tmp_path / "out", tmp_path / "back") == 0
    assert list(load_folder(tmp_path / "back")["test"]) == [0.35]


def test_what_was_edited_since_its_export_is_not_taken_for_ours(tmp_path, capsys):
    code = {"pristine": {"model.py": "x = 0\n"}, "commit": "c"}
    done = events([0.4, 0.3], ERROR, (0.5, 0.6), test=0.35, **code)
    written(tmp_path / "mlruns" / "runs" / "r", done)
    assert send(tmp_path / "mlruns", tmp_path / "out") == 0
    (summary,) = tmp_path.glob("out/**/summary.json")
    edited = json.loads(summary.read_text())
    edited["val_steps"][0]["primary_metric"] = 0.1
    put(summary, edited)
    assert bring(tmp_path / "out", tmp_path / "back") == 0
    assert "passed over" in capsys.readouterr().out
    (run,) = load_folder(tmp_path / "back").to_dict("records")
    assert (run["best_val"], run["sandbox"], run["test"]) == (0.1, "imported", 0.35)


def test_their_script_is_told_of_our_tasks(tmp_path):
    """The script is a stand-in; what it is told is what FML-bench's goes by."""
    code = {"pristine": {"model.py": "x = 0\n"}, "commit": "c"}
    done = events([0.4, 0.3], ERROR, (0.5, 0.6), test=0.35, **code)
    written(tmp_path / "mlruns" / "runs" / "r", done)
    assert send(tmp_path / "mlruns", tmp_path / "out") == 0
    script = (
        "import json, sys\nTASKS, TASK_META, RANGE_META, REPO_ROOT = [], {}, {}, None\n"
        "def main():\n    said = [TASKS, TASK_META, RANGE_META, str(REPO_ROOT), sys.argv[1:]]\n"
        "    print(json.dumps(said))\n"
    )
    put(tmp_path / "theirs" / "compute_agent_metrics.py", script)
    bench, agent = tmp_path / "out" / "fml_bench", tmp_path / "out" / "offline.s3" / "aide"
    command = [sys.executable, bench / "score.py", tmp_path / "theirs", agent, "--output-dir", "o"]
    said = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert said[0] == ["toy"]
    assert said[1] == {"toy": ["toy", "err", "lower"]}
    assert said[2] == {"toy": ["lower", 0.0, "baseline"]}
    assert said[3:] == [str(bench), [str(agent), "--output-dir", "o"]]
    config = json.loads((bench / "ml_tasks/toy/config.json").read_text())
    assert (bench / config["repo_dir"] / "model.py").read_text() == "x = 0\n"
    base = json.loads((bench / "ml_tasks/toy/baseline_results/test_info.json").read_text())
    assert base["toy"]["means"]["err"] == 0.6
    (snapshot,) = agent.glob("toy/*/step_snapshots/step_0002_code.json")
    assert json.loads(snapshot.read_text()) == {f"{config['repo_dir']}/model.py": "x = 1\n"}
    (test,) = agent.glob("toy/*/*_final_test/run_final_test/execution_*/test_info.json")
    assert json.loads(test.read_text())["toy"]["means"]["err"] == 0.35


ENDS = [
    (info(DATA, KEY, 0.3), False, ""),
    (info(DATA, KEY, 0.3), True, "bug_test"),
    (None, False, "missing_test_info"),
    (info(DATA, KEY, 0.3, constraint_violated=True), False, "constraint_violated"),
    (info("another", KEY, 0.3), False, "metric_extraction_failed"),
]


@pytest.mark.parametrize("agent", ["aide", "ai_scientist_v2"])
def test_when_the_baseline_stands_in(tmp_path, bench, agent):
    """ai_scientist_v2 has its test in a folder that lies between its run's and the next one's."""
    for number, (content, bug, _) in enumerate(ENDS):
        told = {"stamp": f"2026010{number + 1}_000000", "baseline_primary_metric": 0.5}
        folder = result(tmp_path / "r", agent, FAIR, [step(1, 0.4)], **told)
        apart = folder.with_name(f"2026010{number + 1}_040000")
        final_test(apart if agent == "ai_scientist_v2" else folder, content, bug)
    result(tmp_path / "r", agent, FAIR, [step(1, 0.4)], "20260109_000000")
    assert bring(tmp_path / "r", tmp_path / "m", f"bench={bench}") == 0
    runs = load_folder(tmp_path / "m")
    whys = [f"final test: {why}" if why else "" for _, _, why in ENDS]
    assert list(runs["fallback"]) == [*whys, "final test: no_final_test_dir"]
    assert list(runs["test"]) == [0.3] + [0.6] * 5


def test_no_valid_step_and_no_steps_at_all(tmp_path, bench):
    result(tmp_path / "r", "aide", FAIR, [step(1, None)], baseline_primary_metric=0.5)
    result(tmp_path / "r", "aira", FAIR, [], baseline_primary_metric=0.5, token_usage=None)
    assert bring(tmp_path / "r", tmp_path / "m", f"bench={bench}") == 0
    runs = load_folder(tmp_path / "m").set_index("agent")
    assert list(runs["fallback"]) == ["no step has a metric"] * 2
    assert list(runs["test"]) == [0.6, 0.6]
    assert runs.loc["aide", "tokens"] == 1000
    assert math.isnan(runs.loc["aira", "tokens"])


def test_unlearning_is_compared_on_a_logarithmic_scale(tmp_path, bench):
    task = "Unlearning_open_unlearning"
    steps = [step(1, 1e-4), step(2, 0.0)]
    told = {"best_val_metric": 1e-4, "baseline_primary_metric": 1e-8}
    folder = result(tmp_path / "r", "aide", task, steps, **told)
    final_test(folder, info("tofu_unlearning", "forget_quality_mean", 1e-3))
    assert bring(tmp_path / "r", tmp_path / "m", f"bench={bench}") == 0
    (run,) = load_folder(tmp_path / "m").to_dict("records")
    assert [run[k] for k in ("baseline_val", "best_val", "baseline_test", "test")] == [8, 4, 9, 3]
    assert run["direction"] == "lower"
    assert run["normalized_improvement"] == pytest.approx((9 - 3) / 9)
    assert run["step_success_rate"] == 0.5  # 0 has no logarithm


def test_rounds_are_numbered_and_the_same_result_arrives_once(tmp_path, bench):
    for stamp in ("20260102_000000", "20260103_000000"):
        more = {"stamp": stamp, "baseline_primary_metric": 0.5}
        result(tmp_path / "r", "aide", FAIR, [step(1, 0.4)], **more)
    result(tmp_path / "r", "aide", FAIR, [step(1, 0.4)], stamp="20260104_000000_deprecated")
    for _ in range(2):
        assert bring(tmp_path / "r", tmp_path / "m", f"bench={bench}") == 0
    result(tmp_path / "s", "aide", FAIR, [step(1, 0.3)], baseline_primary_metric=0.5)
    assert bring(tmp_path / "s", tmp_path / "m", f"bench={bench}", "sweep=later") == 0
    runs = load_folder(tmp_path / "m")
    assert sorted(runs["seed"]) == [0, 1, 2]
    assert set(runs["sweep"]) == {"fml-bench r", "later"}


def test_without_a_checkout_the_published_baselines_count_and_there_is_no_reach(fair, tmp_path):
    assert bring(fair, tmp_path) == 0
    runs = load_folder(tmp_path)
    assert runs["baseline_test"][0] == known_tasks()[FAIR].baseline["test"]
    assert runs["baseline_val"][0] == 0.5  # what the run was told
    found = explored(runs, Told())
    assert math.isnan(found["reach"][0])
    assert found["uniqueness"][0] == 0.5


def test_what_is_wrong_is_said_in_one_line_and_the_rest_arrives(fair, tmp_path, capfd):
    results = tmp_path / "r"
    result(results, "aide", FAIR, [step(1, 0.4)], baseline_primary_metric=0.5)
    result(results, "aide", "Cooking", [step(1, 0.4)])
    put(results / "aide" / "half" / "1" / "summary.json", '{"total_steps": 3')
    put(results / "aide" / "early" / "1" / "summary.json", {"total_steps": 3})
    odd = step(1, 0.4, val_result="<Result object>")
    result(results, "odd", FAIR, [odd], baseline_primary_metric=0.5)
    assert bring(results, tmp_path / "m") == 1
    said = capfd.readouterr().out
    assert "'Cooking' is none of FML-bench's 18" in said
    assert "half/1/summary.json: cannot be read" in said
    assert "'benchmark' is missing" in said
    assert "not as FML-bench writes it" in said
    assert "5 runs, 4 failed" in said
    assert len(load_folder(tmp_path / "m")) == 1
    wrong = {
        "no run of FML-bench": (str(tmp_path / "nowhere"),),
        "there is no ml_tasks/": (str(fair), f"bench={tmp_path}"),
        "seed=x: not a number": (str(fair), "seed=x"),
        "usage:": (),
    }
    for message, words in wrong.items():
        assert run("import", "fml-bench", f"root={tmp_path}/m", *words) == 2
        errors = capfd.readouterr().err
        assert message in errors
        assert len(errors.strip().splitlines()) == 1
    assert run("export", "fml-bench", f"root={tmp_path}/m") == 2
    assert "usage:" in capfd.readouterr().err


def test_numbers_a_journal_refuses_come_back():
    value = {"a": [math.nan, -math.inf, 1.5], "b": {"c": math.inf}, "d": "nan"}
    stored = json.loads(json.dumps(storable(value), allow_nan=False))
    assert str(restored(stored)) == str(value)


def test_imported_runs_are_in_mlflow_and_can_be_exported_from_there(bench, tmp_path):
    results, root, uri = tmp_path / "r", tmp_path / "m", f"sqlite:///{tmp_path}/m/mlflow.db"
    result(results, "aide", FAIR, [step(1, None), step(2, 0.4)], baseline_primary_metric=0.5)
    words = (f"root={root}", f"uri={uri}")
    assert run("import", "fml-bench", str(results), f"bench={bench}", *words) == 0
    (first,) = load_runs(uri, root).to_dict("records")
    assert (first["test"], first["status"], first["steps"]) == (0.6, "finished", 2)
    shutil.rmtree(root / "runs")
    assert run("export", "fml-bench", "--out", str(tmp_path / "out"), "sweep=all", *words) == 0
    assert contents(tmp_path / "out" / "gpt-5.s0") == contents(results)
