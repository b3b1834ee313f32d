"""What agents did with their steps: kinds of changes, the best and the worst run, failures."""

from functools import partial

import pandas as pd

from fml_hydra.analysis.behaviour import (
    CATEGORIES,
    agreement,
    behaviour_shares,
    best_and_worst,
    repeated_errors,
)
from fml_hydra.report import figures
from fml_hydra.report.formats import joined
from fml_hydra.report.parts import Block, Column, Figure, Heading, Section, Table, Text
from fml_hydra.report.study import Study

COLOURS = dict(
    zip(
        CATEGORIES,
        ("#0072b2", "#56b4e9", "#e69f00", "#009e73", "#d55e00", "#bbbbbb"),
        strict=True,
    )
)
MOST_ERRORS = 30
"""Errors shown on the page; all are in the CSV."""
_ERROR_CHARS = 160
_RATES = (
    Column("acr", "ACR", "percent", "academic changes / steps that changed code (FML-bench v1)"),
    Column("shallow", "shallow", "percent", "steps that only add definitions nothing reaches"),
)


def section(study: Study) -> Section:
    """The section `Behaviours`."""
    title = "Behaviours"
    if study.behaviours.empty:
        off = "Steps were not compared (behaviours=false)."
        none = "No run has a step whose code can be read."
        return Section("behaviours", title, [Text(none if study.settings.behaviours else off)])
    counted = study.behaviours[study.behaviours["run_id"].isin(study.cells["run_id"])]
    shares = study.labelled(behaviour_shares(counted))
    blocks: list[Block] = [_shares(study, shares), _bars(shares), _cases(study, counted)]
    blocks += [Heading("Failures that repeat"), _errors(study)]
    blocks += [Heading("How far the categories can be trusted"), *_trust(study)]
    return Section("behaviours", title, blocks)


def _shares(study: Study, shares: pd.DataFrame) -> Table:
    columns = [Column("agent", "agent"), Column("llm", "LLM"), Column("n", "runs", "count")]
    columns += [Column(name, name, "percent") for name in CATEGORIES]
    judges = joined(sorted(set(study.behaviours["judge"])))
    return Table(
        "behaviours",
        "Steps by what they changed: shares of steps, averaged over runs.",
        shares,
        [*columns, *_RATES],
        f"Decided by: {judges}. A failed step is an implementation error whatever it attempted.",
    )


def _bars(shares: pd.DataFrame) -> Figure:
    long = shares.melt(
        id_vars="label", value_vars=list(CATEGORIES), var_name="part", value_name="share"
    )
    most = long.sort_values("share").groupby("label").tail(1)
    words = [f"{r['label']}: {r['part']} {100 * r['share']:.0f}%" for _, r in most.iterrows()]
    return Figure(
        "behaviours",
        "Steps by what they changed.",
        f"Shares of steps by category; the largest of each: {', '.join(words)}.",
        long,
        partial(figures.stacked, colours=COLOURS, what="share of steps"),
    )


def _cases(study: Study, counted: pd.DataFrame) -> Table:
    cases = best_and_worst(counted, study.runs)
    columns = [
        Column("agent", "agent"),
        Column("llm", "LLM"),
        Column("case", "case"),
        Column("task", "task"),
        Column("seed", "seed", "count"),
        Column("normalized_improvement", "NI", "number"),
        Column("steps", "steps", "count"),
    ]
    columns += [Column(name, name, "percent") for name in CATEGORIES]
    return Table(
        "behaviours_best_and_worst",
        "What the best and the worst run of each configuration did.",
        cases,
        [*columns, *_RATES],
        "By normalized improvement on test; of equals the one with the larger AUC over steps is "
        "the better.",
    )


def _errors(study: Study) -> Table:
    counted = study.steps[study.steps["run_id"].isin(study.cells["run_id"])]
    errors = repeated_errors(counted)
    most = errors.sort_values("steps", ascending=False, kind="stable").head(MOST_ERRORS)
    columns = [
        Column("agent", "agent"),
        Column("llm", "LLM"),
        Column("status", "status"),
        Column("error", "error"),
        Column("steps", "steps", "count"),
        Column("runs", "runs", "count"),
        Column("again", "again", "count", "how often the next step failed in the same way"),
    ]
    note = "Numbers, folders and addresses do not count when errors are compared."
    if len(errors) > len(most):
        note += f" The {MOST_ERRORS} most frequent of {len(errors)}; all are in the CSV."
    return Table(
        "repeated_errors",
        "Errors by how often they occur.",
        most.assign(error=most["error"].str.slice(0, _ERROR_CHARS)),
        columns,
        note,
        raw=errors,
    )


def _trust(study: Study) -> list[Block]:
    """The rules against the ideas' authors, and against a judge if there is one."""
    people = (
        "The rules against the categories that the authors of {n} ideas of the embedded tasks "
        "declared; they agree on {share:.0f}%."
    )
    model = "The rules against the judge on {n} steps; they agree on {share:.0f}%."
    found = [
        _confusion("behaviour_agreement", study.confusion, people, "declared"),
        _confusion("behaviour_judge", study.judged, model, "rules"),
    ]
    nothing = Text("This installation has no ideas that the rules could be held against.")
    return [table for table in found if table] or [nothing]


def _confusion(name: str, counts: pd.DataFrame, caption: str, rows: str) -> Table | None:
    if counts.empty:
        return None
    columns = [Column(rows, rows)]
    columns += [Column(str(label), str(label), "count") for label in counts.columns]
    said = caption.format(n=counts.to_numpy().sum(), share=100 * agreement(counts))
    table = counts.rename_axis(rows).reset_index()
    by = "the rules" if rows == "declared" else "the judge"
    return Table(name, said, table, columns, f"Rows: {rows}; columns: found by {by}.")
