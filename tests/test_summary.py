"""A run's row, against numbers worked out by hand."""

from dataclasses import fields
from pathlib import Path

import pytest

from fml_hydra.journal import Folded
from fml_hydra.summary import Summary, best_so_far, metric_of, summarize
from fml_hydra.usage import Usage

ACCURACY = {"name": "acc", "direction": "higher", "best": 1.0, "worst": 0.0}


def header(metric=ACCURACY, val=0.5, test=0.4, **more):
    name = metric["name"]
    return {
        "e": "open",
        "t": 100.0,
        "task": "toy",
        "agent": "aide",
        "llm": "offline",
        "seed": 3,
        "identity": "toy.aide.offline.s3.abc",
        "steps": 5,
        "sandbox": "bubblewrap",
        "isolation": "separate",
        "metric": metric,
        "baseline": {"val": {name: val}, "test": {name: test}},
        **more,
    }


def step(number, value, metric=ACCURACY, cost=0.01, tokens=(10, 5), status="crash"):
    """A step whose metric is `value`; one that failed as `status` says if it is None."""
    sign = 1 if metric["direction"] == "higher" else -1
    return {
        "e": "node",
        "t": 101.0 + number,
        "id": number,
        "op": "draft",
        "parents": [],
        "meta": {},
        "status": status if value is None else "ok",
        "utility": None if value is None else sign * value,
        "metrics": {} if value is None else {metric["name"]: value},
        "snapshot": {},
        "usage": {"input": tokens[0], "output": tokens[1]},
        "cost": cost,
        "seconds_llm": 0.5,
        "seconds_exec": 2.0,
        "flags": [],
    }


def folded(*events) -> Folded:
    return Folded(Path("journal.jsonl"), list(events))


def test_every_field_of_a_finished_run():
    state = folded(
        header(noise={"sd": {"val": 0.01, "test": 0.02}, "seeds": 5, "source": "measured"}),
        step(0, 0.6),
        step(1, None),
        step(2, 0.8, tokens=(100, 50)),
        step(3, 0.8),
        {"e": "close", "t": 110.0, "reason": "tokens", "step": 4},
        {"e": "test", "t": 112.5, "value": 0.7, "step": 2, "metrics": {"acc": 0.7}},
    )
    row = summarize(state)
    expected = {
        "task": "toy",
        "agent": "aide",
        "llm": "offline",
        "seed": 3,
        "identity": "toy.aide.offline.s3.abc",
        "status": "finished",
        "termination": "tokens",
        "baseline_val": 0.5,
        "baseline_test": 0.4,
        "best_val": 0.8,
        "best_step": 2,  # the earlier of two equals
        "test": 0.7,
        "fallback": "",
        "improvement": pytest.approx(0.3),  # 0.7 - 0.4
        "normalized_improvement": pytest.approx(0.3),  # / |1.0 - 0.0|
        "noise": 0.02,
        "steps": 4,
        "budget": 5,
        "success_rate": 0.75,  # three of four
        "completion_rate": 0.8,  # four of five
        "seconds_exec": 8.0,
        "seconds": 12.5,
        "sandbox": "bubblewrap",
        "isolation": "separate",
        "tokens": 195,
    }
    assert {key: getattr(row, key) for key in expected} == expected
    assert row.spend.usage == Usage(input=130, output=65)
    assert row.spend.cost == pytest.approx(0.04)
    assert row.spend.seconds == 2.0
    assert set(expected) | {"spend"} == {f.name for f in fields(Summary)}


def test_lower_is_better_and_the_baseline_is_the_worst():
    error = {"name": "err", "direction": "lower", "best": 0.1, "worst": None}
    state = folded(
        header(error, val=0.5, test=0.6),
        step(0, 0.55, error),
        step(1, 0.3, error),
        step(2, 0.4, error),
        {"e": "test", "t": 104.0, "value": 0.35, "step": 1, "metrics": {"err": 0.35}},
    )
    row = summarize(state)
    assert (row.best_val, row.best_step) == (0.3, 1)
    assert row.improvement == pytest.approx(0.25)  # 0.6 - 0.35
    assert row.normalized_improvement == pytest.approx(0.5)  # / |0.1 - 0.6|
    assert best_so_far(list(state.history()), metric_of(state)) == [0.55, 0.3, 0.3]


