"""Runs that must not break a report: each makes all tables and drawings, and a page without NaN."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from studies import ERROR, run, study_of, tables

from fml_hydra.report.build import build, figures_of
from fml_hydra.report.files import Folder, write_report
from fml_hydra.report.formats import texts
from fml_hydra.report.html import page
from fml_hydra.report.latex import latex
from fml_hydra.report.style import styled

Make = Callable[[Path], object]


def one_run(root: Path) -> None:
    run(root, "t", "a", [0.6, 0.7], test=0.5)


def one_step(root: Path) -> None:
    for seed in (0, 1, 2):
        run(root, "t", "a", [0.6], seed, test=0.5)


def no_step(root: Path) -> None:
    run(root, "t", "a", [])


def no_successful_step(root: Path) -> None:
    for seed in (0, 1):
        run(root, "t", "a", [None, None], seed, test=0.4)
        run(root, "t", "b", [None], seed, test=0.4)


def all_equal(root: Path) -> None:
    for agent in "ab":
        for seed in (0, 1, 2):
            run(root, "t", agent, [0.5, 0.5], seed, test=0.4)


def missing_seeds(root: Path) -> None:
    run(root, "t", "a", [0.6], 0, test=0.6)
    run(root, "t", "b", [0.7], 1, test=0.7)
    run(root, "u", "b", [0.7], 2, test=0.7)


def still_going(root: Path) -> None:
    run(root, "t", "a", [0.6, 0.7], test=0.6)
    run(root, "t", "b", [0.6])


def killed(root: Path) -> None:
    run(root, "t", "a", [0.6, 0.7], test=0.6)
    with run(root, "t", "b", [0.6]).open("a") as journal:
        journal.write('{"e": "pause", "t": 110.0, "reason": "interrupted", "detail": ""}\n')


def mixed_versions(root: Path) -> None:
    run(root, "t", "a", [0.6], test=0.6, versions={"fml_hydra": "0.1.0"})
    run(root, "t", "b", [0.7], test=0.7, versions={"fml_hydra": "0.2.0"}, sandbox="process")
    run(root, "t", "c", [0.7], test=0.7, versions={})


def negative_and_zero_baselines(root: Path) -> None:
    for number, base in enumerate((-2.0, 0.0)):
        for seed in (0, 1, 2):
            value = base + 0.1 * seed
            run(root, f"t{number}", "a", [value], seed, baseline=(base, base), test=value)
            run(root, f"t{number}", "b", [value], seed, baseline=(base, base), test=-value)


def lower_is_better(root: Path) -> None:
    for seed in (0, 1, 2):
        for agent, value in (("a", 0.3), ("b", 0.0)):
            run(root, "t", agent, [value], seed, metric=ERROR, test=value + 0.01 * seed)


def strange_names(root: Path) -> None:
    for name in ("<script>alert(1)</script>", "50% & {x}_y", "ünï · 漢字"):
        run(
            root,
            "a&b",
            name.replace("/", "|"),
            [0.6, 0.7],
            llm="<b>",
            test=0.6,
            identity=f"{len(name)}",
        )


def all_at_once(root: Path) -> None:
    """What does not need a report of its own: each on a task of its own."""
    for make in (
        missing_seeds,
        still_going,
        killed,
        mixed_versions,
        negative_and_zero_baselines,
        lower_is_better,
        strange_names,
    ):
        make(root / make.__name__)
        for journal in (root / make.__name__ / "runs").glob("*/journal.jsonl"):
            text = journal.read_text().replace('"task": "', f'"task": "{make.__name__} ')
            home = root / "runs" / f"{make.__name__} {journal.parent.name}"
            home.mkdir(parents=True)
            text = text.replace('"instance": "', f'"instance": "{make.__name__} ')
            (home / "journal.jsonl").write_text(text)


EDGES: Sequence[Make] = (
    one_run,
    one_step,
    no_step,
    no_successful_step,
    all_equal,
    all_at_once,
)


@pytest.mark.parametrize("edge", EDGES, ids=lambda edge: edge.__name__)
def test_a_report_is_made_whatever_the_runs_are(edge, tmp_path, recwarn):
    edge(tmp_path / "m")
    study = study_of(tmp_path / "m")
    sections = build(study)
    cells = [cell for table in tables(sections) for row in texts(table) for cell in row]
    assert not [cell for cell in cells if re.fullmatch(r"(?i).*\b(nan|inf|none|nat)\b.*", cell)]
    for table in tables(sections):
        assert latex(table)
    with styled():
        for figure in figures_of(sections):
            figure.draw(figure.table)
    html = page(study, sections, {figure.name: "" for figure in figures_of(sections)})
    assert "<script>alert" not in html
    assert not re.search(r"(?i)\bnan\b", re.sub(r"<script>.*?</script>", "", html, flags=re.S))
    assert not [w for w in recwarn if issubclass(w.category, RuntimeWarning)]


def test_what_a_model_said_is_shown_as_text(tmp_path):
    journal = run(tmp_path / "m", "t", "a", [0.6, None], test=0.6)
    text = journal.read_text().replace("raise it", "</td><img src=x onerror=alert(1)>")
    journal.write_text(text.replace("ValueError: no", "ValueError: <svg onload=alert(2)>"))
    study = study_of(tmp_path / "m")
    sections = build(study)
    html = page(study, sections, {figure.name: "" for figure in figures_of(sections)})
    assert "<img" not in html
    assert "<svg onload" not in html
    assert "&lt;img src=x onerror=alert(1)&gt;" in html


def test_no_correlation_says_why(tmp_path):
    all_equal(tmp_path / "m")
    study = study_of(tmp_path / "m")
    found = [t for t in tables(build(study)) if t.name == "correlations"]
    assert texts(found[0])[0][2] == "undefined: the second column is constant"


def test_a_page_shows_no_more_steps_than_asked(tmp_path):
    run(tmp_path / "m", "t", "a", [0.6] * 30, test=0.6)
    study = study_of(tmp_path / "m", "rows=10", f"out={tmp_path / 'out'}")
    shown = [t for t in tables(build(study)) if t.name.startswith("steps_")]
    assert len(texts(shown[0])) == 10
    assert "10 of 30 steps are shown" in shown[0].note
    folder = Folder(tmp_path / "out")
    write_report(study, [], folder)
    assert (tmp_path / "out" / "tables" / "steps.csv").read_text().count("\n") == 31
