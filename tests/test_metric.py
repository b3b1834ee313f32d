"""Signs live in one module; these are worked by hand."""

import math

import pytest

from fml_hydra.metric import Direction, Metric, better

UP = Metric("acc", Direction.HIGHER, best=1.0, worst=0.0)
DOWN = Metric("mae", Direction.LOWER, best=0.0, worst=None)


def test_improvement_is_positive_when_better():
    assert UP.improvement(0.8, 0.5) == pytest.approx(0.3)
    assert DOWN.improvement(0.8, 0.5) == pytest.approx(-0.3)


def test_normalised_improvement():
    assert UP.normalized_improvement(0.8, 0.5) == pytest.approx(0.3)
    assert UP.normalized_improvement(0.2, 0.5) == 0.0
    # worst = the baseline: half of the way from 1.4 to 0
    assert DOWN.normalized_improvement(0.7, 1.4) == pytest.approx(0.5)
    assert DOWN.normalized_improvement(0.0, 0.0) == 0.0


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [(1.0, 0.5, True), (0.5, 0.5, False), (None, 0.5, False), (0.5, None, True)],
)
def test_better(a, b, expected):
    assert better(a, b) is expected


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
def test_odd_values_never_win_and_never_stay(odd):
    assert not better(odd, 0.1)
    assert better(0.1, odd)
    assert not better(odd, None)


def test_utility_and_value_are_inverse():
    for metric in (UP, DOWN):
        assert metric.value(metric.utility(0.3)) == 0.3
    assert DOWN.utility(0.3) == -0.3
