"""Search trees of the best runs, and every run with its steps, folded away until asked for."""

import html

import pandas as pd

from fml_hydra.report.formats import duration, number, plural, slug
from fml_hydra.report.parts import Block, Column, Run, Runs, Section, Table, Text, Tree
from fml_hydra.report.study import Study
from fml_hydra.report.trees import tree

PLAN_CHARS, ERROR_CHARS = 110, 90
"""What is shown of a step's plan and error; the rest is in steps.csv and in MLflow."""
_COLUMNS = (
    Column("step", "step", "count"),
    Column("op", "operator"),
    Column("parents", "of", missing=""),
    Column("status", "status"),
    Column("val", "val", "number", missing="–"),
    Column("best_val", "best so far", "number", missing="–"),
    Column("tokens", "tokens", "count"),
    Column("seconds_exec", "run s", "number", "seconds of the candidate's commands"),
    Column("words", "plan, or error"),
)


def trees(study: Study) -> Section:
    """The section `Search trees`: the best run of each task and configuration, best first."""
    best = study.best.sort_values("normalized_improvement", ascending=False, kind="stable")
    shown = best.head(study.settings.trees)
    blocks: list[Block] = [Text(_LEGEND)]
    by_run = dict(list(study.steps.groupby("run_id", sort=False)))
    for _, run in shown.iterrows():
        steps = by_run.get(run["run_id"])
        if steps is not None:
            name = f"{run['task']} · {run['label']} · seed {run['seed']}"
            title = f"{name}: {_result(run)}"
            blocks.append(Tree(title, tree(steps, _alt(name, steps), hints=True)))
    if len(blocks) == 1:
        blocks.append(Text("No run with a test result has a step."))
    elif len(best) > len(shown):
        blocks.append(Text(f"{len(best) - len(shown)} more are with their runs below."))
    return Section("trees", "Search trees", blocks)


_LEGEND = (
    "The best run of each task and configuration. The square is the baseline; a filled circle is a "
    "step that ran, a cross one that failed, a small dot one that was refused untrained. The thick "
    "line leads to the best step."
)


def section(study: Study) -> Section:
    """The section `All runs`."""
    order = ["task", "agent", "llm", "seed", "started"]
    runs = study.labelled(study.runs).sort_values(order, kind="stable")
    by_run = dict(list(study.steps.groupby("run_id", sort=False)))
    nothing = study.steps.iloc[:0]
    each = _rows_each(study)
    counted = set(study.cells["run_id"])
    shown = [
        _run(study, run, by_run.get(run["run_id"], nothing), each, run["run_id"] in counted)
        for _, run in runs.iterrows()
    ]
    return Section("runs", "All runs", [Text(_READING), Runs(shown)])


_READING = (
    "Open a run for its steps. Values are on validation data, in the metric's unit; times are of "
    "the candidate's commands."
)


def anchor(run_id: str) -> str:
    """Where links to a run lead."""
    return f"run-{slug(run_id)}"


def _rows_each(study: Study) -> int:
    """Steps shown of each run, so that all together do not exceed the knob."""
    longest = int(study.runs["steps"].max()) if len(study.runs) else 0
    if len(study.steps) <= study.settings.rows:
        return longest
    return max(1, study.settings.rows // max(1, len(study.runs)))


def _run(study: Study, run: pd.Series, steps: pd.DataFrame, each: int, counted: bool) -> Run:
    name = f"{run['task']} · {run['agent']} · {run['llm']} · seed {run['seed']}"
    result = _result(run)
    if not counted:
        result += "; not counted: another run stands for this cell"
    return Run(
        anchor=anchor(str(run["run_id"])),
        title=name,
        result=result,
        facts=_facts(run),
        link=f"{study.pages}{run['run_id']}" if study.pages else "",
        tree=tree(steps, _alt(name, steps)),
        steps=_steps(str(run["run_id"]), steps, each),
    )


def _steps(run_id: str, steps: pd.DataFrame, each: int) -> Table:
    shown = steps.head(each)
    plan = shown["plan"].str.slice(0, PLAN_CHARS)
    error = shown["error"].str.slice(0, ERROR_CHARS)
    frame = shown.assign(words=error.where(error != "", plan))
    note = ""
    if len(steps) > each:
        note = f"{each} of {plural(len(steps), 'step')} are shown; all are in tables/steps.csv."
    return Table(f"steps_{run_id}", "", frame, _COLUMNS, note)


def _result(run: pd.Series) -> str:
    if pd.isna(run["test"]):
        return f"{run['status']} after {plural(int(run['steps']), 'step')}"
    test = f"test {number(run['test'])}, baseline {number(run['baseline_test'])}"
    return f"{test}, NI {number(run['normalized_improvement'], 3)}"


def _facts(run: pd.Series) -> list[tuple[str, str]]:
    spent = "N/A" if pd.isna(run["tokens"]) else f"{run['tokens']:,.0f}"
    facts = [
        ("identity", str(run["identity"])),
        ("sweep", str(run["sweep"])),
        (
            "status",
            " ".join([str(run["status"]), run["termination"] and f"({run['termination']})"]),
        ),
        ("steps", f"{run['steps']} of {number(run['budget'])}"),
        ("best on val", number(run["best_val"])),
        ("on test", number(run["test"])),
        ("diversity", number(run.get("diversity", float("nan")))),
        ("tokens", spent),
        ("time", "N/A" if pd.isna(run["seconds"]) else duration(float(run["seconds"]))),
        ("sandbox", str(run["sandbox"])),
        ("flagged steps", str(run["flagged_steps"])),
        ("remark", str(run["fallback"])),
    ]
    return [(term, value) for term, value in facts if value.strip()]


def _alt(name: str, steps: pd.DataFrame) -> str:
    good = int(steps["ok"].sum())
    return html.escape(f"Search tree of {name}: {plural(len(steps), 'step')}, {good} with a metric")
