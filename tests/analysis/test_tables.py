"""Best of n, reliability, cost and places, against tables worked out by hand."""

import math

import pytest
from across import row, table

from fml_hydra.analysis import tables


def test_best_of_n_rounds():
    runs = table(
        row("a", 0, 0.3), row("a", 1, 0.7), row("a", 2, 0.7), row("b", 0, 0.4), row("b", 1, None)
    )
    best = tables.best_of_n(runs)
    assert list(best["agent"]) == ["a", "b"]
    assert list(best["test"]) == [0.7, 0.4]
    assert list(best["seed"]) == [1, 0]  # of equals the lowest
    assert list(best["rounds"]) == [3, 1]
    assert list(best["short"]) == [False, True]
    assert list(tables.best_of_n(runs, asked=5)["short"]) == [True, True]


def test_best_of_n_where_lower_is_better():
    runs = table(row("a", s, v, direction="lower") for s, v in enumerate([0.3, 0.1, 0.2]))
    assert list(tables.best_of_n(runs)["test"]) == [0.1]
    assert list(tables.best_of_n(runs, n=1)["test"]) == [0.3]


def test_best_of_n_never_falls_with_n():
    values = [0.3, 0.1, 0.6, 0.2, 0.9, 0.4]
    runs = table(row("a", s, v) for s, v in enumerate(values))
    found = [tables.best_of_n(runs, n)["test"].iloc[0] for n in range(1, 7)]
    assert found == [0.3, 0.3, 0.6, 0.6, 0.9, 0.9]


def test_two_sweeps_with_the_same_cell_count_once():
    runs = table(
        row("a", 0, 0.9, started=1.0, sweep="old"),
        row("a", 0, 0.2, started=2.0, sweep="new"),
        row("a", 0, None, started=3.0, sweep="newest"),
    )
    assert list(tables.one_per_cell(runs)["sweep"]) == ["new"]
    best = tables.best_of_n(runs)
    assert (best["test"][0], best["rounds"][0]) == (0.2, 1)


def test_mean_and_std_over_tasks_and_rounds():
    rates = [("t", 0, 1.0), ("t", 1, 0.5), ("u", 0, 0.6)]
    runs = table(
        [row("a", s, task=t, step_success_rate=r, step_completion_rate=0.5) for t, s, r in rates],
        row("b", step_completion_rate=0.25),
    )
    found = tables.reliability(runs).set_index(["agent", "metric"])
    assert found.loc[("a", "step_success_rate"), "n"] == 3
    assert found.loc[("a", "step_success_rate"), "mean"] == pytest.approx(0.7)
    # deviations 0.3, -0.2, -0.1: variance 0.14 / 2
    assert found.loc[("a", "step_success_rate"), "std"] == pytest.approx(math.sqrt(0.07))
    assert found.loc[("b", "step_success_rate"), "n"] == 0
    shown = tables.readable(tables.reliability(runs)).set_index("agent")
    assert shown.loc["a", "step_success_rate"] == "0.70 ± 0.26"
    assert shown.loc["a", "step_completion_rate"] == "0.50 ± 0.00"
    assert shown.loc["b", "step_success_rate"] == "N/A"
    assert shown.loc["b", "step_completion_rate"] == "0.25"  # one run has no deviation


def test_what_is_not_told_is_not_counted_as_zero():
    runs = table(row("a", 0, tokens=100.0), row("a", 1), row("b", 0))
    found = tables.cost(runs).set_index(["agent", "metric"])
    assert found.loc[("a", "tokens"), "mean"] == 100
    assert found.loc[("a", "tokens"), "n"] == 1
    assert math.isnan(found.loc[("b", "tokens"), "mean"])


def test_first_places_and_shared_ones():
    runs = table(
        row("a", test=0.5, task="t"),
        row("b", test=0.5, task="t"),
        row("a", test=0.9, task="u"),
        row("b", test=0.1, task="u"),
        row("c", test=0.1, task="t"),
    )
    found = tables.first_places(tables.best_of_n(runs)).set_index("agent")
    assert dict(found["first"]) == {"a": 2, "b": 1, "c": 0}
    assert dict(found["shared"]) == {"a": 1, "b": 1, "c": 0}
    assert dict(found["tasks"]) == {"a": "t=, u", "b": "t=", "c": ""}


def test_why_runs_ended():
    runs = table(
        row("a", 0, termination="steps", steps=10),
        row("a", 1, termination="steps", steps=20),
        row("a", 2, termination="dollars", steps=4),
        row("a", 3, None, status="infra", steps=2),
    )
    found = tables.terminations(runs).set_index("reason")
    assert dict(found["runs"]) == {"dollars": 1, "infra": 1, "steps": 2}
    assert found.loc["steps", "step"] == 15


def test_missing_cells():
    runs = table(row("a", 0), row("a", 1), row("b", 0), row("b", 1, None))
    assert tables.missing_cells(runs).to_dict("records") == [
        {"task": "t", "agent": "b", "llm": "m", "seed": 1}
    ]


def test_no_runs_break_no_table():
    runs = table()
    for make in (tables.best_of_n, tables.cost, tables.terminations, tables.missing_cells):
        assert make(runs).empty, make
    assert tables.first_places(tables.best_of_n(runs)).empty
    assert tables.readable(tables.cost(runs)).empty
