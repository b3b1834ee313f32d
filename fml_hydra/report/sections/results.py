"""Task by task: test results beside baseline and reference, and how they came about."""

from functools import partial
from typing import Literal

import pandas as pd

from fml_hydra.analysis.bands import bands
from fml_hydra.analysis.known import relative_to_known
from fml_hydra.analysis.rows import CONFIGURATION, NAN
from fml_hydra.metric import Direction
from fml_hydra.report import figures
from fml_hydra.report.formats import plural, slug
from fml_hydra.report.parts import Block, Column, Figure, Gallery, Heading, Section, Table, Text
from fml_hydra.report.study import Study

LINES = ["label", "value", "sd"]
_GAIN = "improvement of the best of n in percent of |baseline|"
_RELATIVE = "0 is the baseline, 100 the best known method"


def section(study: Study) -> Section:
    """The section `Results by task`."""
    blocks: list[Block] = [Text(_READING)]
    curves = study.labelled(bands(study.runs, study.steps))
    for task in study.tasks:
        blocks += [Heading(task), *_task(study, task, curves[curves["task"] == task])]
    return Section("results", "Results by task", blocks)


_READING = (
    "Best of n: the best test result over the rounds, as in FML-bench. In the figures a filled "
    "mark is that best round, a hollow one each of the others; the grey band is two standard "
    "deviations of the baseline over its training seeds. A result within it cannot be told from "
    "noise."
)


def results(study: Study, task: str) -> pd.DataFrame:
    """A row per configuration with a result on the task, best first; columns as in `_table`."""
    rounds = study.tested[study.tested["task"] == task]
    best = relative_to_known(study.best[study.best["task"] == task], study.known)
    spread = rounds.groupby(CONFIGURATION)["test"].agg(mean="mean", std="std").reset_index()
    table = best.merge(spread, on=CONFIGURATION).sort_values(
        "utility", ascending=False, kind="stable", ignore_index=True
    )
    of = table["rounds"].astype(str) + f" of {study.asked}"
    return table.assign(of=of.where(table["short"], table["rounds"].astype(str)))


def lines(study: Study, task: str, split: str) -> pd.DataFrame:
    """LINES: the baseline as measured beside the runs, its noise, and the best shipped method."""
    runs = study.runs[(study.runs["task"] == task) & study.runs[f"baseline_{split}"].notna()]
    known = study.known[study.known["task"] == task]
    base = known[known["method"] == "baseline"]
    sd = float(base[f"{split}_sd"].fillna(NAN).iloc[0]) if len(base) else NAN
    rows = []
    if len(runs):
        value = float(runs[f"baseline_{split}"].median())
        rows.append({"label": "baseline", "value": value, "sd": sd})
    methods = known[known["method"] != "baseline"]
    if len(methods):
        higher = methods["direction"].iloc[0] == Direction.HIGHER.value
        values = methods[split]
        place = int((values if higher else -values).argmax())
        label = f"best reference ({methods['method'].iloc[place]})"
        rows.append({"label": label, "value": float(values.iloc[place]), "sd": NAN})
    return pd.DataFrame(rows, columns=LINES)


def _task(study: Study, task: str, curves: pd.DataFrame) -> list[Block]:
    table = results(study, task)
    blocks: list[Block] = []
    if table.empty:
        blocks.append(Text("No run on this task has a test result yet."))
    else:
        blocks.append(_table(study, task, table))
    drawn = [_dots(study, task, table)] if len(table) else []
    if len(curves) and curves["k"].max() > 0:
        drawn.append(_curves(study, task, curves))
    return [*blocks, Gallery(drawn)] if drawn else blocks


def _table(study: Study, task: str, table: pd.DataFrame) -> Table:
    lower = table["direction"].iloc[0] == Direction.LOWER.value
    better: Literal["low", "high"] = "low" if lower else "high"
    columns = [
        Column("agent", "agent"),
        Column("llm", "LLM"),
        Column("of", "rounds", hint="finished rounds, and asked for where there are fewer"),
        Column("test", "best of n", "number", "best test result over the rounds", best=better),
        Column("mean", "mean", "number", "mean test result over the rounds", best=better),
        Column("std", "sd", "number", "standard deviation over the rounds", "–"),
        Column("baseline_test", "baseline", "number", "the baseline on test"),
        Column("improvement_percent", "gain %", "signed", _GAIN, "–", digits=1),
        Column("normalized_improvement", "NI", "number", "normalized improvement", best="high"),
        Column("relative", "% of ref.", "number", _RELATIVE, reason="undefined", digits=1),
    ]
    if table["fallback"].any():
        columns.append(Column("fallback", "remark"))
    marks = [
        f"{line['label']} {line['value']:.4g}" for _, line in lines(study, task, "test").iterrows()
    ]
    note = f"On test: {', '.join(marks)}." if marks else ""
    caption = f"{task}: {study.metric_of(task)}, on held-out test data."
    return Table(f"results_{slug(task)}", caption, table, columns, note)


def _dots(study: Study, task: str, best: pd.DataFrame) -> Figure:
    rounds = study.tested[study.tested["task"] == task]
    table = rounds[["label", "seed", "test", "run_id"]].copy()
    table["best"] = table["run_id"].isin(best["run_id"])
    order = {label: place for place, label in enumerate(best["label"])}
    table = table.sort_values(
        ["label", "seed"], key=lambda c: c.map(order) if c.name == "label" else c
    )
    top = best.iloc[0]
    return Figure(
        f"test_{slug(task)}",
        f"Test results on {task}, a mark per round.",
        f"{plural(len(table), 'test result')} on {task}; the best, {top['test']:.4g}, is by "
        f"{top['label']}, the baseline has {top['baseline_test']:.4g}.",
        table.drop(columns="run_id"),
        partial(
            figures.results,
            looks=study.looks,
            metric=study.metric_of(task),
            lines=lines(study, task, "test"),
        ),
    )


def _curves(study: Study, task: str, curves: pd.DataFrame) -> Figure:
    last = int(curves["k"].max())
    return Figure(
        f"curves_{slug(task)}",
        f"Best so far on validation data over the steps of {task}: mean over the rounds, from the "
        "worst to the best of them.",
        f"Best validation result so far over {plural(last, 'step')}, a curve per configuration.",
        curves[["label", "k", "n", "mean", "low", "high"]],
        partial(
            figures.curves,
            looks=study.looks,
            metric=study.metric_of(task),
            lines=lines(study, task, "val"),
        ),
    )
