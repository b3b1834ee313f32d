"""Coefficients and corrections, against published and hand-worked values."""

import math

import numpy as np
import pytest
from across import row, table
from scipy import stats

from fml_hydra.analysis.correlations import correlations, within_agent, within_llm
from fml_hydra.analysis.statistics import correlate, holm, interval, iqm, pearson_p

PUBLISHED = [
    (0.8374, 14, 0.0002),
    (0.6287, 15, 0.0121),
    (0.5292, 14, 0.0517),
    (0.4418, 14, 0.1137),
    (0.4036, 15, 0.1358),
]
"""r, n and p of FML-bench v2; its r is rounded, so that the last digit of p may differ."""


@pytest.mark.parametrize(("r", "n", "p"), PUBLISHED)
def test_published_p(r, n, p):
    smallest, largest = pearson_p(r + 5e-5, n), pearson_p(r - 5e-5, n)
    assert round(smallest, 4) <= p <= round(largest, 4)
    assert largest - smallest < 2e-4
    assert pearson_p(-r, n) == pearson_p(r, n)


def test_against_scipy():
    generator = np.random.default_rng(1)
    x = generator.normal(size=15)
    y = x + generator.normal(size=15)
    y[3] = y[4]  # a tie
    found = correlate(x, y)
    assert (found.r, found.p) == pytest.approx(tuple(stats.pearsonr(x, y)), rel=1e-9)
    assert (found.spearman, found.spearman_p) == pytest.approx(tuple(stats.spearmanr(x, y)))
    assert found.low < found.r < found.high
    assert found == correlate(x, y)


def test_the_interval_covers_as_often_as_it_says():
    generator = np.random.default_rng(2)
    hits = 0
    for _ in range(100):
        x = generator.normal(size=40)
        y = 0.5 * x + math.sqrt(0.75) * generator.normal(size=40)
        found = correlate(x, y, resamples=150)
        hits += found.low <= 0.5 <= found.high
    assert 86 <= hits <= 99


def test_a_straight_line():
    found = correlate([1, 2, 3, 4, 5], [-2, -4, -6, -8, -10])
    assert (found.r, found.p, found.low, found.high) == pytest.approx((-1, 0, -1, -1))
    assert found.spearman_p == pytest.approx(2 / 120)  # two of all orders are as extreme


def test_few_pairs_claim_little():
    found = correlate([1, 2, 3], [1, 8, 27])
    assert (found.spearman, found.spearman_p) == pytest.approx((1, 1 / 3))  # 2 of 6 orders
    assert math.isnan(found.low)
    assert math.isnan(found.high)


def test_rank_p_over_all_orders_is_scipys():
    generator = np.random.default_rng(3)
    x, y = generator.normal(size=(2, 6))

    def strength(order):
        return stats.spearmanr(x, order).statistic

    exact = stats.permutation_test((y,), strength, permutation_type="pairings", n_resamples=720)
    assert correlate(x, y).spearman_p == pytest.approx(exact.pvalue)


@pytest.mark.parametrize(
    ("x", "y", "n", "why"),
    [
        ([1, 2], [1, 2], 2, "n = 2 is less than 3"),
        ([1, 2, math.nan, 4], [1, math.inf, 3, 4], 2, "n = 2 is less than 3"),
        ([0.1 + 0.2, 0.3, 0.3], [1, 2, 3], 3, "the first column is constant"),
        ([1, 2, 3], [5, 5, 5], 3, "the second column is constant"),
    ],
)
def test_undefined_says_why(x, y, n, why):
    found = correlate(x, y)
    assert (found.n, found.undefined) == (n, why)
    assert math.isnan(found.r)
    assert math.isnan(found.p)


def test_holm():
    # sorted: 0.01 * 4, 0.02 * 3, 0.03 * 2 -> 0.06 (never falls), 0.5 * 1
    assert holm([0.03, 0.01, math.nan, 0.5, 0.02])[:2] == pytest.approx([0.06, 0.04])
    assert holm([0.03, 0.01, math.nan, 0.5, 0.02])[3:] == pytest.approx([0.5, 0.06])
    assert math.isnan(holm([0.03, 0.01, math.nan, 0.5, 0.02])[2])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


def test_iqm():
    assert iqm([0, 1, 2, 3, 4, 5, 6, 100]) == 3.5  # 2, 3, 4, 5
    assert iqm([1, 2, 6]) == 3  # a quarter of three is none
    assert iqm([math.nan, 2]) == 2
    assert math.isnan(iqm([]))


def test_interval_of_few_samples():
    assert interval(range(101)) == pytest.approx((2.5, 97.5))
    assert all(map(math.isnan, interval([math.nan])))


def cloud():
    """Two tasks, two agents, two LLMs, four seeds; diversity 0..15 within each task."""
    runs = table(
        row(agent, seed, test=(4 * (2 * a + m) + seed) * sign, llm=llm, task=task)
        for task, sign in (("up", 1.0), ("down", -1.0))
        for a, agent in enumerate("ab")
        for m, llm in enumerate("xy")
        for seed in range(4)
    )
    return runs.assign(diversity=runs["utility"].abs())


def test_per_task():
    found = correlations(cloud(), "diversity", resamples=100).set_index("task")
    assert dict(found["n"]) == {"down": 16, "up": 16}
    assert dict(found["r"]) == pytest.approx({"down": -1, "up": 1})
    assert dict(found["p_holm"]) == pytest.approx({"down": 0, "up": 0}, abs=1e-12)


def test_within_groups():
    runs = cloud()
    for make, fixed in ((within_llm, "llm"), (within_agent, "agent")):
        found = make(runs, "diversity")
        assert len(found) == 4, fixed
        assert set(found["n"]) == {8}
        assert list(found.columns[:2]) == [fixed, "task"]


def test_holm_is_over_the_tasks_of_one_group():
    generator = np.random.default_rng(3)
    runs = cloud().assign(diversity=generator.normal(size=32))
    found = within_llm(runs, "diversity")
    for _, group in found.groupby("llm"):
        assert list(group["p_holm"]) == pytest.approx(holm(list(group["p"])))
    assert not found["p_holm"].equals(found["p"])


def test_runs_without_a_result_are_not_counted():
    runs = table(row("a", s, v) for s, v in enumerate([0.1, 0.2, None]))
    found = correlations(runs.assign(diversity=[1.0, 2.0, 3.0]), "diversity")
    assert (found["n"][0], found["undefined"][0]) == (2, "n = 2 is less than 3")
    assert correlations(table().assign(diversity=[]), "diversity").empty
