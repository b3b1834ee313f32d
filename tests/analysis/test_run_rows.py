"""The metrics of one run, against numbers worked out by hand."""

import math

import pytest
from journals import ERROR, events, folded

from fml_hydra.analysis import curves
from fml_hydra.analysis.rows import RunRow, StepRow, run_table, step_table
from fml_hydra.analysis.runs import run_row, step_rows


def test_a_finished_run():
    state = folded([None, 0.6, 0.4, 0.8, 0.8], test=0.7)
    row = run_row(state, "r1")
    expected = {
        "run_id": "r1",
        "status": "finished",
        "termination": "steps",
        "termination_step": 5,
        "best_val": 0.8,
        "best_step": 3,  # the earlier of two, from 0
        "best_improvement_step": 5,  # the later of the two, from 1
        "first_improvement_step": 2,
        "improvement": pytest.approx(0.3),  # 0.7 - 0.4
        "improvement_percent": pytest.approx(75.0),
        "normalized_improvement": pytest.approx(0.3),
        "normalized_improvement_val": pytest.approx(0.3),  # 0.8 - 0.5
        "val_test_gap": pytest.approx(0.0),
        "step_success_rate": 0.8,
        "step_completion_rate": 0.5,
        "auc": pytest.approx((0 + 0.1 + 0.1 + 0.3 + 0.3) / 5),
        "late_gain": pytest.approx((0.3 - 0.1) / 0.3),  # floor(5/2) = 2: the second step
        "tokens": 750,
        "tokens_input": 500,
        "tokens_cached": 200,
        "tokens_output": 250,
        "tokens_reasoning": 50,
        "tokens_per_step": 150,
        "cost_usd": pytest.approx(0.05),
        "cost_usd_per_step": pytest.approx(0.01),
        "seconds": 6.0,
        "seconds_per_step": pytest.approx(1.2),
        "seconds_llm": 2.5,
        "seconds_exec": 10.0,
    }
    assert {key: getattr(row, key) for key in expected} == expected


def test_lower_is_better_with_the_baseline_as_the_worst():
    row = run_row(folded([0.6, 0.2], ERROR, baseline=(0.5, 0.8), test=0.6))
    assert row.utility == -0.6
    assert row.improvement == pytest.approx(0.2)
    assert row.improvement_percent == pytest.approx(25.0)
    assert row.normalized_improvement == pytest.approx(0.25)  # 0.2 / 0.8
    assert row.normalized_improvement_val == pytest.approx(0.6)  # 0.3 / 0.5
    assert row.val_test_gap == pytest.approx(0.35)
    assert row.auc == pytest.approx(0.3)  # (0 + 0.6) / 2
    assert row.late_gain == pytest.approx(1.0)
    assert math.isnan(row.worst_possible)


def test_a_run_without_a_good_step():
    row = run_row(folded([None, None], test=0.4))
    assert (row.step_success_rate, row.auc, row.normalized_improvement) == (0.0, 0.0, 0.0)
    missing = (row.best_val, row.best_step, row.first_improvement_step, row.late_gain)
    assert all(map(math.isnan, (*missing, row.best_improvement_step)))


def test_a_run_that_has_only_begun():
    row = run_row(folded([]))
    assert (row.status, row.steps, row.step_completion_rate) == ("running", 0, 0.0)
    for name in ("step_success_rate", "auc", "test", "utility", "val_test_gap", "tokens_per_step"):
        assert math.isnan(getattr(row, name)), name


@pytest.mark.parametrize(("base", "percent"), [(-0.5, 220.0), (0.0, math.nan)])
def test_negative_and_zero_baselines(base, percent):
    row = run_row(folded([0.6], baseline=(base, base), test=0.6))
    assert row.improvement == pytest.approx(0.6 - base)
    assert row.improvement_percent == pytest.approx(percent, nan_ok=True)


def test_a_range_without_width_cannot_be_normalized():
    row = run_row(folded([0.1, 0.0], ERROR, baseline=(0.0, 0.0), test=0.0))
    assert math.isnan(row.auc)
    assert math.isnan(row.first_improvement_step)


def test_a_single_step_is_in_the_first_half():
    assert curves.late_gain([0.4]) == 0.0
    assert curves.late_gain([0.0, 0.4]) == 1.0
    assert math.isnan(curves.late_gain([0.0, 1e-13]))
    assert curves.first_improvement([0.0, 1e-15, 2e-15]) == 3.0


def test_what_a_program_does_not_tell_is_missing_and_not_zero():
    state = folded([0.6, 0.7], test=0.7)
    state.notes["spend"] = {"usage": None, "cost": None}
    row, step = run_row(state), step_rows(state)[0]
    for name in ("tokens", "tokens_input", "tokens_cached", "tokens_output", "cost_usd"):
        assert math.isnan(getattr(row, name)), name
    assert math.isnan(step.tokens)
    assert math.isnan(step.tokens_reasoning)


def test_steps_of_a_run():
    steps = step_table(vars(s) for s in step_rows(folded([None, 0.6, 0.4, 0.8]), "r1"))
    assert list(steps["k"]) == [1, 2, 3, 4]
    assert list(steps["step"]) == [0, 1, 2, 3]
    assert list(steps["ok"]) == [False, True, True, True]
    assert list(steps["best_val"])[1:] == [0.6, 0.6, 0.8]
    assert list(steps["gain"]) == pytest.approx([0, 0.1, 0.1, 0.3])
    assert list(steps["metric.acc"])[1:] == [0.6, 0.4, 0.8]
    assert math.isnan(steps["metric.time"][0])
    assert list(steps["error"]) == ["ValueError: no", "", "", ""]
    assert list(steps["parents"]) == ["", "0", "1", "2"]
    assert set(steps["plan"]) == {"raise it"}


def test_empty_tables_have_their_columns():
    assert set(run_table([])) == set(RunRow.__dataclass_fields__)
    assert set(step_table([])) == set(StepRow.__dataclass_fields__) - {"metrics"}


def test_steps_that_finished_out_of_order_are_counted_in_theirs():
    from pathlib import Path

    from fml_hydra.journal import Folded

    opened, first, second = events([0.6, 0.7])
    state = Folded(Path("j"), [opened, second, first])
    assert [s.step for s in step_rows(state)] == [0, 1]
