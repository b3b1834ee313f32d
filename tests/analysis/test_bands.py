"""Best so far over seeds, worked out by hand."""

from pathlib import Path

import pytest
from journals import ERROR, write

from fml_hydra.analysis.bands import bands
from fml_hydra.analysis.load import load_folder, load_steps


def found(root: Path):
    runs = load_folder(root)
    return bands(runs, load_steps(runs)).set_index("k")


def test_mean_least_and_greatest_over_seeds(tmp_path):
    write(tmp_path / "runs/a", [0.4, None, 0.9], seed=0, test=0.9, instance="a")
    write(tmp_path / "runs/b", [0.7], seed=1, test=0.7, instance="b")
    table = found(tmp_path)
    assert list(table["n"]) == [2, 2, 2, 2]
    assert list(table["low"]) == [0.5, 0.5, 0.5, 0.7]  # the baseline until something is better
    assert list(table["high"]) == [0.5, 0.7, 0.7, 0.9]  # the shorter run keeps what it reached
    assert table["mean"][3] == pytest.approx(0.8)


def test_where_lower_is_better(tmp_path):
    write(tmp_path / "runs/a", [0.6, 0.2], metric=ERROR, test=0.2)
    assert list(found(tmp_path)["mean"]) == [0.5, 0.5, 0.2]


def test_a_run_that_is_still_going_counts_as_far_as_it_got(tmp_path):
    write(tmp_path / "runs/a", [0.6, 0.8], seed=0, test=0.8, instance="a")
    write(tmp_path / "runs/b", [0.7], seed=1, instance="b")
    assert list(found(tmp_path)["n"]) == [2, 2, 1]


def test_no_runs_and_no_steps(tmp_path):
    assert found(tmp_path).empty
    write(tmp_path / "runs/a", [])
    assert list(found(tmp_path)["mean"]) == [0.5]
