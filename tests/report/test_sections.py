"""What the sections say of a small matrix whose results are known."""

import math
import re

import pandas as pd
import pytest
from studies import run, study_of

from fml_hydra.journal import History
from fml_hydra.report.build import build, figures_of
from fml_hydra.report.formats import texts
from fml_hydra.report.parts import Runs, Table, Tree
from fml_hydra.report.sections import comparison, effort, known, leaderboard, overview, results
from fml_hydra.report.trees import nodes_of, tree


def rows(table: Table) -> list[dict[str, str]]:
    heads = [column.head for column in table.columns]
    return [dict(zip(heads, row, strict=True)) for row in texts(table)]


def test_the_matrix_marks_what_is_missing(study):
    found = rows(study.table("matrix"))
    assert [row["lift"] for row in found] == ["2 of 2", "2 of 2", "2 of 2", "1 of 2"]
    assert {row["lower"] for row in found} == {"2 of 2"}
    assert rows(study.table("missing_cells")) == [
        {
            "task": "lift",
            "agent": "aide",
            "LLM": "other",
            "seed": "1",
            "what became of it": "never run",
        }
    ]


def test_the_leaderboard(study):
    board = leaderboard.leaderboard(study.study).set_index(["agent", "llm"])
    # lift: best test 0.56 of 0.4..1 (width 1), lower: 0.39 from a baseline of 0.5 (width 0.5)
    ours = board.loc[("aide", "offline")]
    assert ours["best_ni"] == pytest.approx(((0.56 - 0.4) / 1 + (0.5 - 0.39) / 0.5) / 2)
    assert list(board.index)[0] == ("ai_scientist", "other")
    assert board.loc[("ai_scientist", "other"), "first"] == 2
    assert board["first_on"].iloc[0] == "lift, lower"
    assert board["low"].le(board["iqm"]).all()
    assert math.isnan(ours["relative"])  # tasks that this installation does not know
    assert "pool" in study.table("leaderboard").note
    assert "baseline" in study.table("leaderboard").note


def test_results_of_a_task_where_lower_is_better(study):
    table = results.results(study.study, "lower")
    assert list(table["test"].round(2)) == [0.27, 0.29, 0.37, 0.39]
    assert table["mean"].iloc[0] == pytest.approx(0.275)
    assert table["improvement_percent"].iloc[0] == pytest.approx(46)
    shown = rows(study.table("results_lower"))[0]
    assert (shown["rounds"], shown["gain %"]) == ("2", "+46.0")
    assert shown["% of ref."] == "undefined: no reference solution is known"
    assert rows(study.table("results_lift"))[-1]["rounds"] in {"1 of 2", "2"}
    assert "1 of 2" in [row["rounds"] for row in rows(study.table("results_lift"))]


def test_lines_of_a_known_task(tmp_path):
    metric = {"name": "abs_aod", "direction": "lower", "best": 0.0, "worst": 1.0}
    knobs = {"metric": metric, "baseline": (0.2, 0.25), "test": 0.1}
    run(tmp_path / "m", "fairness", "aide", [0.1], **knobs)
    lines = results.lines(study_of(tmp_path / "m"), "fairness", "test").set_index("label")
    assert lines.loc["baseline", "value"] == 0.25
    assert lines.loc["baseline", "sd"] > 0
    assert lines.loc["best reference (best)", "value"] == pytest.approx(0.0216)


def test_published_values_stand_beside_ours(study):
    beside = known.beside_ours(study.study)
    ours = beside[(beside["agent"] == "aide") & (beside["metric"] == "tokens")]
    assert list(ours["published"]) == [5.45e6, 5.45e6]
    assert list(ours["ours"]) == [525.0, 500.0]  # 150 a step: 4, 4, 3, 3 steps and 4, 3, 3
    assert not beside["published"].isna().any()


def test_pairs_have_labels_and_the_spread_adds_up(study):
    pairs = comparison.differences(study.study)
    assert len(pairs) == 6
    assert pairs["label"].iloc[0] == "ai_scientist · offline − ai_scientist · other"
    shares = study.table("decomposition").frame["share"]
    assert shares.sum() == pytest.approx(1)


