"""The sub-commands, as a user types them."""

import csv
import os
import subprocess
import sys
from pathlib import Path

import pytest


def fml(*words: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "fml_hydra", *words],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env={**os.environ, "COLUMNS": "160", **env},
    )


@pytest.fixture
def own(tmp_path) -> list[str]:
    """A fresh task of the user's, and the words that lead to it."""
    done = fml("tasks", "new", "mine", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    return ["--config-dir", "conf", "tasks_dir=tasks", f"cache_dir={tmp_path}/cache"]


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def rows(tmp_path: Path) -> dict[str, dict[str, str]]:
    with (tmp_path / "mlruns" / "checks" / "mine.csv").open() as file:
        return {row["method"]: row for row in csv.DictReader(file)}


def test_a_new_task_passes_its_own_check(own, tmp_path):
    done = fml("tasks", "check", "mine", *own, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    found = rows(tmp_path)
    assert {row["verdict"] for row in found.values()} == {"ok"}
    assert found["divide_by_zero"]["status"] == "crash"
    assert len(found["baseline"]["val_by_seed"].split()) == 10
    assert float(found["converged"]["val"]) == pytest.approx(0.0172, abs=1e-4)


def test_check_finds_what_does_not_agree(own, tmp_path):
    change(tmp_path / "conf/task/mine.yaml", "converged: {val: 0.0172", "converged: {val: 0.2")
    change(tmp_path / "tasks/mine/ideas/more_steps.md", "effect: good", "effect: crash")
    change(tmp_path / "tasks/mine/ideas/larger_rate.md", "LEARNING_RATE = 0.1", "RATE = 0.1")
    change(tmp_path / "tasks/mine/ideas/divide_by_zero.md", "effect: crash", "effect: shallow")
    done = fml("tasks", "check", "mine", *own, cwd=tmp_path)
    assert done.returncode == 1
    found = {name: row["verdict"] for name, row in rows(tmp_path).items()}
    assert found["baseline"] == "ok"
    assert found["converged"].startswith("val is off by 0.18")
    assert found["more_steps"] == "declared crash, is ok"
    assert found["larger_rate"].startswith("does not apply")
    assert found["divide_by_zero"] == "declared shallow, is crash"


def test_a_quick_check_measures_one_seed_and_no_ideas(own, tmp_path):
    assert fml("tasks", "check", "mine", "--quick", *own, cwd=tmp_path).returncode == 0
    assert set(rows(tmp_path)) == {"baseline", "converged"}


def test_a_baseline_that_crashes_is_shown(own, tmp_path):
    change(tmp_path / "tasks/mine/repo/solution.py", "STEPS = 20", "STEPS = 1 / 0")
    done = fml("tasks", "check", "mine", "--quick", *own, cwd=tmp_path)
    assert done.returncode == 1
    assert "ZeroDivisionError" in done.stdout


def test_prepare_says_where_the_data_is(own, tmp_path):
    done = fml("tasks", "prepare", "mine", *own, cwd=tmp_path)
    assert done.returncode == 0
    assert f"mine: splits: {tmp_path}/cache/data/mine/" in done.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["tasks"], "tasks needs one of list, prepare, check, new"),
        (["tasks", "chek"], "tasks needs one of list, prepare, check, new"),
        (["tasks", "check", "fairnes"], "did you mean fairness?"),
        (["tasks", "new"], "tasks new needs one name"),
        (["tasks", "new", "a b"], "tasks new needs one name"),
        (["ui", "port=x"], "port=x: not a number"),
        (["ui"], "mlflow.db does not exist"),
        (
            ["ui", "tracking.uri=3"],
            "tracking.uri (conf/config.yaml): Input should be a valid string",
        ),
        (["sync", "tracking.traces=maybe"], "tracking.traces (conf/config.yaml): Input should be"),
        (["import", "fml-bench", ".", "tracking.uri=3"], "tracking.uri (conf/config.yaml): Input"),
        (["doctor", "sed=1"], "did you mean seed?"),
    ],
)
def test_wrong_words_are_one_line(words, message, tmp_path):
    done = fml(*words, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_doctor_names_keys_but_never_their_values(tmp_path):
    secret = "sk-planted-secret"
    done = fml("doctor", "tracking=none", cwd=tmp_path, OPENAI_API_KEY=secret)
    assert done.returncode == 0, done.stdout + done.stderr
    assert secret not in done.stdout + done.stderr
    line = next(x for x in done.stdout.splitlines() if "OPENAI_API_KEY" in x)
    assert " set " in line
    assert "not set" not in line
