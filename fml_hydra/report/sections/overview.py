"""What was run: the numbers first, then the matrix of cells, and what is missing in it."""

import pandas as pd

from fml_hydra.analysis import tables
from fml_hydra.analysis.rows import CELL, CONFIGURATION
from fml_hydra.report.formats import duration, plural
from fml_hydra.report.parts import Block, Column, Facts, Section, Table, Text
from fml_hydra.report.study import Study


def section(study: Study) -> Section:
    """The section `What was run`."""
    blocks: list[Block] = [Facts(_numbers(study), large=True), _matrix(study)]
    missing = missing_cells(study)
    if len(missing):
        blocks.append(_missing(missing))
    blocks += [Text(notice) for notice in study.notices]
    return Section("runs-overview", "What was run", blocks)


def missing_cells(study: Study) -> pd.DataFrame:
    """Cells of the cross product without a test result, with what became of their run (`why`)."""
    missing = tables.missing_cells(study.runs)
    became = study.cells[[*CELL, "status", "steps"]]
    joined = missing.merge(became, on=CELL, how="left")
    steps = joined["steps"].fillna(0).astype(int)
    why = joined["status"].fillna("never run")
    started = joined["status"].notna()
    return joined.assign(why=why.where(~started, why + " after " + steps.astype(str) + " steps"))


def matrix(study: Study) -> pd.DataFrame:
    """`agent`, `llm`, and for each task the finished and asked-for rounds, such as `2 of 3`."""
    done = study.tested.groupby([*CONFIGURATION, "task"]).size()
    rows = []
    for _, names in study.configurations.iterrows():
        key = (names["agent"], names["llm"])
        counts = {task: int(done.get((*key, task), 0)) for task in study.tasks}
        shown = {task: f"{count} of {study.asked}" for task, count in counts.items()}
        rows.append({"agent": key[0], "llm": key[1], **shown})
    return pd.DataFrame(rows, columns=[*CONFIGURATION, *study.tasks])


def _numbers(study: Study) -> list[tuple[str, str]]:
    cells = study.cells
    cost = cells["cost_usd"].sum(min_count=1)
    finished = len(study.tested)
    return [
        ("configurations", f"{len(study.configurations):,}"),
        ("tasks", f"{len(study.tasks):,}"),
        ("rounds", f"{study.asked:,}"),
        ("runs finished", f"{finished:,} of {finished + len(missing_cells(study)):,}"),
        ("steps", f"{int(cells['steps'].sum()):,}"),
        ("time in runs", duration(float(cells["seconds"].sum()))),
        ("LLM cost", "N/A" if pd.isna(cost) else f"${cost:,.2f}"),
    ]


def _matrix(study: Study) -> Table:
    columns = [Column("agent", "agent"), Column("llm", "LLM")]
    columns += [Column(task, task) for task in study.tasks]
    rounds = plural(study.asked, "round")
    return Table(
        "matrix",
        f"Finished runs of every agent and LLM on every task, of {rounds} asked for.",
        matrix(study),
        columns,
    )


def _missing(missing: pd.DataFrame) -> Table:
    columns = [Column("task", "task"), Column("agent", "agent"), Column("llm", "LLM")]
    columns += [Column("seed", "seed", "count"), Column("why", "what became of it")]
    return Table(
        "missing_cells",
        "Cells of the matrix without a test result. They count nowhere below.",
        missing,
        columns,
    )
