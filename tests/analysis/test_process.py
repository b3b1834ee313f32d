"""The process metrics by hand: clusters, reach, dimension, and the names FML-bench gives them."""

import math

import numpy as np
import pandas as pd
import pytest
from across import row, table

from fml_hydra.analysis.process import TWELVE, clusters, process_metrics, process_table


def fan(cosine: float, count: int = 3) -> np.ndarray:
    """Unit vectors side by side; `cosine` is that of neighbours."""
    angles = np.arange(count) * math.acos(cosine)
    return np.column_stack([np.cos(angles), np.sin(angles)])


@pytest.mark.parametrize(
    ("vectors", "groups"),
    [
        # neighbours 0.0055 apart, the outer two 0.0219: on average 0.0137, below 0.015
        (fan(1 - 0.0055), 1),
        # neighbours 0.0065 apart, the outer two 0.0259: on average 0.0162
        (fan(1 - 0.0065), 2),
        (np.array([[1.0, 0], [5, 0], [0, 1]]), 2),  # length does not count
        (np.array([[1.0, 0], [-1, 0]]), 2),
        (np.array([[0.0, 0], [0, 0], [1, 0]]), 2),  # what is 0 forms one group
        (np.array([[0.0, 0], [0, 0]]), 1),
        (np.array([[0.0, 1e-9], [0, 1]]), 2),
        (np.array([[3.0, 4]]), 1),
    ],
)
def test_clusters_by_hand(vectors, groups):
    assert clusters(vectors) == groups


def test_a_cross_by_hand():
    """Two directions with squares 8 and 2: (8 + 2)^2 / (8^2 + 2^2) = 100 / 68."""
    vectors = np.array([[2.0, 0], [-2, 0], [0, 1], [0, -1]])
    found = process_metrics(vectors, np.array([0.0, 4.0]))
    assert found.spread == pytest.approx(1.5)
    assert found.uniqueness == 1.0
    assert found.reach == pytest.approx(5.0)  # from (0, 4) to (0, -1)
    assert found.effective_dimension == pytest.approx(100 / 68)


def test_equal_states_have_no_dimension_however_they_round():
    found = process_metrics(np.full((7, 3), 0.1), np.zeros(3))
    assert found.effective_dimension == 0.0
    assert found.uniqueness == pytest.approx(1 / 7)
    assert found.spread == pytest.approx(0.0, abs=1e-15)
    assert found.reach == pytest.approx(0.1 * math.sqrt(3))


def test_one_step_and_none():
    one = process_metrics(np.array([[3.0, 4.0]]), np.zeros(2))
    assert (one.spread, one.uniqueness, one.reach, one.effective_dimension) == (0.0, 1.0, 5.0, 0.0)
    none = process_metrics(np.zeros((0, 2)), np.zeros(2))
    assert all(math.isnan(value) for value in vars(none).values())


def test_without_the_baseline_there_is_no_reach():
    found = process_metrics(np.eye(2), None)
    assert math.isnan(found.reach)
    assert found.spread == pytest.approx(math.sqrt(0.5))


def test_single_precision_is_kept_for_the_spread_only():
    """Far from 0 the two differ: float32 knows 16777217 as 16777216."""
    vectors = np.array([[16777216.0], [16777218.0]])
    assert process_metrics(vectors, np.array([16777217.0])).spread == 1.0
    single = process_metrics(vectors.astype(np.float32), np.array([16777217.0]))
    assert single.spread == 1.0  # the centroid rounds to either end: distances 0 and 2
    assert single.reach == 1.0


def test_the_twelve_under_their_names():
    known = {"auc": 0.2, "tokens": 2_500_000, "seconds": 5400, "val_test_gap": 0.1}
    known |= {"step_success_rate": 0.75, "late_gain": 0.5, "first_improvement_step": 2}
    runs = table(row("a", 0, **known), row("b", 1))
    explored = pd.DataFrame(
        {
            "run_id": ["a0"],
            "diversity": [3.0],
            "uniqueness": [0.5],
            "reach": [4.0],
            "effective_dimension": [1.5],
        }
    )
    found = process_table(runs, explored).set_index("agent")
    assert list(found.columns[-12:]) == [c.name for c in TWELVE]
    assert found.loc["a", "Exploration Spread"] == 3.0
    assert found.loc["a", "Token cost (M)"] == 2.5
    assert found.loc["a", "Wall-clock time (h)"] == 1.5
    assert found.loc["a", "Valid step ratio"] == 0.75
    assert found.loc["a", "First-improvement step"] == 2
    assert np.isnan(found.loc["b", [c.name for c in TWELVE]].astype(float)).all()