def test_spend_against_result(study):
    spent = effort.spending(study.study)
    assert set(spent["unit"]) == {"tokens"}
    assert len(spent) == 4
    bars = study.table("terminations").frame
    assert bars["runs"].sum() == 15


def test_diversity_is_correlated_in_utility(study):
    table = study.table("correlations")
    assert set(table.frame["n"]) == {7, 8}
    assert "offline" in table.note
    assert all(
        row["Pearson r"][0] in "+−" or "undefined" in row["Pearson r"] for row in rows(table)
    )
    within = rows(study.table("correlations_within_llm"))
    assert [row["n"] for row in within] == ["4", "4", "3", "4"]


def test_every_figure_has_words_and_data(study):
    figures = figures_of(study.sections)
    assert len({figure.name for figure in figures}) == len(figures)
    for figure in figures:
        assert len(figure.alt) > 20
        assert "nan" not in figure.alt.lower()
        assert len(figure.table)
        assert (study.folder / "figures" / f"{figure.name}.svg").exists()
        kept = pd.read_csv(study.folder / "figures" / f"{figure.name}.csv")
        assert len(kept) == len(figure.table)


def test_every_table_is_a_file_too(study):
    names = {path.stem for path in (study.folder / "tables").glob("*.csv")}
    assert {"runs", "steps", "leaderboard", "pairwise", "cost", "process"} <= names
    assert {path.stem for path in (study.folder / "tables").glob("*.tex")} == names - {
        "runs",
        "steps",
    }
    runs = pd.read_csv(study.folder / "tables" / "runs.csv")
    assert len(runs) == 15
    assert runs["diversity"].notna().all()
    assert not {"journal", "cached"} & set(runs.columns)  # paths of this machine


def test_each_run_has_its_tree_and_steps(study):
    section = next(s for s in study.sections if s.anchor == "runs")
    shown = next(b for b in section.blocks if isinstance(b, Runs)).runs
    assert len(shown) == 15
    assert shown[0].title == "lift · ai_scientist · offline · seed 0"
    assert "test 0.65, baseline 0.4" in shown[0].result
    assert [row["status"] for row in rows(shown[0].steps)] == ["ok", "crash", "ok", "ok"]
    assert "ValueError: no" in rows(shown[0].steps)[1]["plan, or error"]
    assert shown[0].tree.count("<circle") == 3
    trees = next(s for s in study.sections if s.anchor == "trees")
    assert len([b for b in trees.blocks if isinstance(b, Tree)]) == 8


def test_the_way_to_the_best_step_and_a_parent_that_is_not_there():
    steps = pd.DataFrame(
        {
            "step": [0, 1, 2],
            "op": "draft",
            "parents": ["", "0", "7"],
            "status": "ok",
            "utility": [1.0, 2.0, 2.0],
            "ok": True,
        }
    )
    nodes = nodes_of(steps)
    assert History(nodes, None, {}).way_to_best() == {0, 1}  # the earliest of equals
    assert nodes[2].parents == ()
    assert re.search(r"<title>step 2: draft, ok</title>", tree(steps, "a tree", hints=True))
    assert tree(steps.head(0), "nothing") == ""


def test_duplicates_count_once_and_are_said(tmp_path):
    for sweep, test in (("old", 0.9), ("new", 0.6)):
        run(tmp_path / "m", "t", "a", [0.7], test=test, sweep=sweep, started=float(sweep == "new"))
    twice = study_of(tmp_path / "m", "sweep=all")
    assert len(twice.runs) == 2
    assert list(twice.best["test"]) == [0.6]
    assert overview.matrix(twice)["t"].tolist() == ["1 of 1"]
    words = str([s.blocks for s in build(twice) if s.anchor in {"runs", "methods"}])
    assert "not counted: another run stands for this cell" in words
    assert "1 run of cells that another run stands for" in words
