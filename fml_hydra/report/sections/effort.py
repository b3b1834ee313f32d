"""Reliability and cost: how many steps came to something, and what they took."""

from functools import partial

import pandas as pd

from fml_hydra.analysis import tables
from fml_hydra.analysis.rows import CONFIGURATION
from fml_hydra.report import figures
from fml_hydra.report.parts import Block, Column, Figure, Heading, Section, Table, Text
from fml_hydra.report.study import Study
from fml_hydra.usage import PURPOSES

STATUSES = {
    "ok": "#0072b2",
    "noop": "#bbbbbb",
    "edit_failed": "#e69f00",
    "syntax": "#f0e442",
    "protected": "#999999",
    "crash": "#d55e00",
    "timeout": "#cc79a7",
    "no_metric": "#56b4e9",
    "invalid": "#009e73",
}
"""How steps end, in the order of the bars, with a colour."""
_HEADS = {
    "step_success_rate": "success rate",
    "step_completion_rate": "completion rate",
    "tokens": "tokens",
    "tokens_per_step": "tokens per step",
    "cost_usd": "US$",
    "cost_usd_per_step": "US$ per step",
    "seconds": "seconds",
    "seconds_per_step": "seconds per step",
}
_BY_PURPOSE = {f"tokens_{purpose}": purpose for purpose in PURPOSES}
_DIGITS = {"tokens": 0, "tokens_per_step": 0, "cost_usd_per_step": 3, "seconds": 1}
_DIGITS |= dict.fromkeys(_BY_PURPOSE, 0)


def section(study: Study) -> Section:
    """The section `Reliability and cost`."""
    blocks: list[Block] = [Heading("Reliability"), _rates(study)]
    statuses = study.labelled(tables.step_statuses(study.steps))
    if len(statuses):
        blocks.append(_bars(statuses))
    blocks += [_ends(study), Heading("Cost"), _cost(study)]
    if study.cells[list(_BY_PURPOSE)].notna().any(axis=None):
        blocks.append(_purposes(study))
    spent = spending(study)
    blocks.append(_against(study, spent) if len(spent) else Text(_NO_RESULT))
    return Section("effort", "Reliability and cost", blocks)


_NO_RESULT = "No run has a test result that what was spent could be held against."


def spending(study: Study) -> pd.DataFrame:
    """`label`, `x`, `y`, `unit`: means per configuration; tokens where all tell them."""
    tested = study.tested
    told = len(tested) > 0 and bool((tested["tokens"] > 0).all())
    column, unit = ("tokens", "tokens") if told else ("seconds", "seconds")
    grouped = tested.groupby([*CONFIGURATION, "label"])
    found = grouped.agg(x=(column, "mean"), y=("normalized_improvement", "mean")).reset_index()
    return found[["label", "x", "y"]].dropna().assign(unit=unit)


def _rates(study: Study) -> Table:
    caption = "Steps that ran to a metric of the steps executed, and steps executed of the budget."
    return _readable("reliability", caption, tables.reliability(study.runs))


def _cost(study: Study) -> Table:
    note = "N/A: the program does not tell, or the model has no known price. Never counted as 0."
    caption = "What a run took, in total and per step; ideas and analyses included."
    return _readable("cost", caption, tables.cost(study.runs), note)


def _purposes(study: Study) -> Table:
    caption = "Tokens of a run by what they were for; failed attempts and repairs included."
    long = tables.mean_and_std(study.runs, list(_BY_PURPOSE))
    return _readable("tokens_by_purpose", caption, long, "N/A: the purposes were not all told.")


def _readable(name: str, caption: str, long: pd.DataFrame, note: str = "") -> Table:
    metrics = list(dict.fromkeys(long["metric"]))
    frame = long[CONFIGURATION].drop_duplicates()
    for metric in metrics:
        own = tables.readable(long[long["metric"] == metric], _DIGITS.get(metric, 2))
        frame = frame.merge(own, on=CONFIGURATION)
    columns = [Column("agent", "agent"), Column("llm", "LLM")]
    heads = _HEADS | _BY_PURPOSE
    columns += [Column(m, heads[m], "spread") for m in metrics]
    said = "Mean ± standard deviation over tasks and rounds. " + note
    return Table(name, caption, frame, columns, said.strip(), raw=long)


def _bars(statuses: pd.DataFrame) -> Figure:
    table = statuses.rename(columns={"status": "part"})[["label", "part", "share", "steps"]]
    rows = [
        f"{r['label']} {100 * r['share']:.0f}%" for _, r in table[table["part"] == "ok"].iterrows()
    ]
    return Figure(
        "step_statuses",
        "How steps ended.",
        f"Shares of steps by how they ended. With a metric: {', '.join(rows) or 'none'}.",
        table,
        partial(figures.stacked, colours=STATUSES, what="share of steps"),
    )


def _ends(study: Study) -> Table:
    columns = [
        Column("agent", "agent"),
        Column("llm", "LLM"),
        Column("reason", "ended by"),
        Column("runs", "runs", "count"),
        Column("step", "mean step", "number", "steps executed until then", digits=1),
    ]
    note = "steps: the budget was used up. interrupted and infra: put down, can be gone on with."
    return Table("terminations", "Why runs ended.", tables.terminations(study.runs), columns, note)


def _against(study: Study, spent: pd.DataFrame) -> Figure:
    unit = str(spent["unit"].iloc[0])
    best = spent.sort_values("y").iloc[-1]
    return Figure(
        "cost_and_result",
        f"Mean {unit} of a run and mean normalized improvement.",
        f"Mean NI over mean {unit}, a point per configuration; {best['label']} is highest with "
        f"{best['y']:.3f} at {best['x']:,.0f} {unit}.",
        spent,
        partial(
            figures.scatter,
            looks=study.looks,
            x=f"{unit} per run",
            y="normalized improvement",
            log=True,
            trend=False,
        ),
    )