def test_worse_than_the_baseline_is_negative_but_normalized_to_zero():
    state = folded(
        header(), step(0, 0.3), {"e": "test", "t": 102.0, "value": 0.1, "step": 0, "metrics": {}}
    )
    row = summarize(state)
    assert row.improvement == pytest.approx(-0.3)
    assert row.normalized_improvement == 0.0


def test_no_step_has_a_metric():
    reason = "no step has a metric"
    state = folded(
        header(),
        step(0, None),
        step(1, None, status="noop"),
        {"e": "close", "t": 105.0, "reason": "steps", "step": 2},
        {"e": "test", "t": 105.0, "value": 0.4, "step": None, "metrics": {}, "fallback": reason},
    )
    row = summarize(state)
    assert (row.best_val, row.best_step) == (None, None)
    assert row.test == row.baseline_test == 0.4
    assert row.fallback == reason
    assert row.improvement == row.normalized_improvement == 0.0
    assert row.success_rate == 0.0
    assert best_so_far(list(state.history()), metric_of(state)) == [None, None]


def test_the_best_step_crashes_on_test():
    reason = "step 0 on test: crash, ValueError"
    state = folded(
        header(),
        step(0, 0.9),
        {"e": "test", "t": 103.0, "value": 0.4, "step": 0, "metrics": {}, "fallback": reason},
    )
    row = summarize(state)
    assert (row.best_val, row.best_step) == (0.9, 0)
    assert (row.test, row.fallback) == (0.4, reason)
    assert row.improvement == 0.0


def test_one_unknown_price_makes_the_total_unknown():
    state = folded(header(), step(0, 0.6), step(1, 0.7, cost=None), step(2, 0.8))
    row = summarize(state)
    assert row.spend.cost is None
    assert row.spend.usage.total == 45


def test_one_step_of_one():
    row = summarize(folded(header(steps=1), step(0, 0.6)))
    assert (row.steps, row.success_rate, row.completion_rate) == (1, 1.0, 1.0)
    assert row.status == "running"
    assert (row.test, row.improvement, row.normalized_improvement) == (None, None, None)
    assert row.termination == ""


def test_before_the_first_step():
    row = summarize(folded(header()))
    assert row.success_rate is None
    assert (row.steps, row.completion_rate, row.seconds) == (0, 0.0, 0.0)
    assert (row.best_val, row.best_step, row.spend.cost) == (None, None, 0.0)


@pytest.mark.parametrize("reason", ["interrupted", "infra"])
def test_put_down_and_taken_up_again(reason):
    events = [header(), step(0, 0.6), {"e": "pause", "t": 103.0, "reason": reason, "detail": ""}]
    assert summarize(folded(*events)).status == reason
    again = folded(*events, {**header(), "t": 1000.0}, {**step(1, 0.7), "t": 1004.0})
    row = summarize(again)
    assert row.status == "running"
    assert row.seconds == 7.0  # three before, four after; not the time between
    ended = {"e": "close", "t": 1005.0, "reason": "finished_early", "step": 2}
    again.take(ended, 6)
    row = summarize(again)
    assert (row.status, row.termination) == (
        "running",
        "finished_early",
    )  # the test is still to come


@pytest.mark.parametrize(
    ("told", "tokens", "cost"),
    [
        ({"usage": {"input": 500, "output": 20}, "cost": 0.5}, 520, 0.5),
        ({"usage": {"input": 0, "output": 0}, "cost": 0.0}, 0, 0.0),  # it says so: not N/A
        ({"usage": None, "cost": None}, None, None),
    ],
)
def test_a_programs_own_account_counts_what_came_after_its_last_step(told, tokens, cost):
    note = {"e": "note", "t": 103.0, "key": "spend", "value": told}
    row = summarize(folded(header(), step(0, 0.6), note))
    assert (row.tokens, row.spend.cost) == (tokens, cost)
