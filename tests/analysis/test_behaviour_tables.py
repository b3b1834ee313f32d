"""A row per step from journals with known changes, and the tables made of them."""

import math
from pathlib import Path
from typing import Any

import journals
import pandas as pd
import pytest

from fml_hydra.analysis.behaviour import (
    CATEGORIES,
    behaviour,
    behaviour_shares,
    best_and_worst,
    repeated_errors,
    run_shares,
)
from fml_hydra.analysis.behaviour.shares import error_kind
from fml_hydra.analysis.load import load_folder, load_steps

BASE = "RATE = 1\n\n\ndef fit(x):\n    return x * RATE\n"
TUNED, NEW = BASE.replace("1", "2"), BASE.replace("x * RATE", "x**2 * RATE - 1")
DEAD = BASE + "\n\ndef unused(x):\n    return x\n"
STEPS: list[dict[str, Any]] = [
    {"snapshot": {"model.py": TUNED}, "outputs": "o1"},
    {"snapshot": {"model.py": NEW}, "parents": [0], "status": "crash", "metrics": {}},
    {"snapshot": {"model.py": TUNED}, "parents": [1], "op": "debug", "outputs": "o1"},
    {"snapshot": {"model.py": DEAD}, "outputs": "base"},
    {"snapshot": {"model.py": DEAD}, "outputs": "other"},
    {"snapshot": {}, "status": "noop", "metrics": {}},
    {"snapshot": {"model.py": "def f(:"}, "status": "syntax", "metrics": {}},
    {"snapshot": {"model.py": NEW}, "status": "invalid"},
    {"snapshot": {"model.py": NEW}, "status": "invalid", "metrics": {}},
]
TOLD = {"crash": "Traceback\nValueError: size 5 of /tmp/a/b.npy", "syntax": "m.py:1: bad"}


def history(steps: list[dict[str, Any]], **header: Any) -> list[dict[str, Any]]:
    header = {"pristine": {"model.py": BASE}, "baseline_outputs": "base", **header}
    events = journals.events([0.5] * len(steps), test=0.6, **header)
    for event in events:
        if event["e"] == "node":
            step = {"parents": [], "outputs": "", "feedback": "", **steps[event["id"]]}
            step.setdefault("status", "ok")
            if step["status"] != "ok":
                step["utility"] = None
                step["feedback"] = step["feedback"] or TOLD.get(step["status"], "")
            event.update(step)
    return events


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    root = tmp_path_factory.mktemp("runs")
    journals.written(root / "runs" / "a", history(STEPS, instance="a", seed=0))
    tuned = [{"snapshot": {"model.py": TUNED}}] * 2
    journals.written(root / "runs" / "b", history(tuned, instance="b", seed=1))
    return load_folder(root)


@pytest.fixture(scope="module")
def table(runs: pd.DataFrame) -> pd.DataFrame:
    return behaviour(runs)


def test_a_row_per_step(table: pd.DataFrame):
    assert list(table["step"]) == [*range(9), 0, 1]
    assert set(table["judge"]) == {"rules"}
    first = table[table["run_id"] == "a"]
    assert list(first["category"]) == [
        "parameter configuration",
        "implementation error",
        "other",  # the repair of the step before, though only a constant differs from the baseline
        "other",
        "other",
        "other",
        "implementation error",
        "algorithmic modification",  # a broken constraint is a result
        "implementation error",
    ]
    assert list(first["kind"])[:4] == ["parameter", "algorithmic", "bugfix", "shallow"]
    assert list(first["kind"])[5:7] == ["", ""]
    assert first["rule"][2] == "repairs a step that failed"


def test_academic_where_code_changed(table: pd.DataFrame):
    found = [None if pd.isna(value) else bool(value) for value in table["academic"][:9]]
    assert found == [False, True, False, False, False, None, None, True, True]


def test_shallow_needs_equal_outputs(table: pd.DataFrame):
    assert list(table["shallow"][:9]) == [False, False, False, True] + [False] * 5


def test_what_changed_is_said(table: pd.DataFrame):
    assert list(table["changes"][[0, 3, 5, 6]]) == [
        "constants 1 (RATE)",
        "new function 1 (unused); unreached 1 (unused)",
        "",
        "does not parse",
    ]


