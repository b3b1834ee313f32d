"""Pairs, decomposition, profiles and known methods, against numbers worked out by hand."""

import math

import pandas as pd
import pytest
from across import row, table

from fml_hydra.analysis.comparison import interquartile_means, pairwise
from fml_hydra.analysis.decomposition import decomposition
from fml_hydra.analysis.known import known_methods, relative_to_known
from fml_hydra.analysis.profiles import performance_profiles, score_profiles
from fml_hydra.analysis.tables import best_of_n


def test_pairs_are_of_the_same_task_and_seed():
    runs = table(
        [row("a", s, 0.5 + 0.1 * s) for s in range(5)],
        [row("b", s, 0.5) for s in range(1, 6)],
        [row("c", s, 0.5) for s in range(6, 9)],
    )
    found = pairwise(runs, resamples=200).set_index(["a", "b"])
    ab = found.loc[("a · m", "b · m")]
    assert (ab["n"], ab["tasks"]) == (4, 1)
    assert ab["difference"] == pytest.approx(0.25)  # 0.1, 0.2, 0.3, 0.4
    assert 0.1 <= ab["low"] < 0.25 < ab["high"] <= 0.4
    assert ab["p"] == pytest.approx(0.125)  # all four positive: 2 / 2**4
    assert ab["p_holm"] == pytest.approx(0.125)  # the other pairs have no p
    assert found.loc[("a · m", "c · m"), "undefined"] == "no task and seed in common"


def test_equal_configurations():
    runs = table([row(agent, s, 0.5) for agent in "ab" for s in range(3)])
    found = pairwise(runs, resamples=50).loc[0]
    assert found["undefined"] == "all differences are 0"
    assert (found["low"], found["high"]) == (0, 0)
    assert math.isnan(found["p"])


def test_seeds_are_drawn_within_their_task():
    """Two tasks that differ a lot, seeds that do not: the interval has no width."""
    runs = table(
        [row("a", s, v, task=t) for s in range(4) for t, v in (("t", 0.0), ("u", 1.0))],
        [row("b", s, 0.0, task=t) for s in range(4) for t in "tu"],
    )
    found = pairwise(runs, resamples=100).loc[0]
    assert (found["difference"], found["low"], found["high"]) == (0.5, 0.5, 0.5)


def test_interquartile_means():
    values = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 1.0]
    found = interquartile_means(table(row("a", s, v) for s, v in enumerate(values))).loc[0]
    assert found["iqm"] == pytest.approx(0.35)
    assert found["mean"] == pytest.approx(3.1 / 8)
    assert (found["n"], found["tasks"]) == (8, 1)
    assert found["low"] < 0.35 < found["high"]


def crossed(value, agents="ab", llms="xy", tasks="tu", seeds=2):
    return table(
        row(agent, seed, float(value(agent, llm, task, seed)), llm=llm, task=task)
        for agent in agents
        for llm in llms
        for task in tasks
        for seed in range(seeds)
    )


def test_decomposition_of_a_full_cross_product():
    # a or b: +-1, x or y: +-2, seeds: +-0.5, 16 runs: 16 * (1 + 4 + 0.25)
    runs = crossed(
        lambda a, m, t, s: (1 if a == "a" else -1) + (2 if m == "x" else -2) + (0.5 if s else -0.5)
    )
    found = decomposition(runs).set_index("source")
    assert dict(found["sum_of_squares"]) == pytest.approx(
        {"agent": 16, "llm": 64, "task": 0, "rest": 4}
    )
    assert dict(found["share"]) == pytest.approx(
        {"agent": 16 / 84, "llm": 64 / 84, "task": 0, "rest": 4 / 84}
    )
    assert dict(found["df"]) == {"agent": 1, "llm": 1, "task": 1, "rest": 12}
    # F(1, 12) = 48 is t(12) = sqrt(48); with tan x = t / sqrt(12) = 2 the tail has a closed form:
    # 1 - sin x (1 + cos^2 / 2 + 3 cos^4 / 8 + 5 cos^6 / 16 + 35 cos^8 / 128 + 63 cos^10 / 256)
    series = (1, 1 / 2, 3 / 8, 5 / 16, 35 / 128, 63 / 256)
    tail = 1 - 2 / math.sqrt(5) * sum(c / 5**i for i, c in enumerate(series))
    assert found.loc["agent", "p"] == pytest.approx(tail, rel=1e-6)
    assert found.loc["task", "p"] == pytest.approx(1.0)


def test_decomposition_adds_up_without_a_full_cross_product():
    runs = crossed(lambda a, m, t, s: hash((ord(a), ord(m), ord(t), s)) % 97)
    found = decomposition(runs.drop([0, 3, 7]))
    assert found["share"].sum() == pytest.approx(1.0)
    assert (found["share"] >= 0).all()


def test_agents_with_an_llm_of_their_own_cannot_be_told_apart():
    runs = pd.concat([crossed(lambda *_: 1, "a", "x"), crossed(lambda *_: 2, "b", "y")])
    found = decomposition(runs).set_index("source")
    assert "cannot be told apart" in found.loc["agent", "note"]
    assert math.isnan(found.loc["agent", "p"])
    assert found.loc["agent", "share"] == pytest.approx(0.5)
    assert found.loc["llm", "share"] == pytest.approx(0.5)


