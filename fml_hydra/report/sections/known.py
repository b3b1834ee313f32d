"""Beside what others reached: the tasks' reference methods, and FML-bench's published values."""

import pandas as pd

from fml_hydra.analysis.known import relative_to_known
from fml_hydra.analysis.published import beside_published
from fml_hydra.analysis.rows import CONFIGURATION
from fml_hydra.analysis.tables import COST, RELIABILITY, mean_and_std
from fml_hydra.report.parts import Block, Column, Heading, Section, Table, Text
from fml_hydra.report.study import Study

_CELL = [*CONFIGURATION, "task", "metric"]


def section(study: Study) -> Section:
    """The section `Beside known results`."""
    blocks: list[Block] = [Heading("Reference methods"), _references(study), _relative(study)]
    beside = beside_ours(study)
    blocks.append(Heading("Published values"))
    if beside.empty:
        blocks.append(
            Text("FML-bench (arXiv 2510.10472) publishes no value for a cell that was run here.")
        )
    else:
        blocks.append(_published(beside))
    return Section("known", "Beside known results", blocks)


def beside_ours(study: Study) -> pd.DataFrame:
    """Published values with ours: `agent`, `llm`, `task`, `metric`, `n`, `ours`, `std`, both."""
    wanted = [*RELIABILITY, *COST, *(["diversity"] if study.embedder else [])]
    ours = mean_and_std(study.runs, wanted).rename(columns={"mean": "ours"}).assign(task="all")
    best = study.best.assign(metric="test", ours=study.best["test"], n=study.best["rounds"])
    base = study.runs.dropna(subset=["baseline_test"]).groupby("task")["baseline_test"].median()
    baseline = pd.DataFrame({"task": base.index, "ours": base.to_numpy()}).assign(
        agent="baseline", llm="", metric="test"
    )
    tests = pd.concat([baseline, best[[*_CELL, "n", "ours"]]], ignore_index=True)
    averages = beside_published(ours.drop(columns="task")).assign(task="all")
    found = pd.concat([beside_published(tests, "test"), averages], ignore_index=True)
    return found[found["published"].notna()].reset_index(drop=True)


def _references(study: Study) -> Table:
    known = study.known[study.known["task"].isin(study.tasks)]
    columns = [
        Column("task", "task"),
        Column("method", "method"),
        Column("val", "val", "number"),
        Column("val_sd", "sd of val", "number", "over training seeds", "–"),
        Column("test", "test", "number"),
        Column("test_sd", "sd of test", "number", "over training seeds", "–"),
    ]
    caption = "Known methods of these tasks, measured when the tasks were made."
    note = ""
    if unknown := sorted(set(study.tasks) - set(known["task"])):
        note = f"This installation knows no methods for {', '.join(unknown)}."
    return Table("known_methods", caption, known, columns, note)


def _relative(study: Study) -> Table:
    table = relative_to_known(study.best, study.known)
    columns = [
        Column("task", "task"),
        Column("agent", "agent"),
        Column("llm", "LLM"),
        Column("baseline_test", "baseline", "number"),
        Column("test", "best of n", "number"),
        Column("reference", "reference", "number", "best known method", "–"),
        Column("relative", "% of reference", "number", reason="undefined", digits=1),
    ]
    return Table(
        "relative",
        "Relative to the best known method: 0 is the baseline, 100 the reference (MLRC-Bench).",
        table,
        columns,
    )


def _published(beside: pd.DataFrame) -> Table:
    columns = [
        Column("agent", "agent"),
        Column("llm", "LLM", missing=""),
        Column("task", "task"),
        Column("metric", "metric"),
        Column("n", "n", "count", "runs here", "–"),
        Column("ours", "here", "each"),
        Column("std", "sd", "each", missing="–"),
        Column("published", "published", "each"),
        Column("published_std", "sd", "each", missing="–"),
    ]
    return Table(
        "published",
        "Values of FML-bench (arXiv 2510.10472v2) beside ours.",
        beside,
        columns,
        "FML-bench's tasks are larger than the embedded ones, and its language models others: for "
        "orientation, not for a test.",
    )