def test_shares_are_means_over_runs(table: pd.DataFrame):
    by_run = run_shares(table).set_index("run_id")
    assert by_run.loc["a", "steps"] == 9
    assert by_run.loc["a", "implementation error"] == pytest.approx(3 / 9)
    assert by_run.loc["a", "acr"] == pytest.approx(3 / 7)
    assert by_run.loc["a", "shallow"] == pytest.approx(1 / 9)
    assert by_run.loc["b", "acr"] == 0
    (row,) = behaviour_shares(table).to_dict("records")
    assert (row["agent"], row["llm"], row["n"]) == ("aide", "offline", 2)
    assert row["parameter configuration"] == pytest.approx((1 / 9 + 1) / 2)
    assert row["acr"] == pytest.approx(3 / 14)
    assert sum(row[name] for name in CATEGORIES) == pytest.approx(1)


def test_best_and_worst_run(table: pd.DataFrame, runs: pd.DataFrame):
    known = runs.assign(normalized_improvement=[0.1, 0.4])
    cases = best_and_worst(table, known)
    assert list(cases["case"]) == ["best", "worst"]
    assert list(cases["run_id"]) == ["b", "a"]
    assert list(cases["parameter configuration"]) == pytest.approx([1, 1 / 9])
    single = best_and_worst(table, known[:1])
    assert list(single["run_id"]) == ["a", "a"]
    untested = best_and_worst(table, runs.assign(normalized_improvement=math.nan))
    assert untested.empty
    assert list(untested.columns) == list(cases.columns)


def test_a_run_without_readable_code_has_no_rate(tmp_path: Path):
    steps = [{"snapshot": {}, "status": "noop", "metrics": {}}]
    journals.written(tmp_path / "runs" / "a", history(steps))
    (row,) = behaviour_shares(behaviour(load_folder(tmp_path))).to_dict("records")
    assert math.isnan(row["acr"])
    assert row["other"] == 1


def test_runs_without_a_journal_are_left_out(runs: pd.DataFrame):
    found = behaviour(runs.assign(journal=[runs["journal"][0], ""]))
    assert set(found["run_id"]) == {"a"}
    nothing = behaviour(runs[:0])
    assert nothing.empty
    assert behaviour_shares(nothing).empty
    assert best_and_worst(nothing, runs).empty
    assert "acr" in behaviour_shares(nothing)


def test_a_journal_without_the_baselines_code(tmp_path: Path):
    steps = [{"snapshot": {"model.py": BASE}}, {"snapshot": {"model.py": TUNED}, "parents": [0]}]
    journals.written(tmp_path / "runs" / "a", history(steps, pristine={}))
    assert behaviour(load_folder(tmp_path))["kind"][1] == "parameter"


def test_errors_that_repeat(tmp_path: Path):
    bad = {"snapshot": {"model.py": NEW}, "status": "crash", "metrics": {}}
    size = [bad | {"feedback": f"ValueError: size {n} of /tmp/{n}/b.npy"} for n in (5, 77)]
    other = bad | {"feedback": "NameError: y"}
    good = {"snapshot": {"model.py": TUNED}}
    journals.written(tmp_path / "runs" / "a", history([*size, good, other, other], instance="a"))
    journals.written(tmp_path / "runs" / "b", history([size[0], good], instance="b", seed=1))
    found = repeated_errors(load_steps(load_folder(tmp_path)))
    assert found[["error", "steps", "runs", "again"]].to_numpy().tolist() == [
        ["ValueError: size # of b.npy", 3, 2, 1],
        ["NameError: y", 2, 1, 1],
    ]
    assert found["example"][0] == "ValueError: size 5 of /tmp/5/b.npy"
    assert repeated_errors(load_steps(load_folder(tmp_path))[:0]).empty


@pytest.mark.parametrize(
    ("told", "kind"),
    [
        ("one\nmat1 and mat2 (512x392 and 196x64)\n", "mat1 and mat2 (#,# and #)"),
        ("shape '[256, 6, 1]' for size 512", "shape '[#]' for size #"),
        ("<object at 0x7f32ab90>", "<object at #>"),
        ("No such file: '/tmp/slot-3/out/a.npz'", "No such file: 'a.npz'"),
        (r"C:\work\run.py failed", "run.py failed"),
        ("loss is -1.5e-05, and/or NaN", "loss is #, and/or NaN"),
        ("", ""),
    ],
)
def test_what_differs_between_equal_errors_is_left_out(told: str, kind: str):
    assert error_kind(told) == kind