def test_decomposition_of_nothing_and_of_equal_values():
    assert set(decomposition(table())["note"]) == {"no runs"}
    found = decomposition(crossed(lambda *_: 0.3))
    assert set(found["note"]) == {"all values are equal"}
    assert found["share"].isna().all()
    one = decomposition(table(row("a")))
    assert set(one["note"]) == {"all values are equal"}


def pool():
    """Higher: best 0.8, ratios 1 and 2, baseline 0.2 (4). Lower: 0.1 best, c is infeasible."""
    return best_of_n(
        table(
            row("a", test=0.8, task="up", baseline_test=0.2),
            row("b", test=0.4, task="up", baseline_test=0.2),
            row("a", test=0.2, task="down", baseline_test=0.8, direction="lower"),
            row("b", test=0.9, task="down", baseline_test=0.8, direction="lower"),
            row("c", test=0.1, task="down", baseline_test=0.8, direction="lower"),
        )
    )


def test_ratios_of_a_pool():
    found = performance_profiles(pool())
    names = ["a · m", "b · m", "c · m", "baseline"]
    assert list(found.ratios.columns) == names
    assert list(found.ratios.loc["up"]) == pytest.approx([1, 2, 4 * 1.05, 4])  # c is missing
    assert list(found.ratios.loc["down"]) == pytest.approx([2, 8 * 1.05, 1, 8])  # b is worse
    assert found.taus.iloc[-1] == pytest.approx(1.0)  # ceil(10 log10(8.4)) / 10
    assert len(found.taus) == 500
    aup = found.aup.set_index("configuration")
    assert dict(aup["feasible"]) == {"a · m": 2, "b · m": 1, "c · m": 1, "baseline": 2}
    assert set(aup["pool"]) == {", ".join(names)}
    # both within log10(2) of the best: 0.5 log10(2) + 1 - log10(2), up to one step of tau
    assert aup.loc["a · m", "aup"] == pytest.approx(1 - 0.5 * math.log10(2), abs=1 / 499)
    b = 1 - 0.5 * (math.log10(2) + math.log10(8.4))
    assert aup.loc["b · m", "aup"] == pytest.approx(b, abs=2 / 499)


def test_left_riemann_sum():
    """499 equal steps from 0 to 0.4; b is within reach from the first tau >= log10(2)."""
    runs = table(row("a", test=0.8), row("b", test=0.4))
    found = performance_profiles(best_of_n(runs), with_baseline=False)
    width = 0.4 / 499
    first = math.ceil(math.log10(2) / width)
    assert found.aup.set_index("configuration")["aup"]["b · m"] == pytest.approx(
        (499 - first) * width
    )
    assert found.aup.set_index("configuration")["aup"]["a · m"] == pytest.approx(0.4)


@pytest.mark.parametrize("with_baseline", [True, False])
def test_pools_without_a_ratio(with_baseline):
    perfect = table(row("a", test=0.0, direction="lower"), row("b", test=0.1, direction="lower"))
    found = performance_profiles(best_of_n(perfect), with_baseline)
    assert found.ratios.loc["t", "a · m"] == 1.0
    negative = table(row("a", test=-1.0, baseline_test=-2.0))
    found = performance_profiles(best_of_n(negative), with_baseline)
    assert found.ratios.empty
    assert found.aup["aup"].isna().all()
    assert performance_profiles(best_of_n(table()), with_baseline).aup.empty


def test_score_profiles():
    runs = table(row("a", 0, 0.6), row("a", 1, 0.2), row("a", 0, 0.3, task="u"), row("b", 0, 0.0))
    found = score_profiles(runs, points=3).set_index(["agent", "tau"])["share"]
    assert [found["a", t] for t in (0, 0.5, 1)] == [1.0, 0.25, 0.0]  # 0.5: half of t, none of u
    assert found["b", 0] == 0.0
    assert score_profiles(table()).empty


def test_relative_to_known_methods(tmp_path):
    (tmp_path / "t.yaml").write_text(
        "name: t\nmetric: {name: err, direction: lower}\n"
        "reported:\n  measured_with: x\n  baseline: {val: 0.5, test: 0.6}\n"
        "  references: {best: {val: 0.1, test: 0.2}, other: {val: 0.1, test: 0.3}}\n"
    )
    runs = table(
        row("a", 0, 0.4, baseline_test=0.6, direction="lower"),
        row("b", 0, 0.7, baseline_test=0.6, direction="lower"),
        row("c", 0, None, baseline_test=0.6, direction="lower"),
        row("d", 0, 0.1, baseline_test=0.2, direction="lower"),
        row("e", 0, 0.4, task="elsewhere"),
    )
    found = relative_to_known(runs, known_methods(tmp_path)).set_index("agent")
    assert found.loc["a", "relative"] == pytest.approx(50)  # half way from 0.6 to 0.2
    assert found.loc["b", "relative"] == pytest.approx(-25)
    assert found["relative"].isna().to_dict() == {
        "a": False,
        "b": False,
        "c": True,
        "d": True,
        "e": True,
    }
    assert found.loc["c", "undefined"] == "not tested"
    assert found.loc["d", "undefined"] == "the reference is no better than the baseline"
    assert found.loc["e", "undefined"] == "no reference solution is known"


def test_every_shipped_task_with_references_is_known():
    known = known_methods()
    assert {"fairness", "causality"} <= set(known["task"])
    fairness = known[known["task"] == "fairness"].set_index("method")
    assert fairness.loc["best", "test"] == 0.0216
