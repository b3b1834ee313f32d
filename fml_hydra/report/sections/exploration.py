"""Does breadth go with results? Exploration Diversity, performance, and how runs searched."""

from collections.abc import Sequence
from functools import partial

import pandas as pd

from fml_hydra.analysis.correlations import correlations
from fml_hydra.analysis.explored import METRICS
from fml_hydra.analysis.process import TWELVE, process_table
from fml_hydra.analysis.rows import CONFIGURATION
from fml_hydra.analysis.tables import mean_and_std, readable
from fml_hydra.report import figures
from fml_hydra.report.formats import p_value, slug
from fml_hydra.report.parts import (
    Block,
    Column,
    Figure,
    Gallery,
    Heading,
    Section,
    Table,
    Text,
)
from fml_hydra.report.study import Study

DIVERSITY = "diversity"


def section(study: Study) -> Section:
    """The section `Exploration and performance`."""
    title = "Exploration and performance"
    blocks: list[Block] = []
    if study.embedder:
        blocks += _diversity(study)
    else:
        blocks.append(Text("No code was embedded (diversity=false): nothing is said of diversity."))
    blocks += [Heading("How runs searched"), _process(study)]
    return Section("exploration", title, blocks)


def _diversity(study: Study) -> list[Block]:
    if not study.tested[DIVERSITY].notna().any():
        return [Text("No run with a test result has a readable step to embed.")]
    over = correlation(study, ("task",))
    blocks: list[Block] = [
        Text(
            "Exploration Diversity is the mean distance of a run's code states to their centroid, "
            f"here in the embedder {study.embedder}. Performance enters as utility: a positive r "
            "means that broader exploration goes with better results, on every task."
        ),
        _table(
            study, over, "correlations", "Diversity and test performance over all runs of a task."
        ),
        Gallery([_scatter(study, row) for _, row in over.iterrows()]),
    ]
    groups = (("llm", "LLM", "agents"), ("agent", "agent", "LLMs"))
    for fixed, name, rest in groups:
        if study.runs[fixed].nunique() == 1:
            only = study.runs[fixed].iloc[0]
            blocks.append(Text(f"With the {name} fixed nothing changes: there is only {only}."))
            continue
        within = correlation(study, (fixed, "task"))
        caption = f"The same with the {name} fixed: what is left is due to {rest} and chance."
        blocks.append(_table(study, within, f"correlations_within_{fixed}", caption, fixed))
    return blocks


def correlation(study: Study, by: Sequence[str]) -> pd.DataFrame:
    """Diversity against utility within each group of `by`."""
    settings = study.settings
    return correlations(
        study.runs, DIVERSITY, "utility", by, settings.resamples, settings.bootstrap_seed
    )


def _table(study: Study, frame: pd.DataFrame, name: str, caption: str, fixed: str = "") -> Table:
    columns = [Column(fixed, "LLM" if fixed == "llm" else fixed)] if fixed else []
    columns += [
        Column("task", "task"),
        Column("n", "n", "count", "runs"),
        Column("r", "Pearson r", "signed", reason="undefined"),
        Column("low", "from", "signed", "lower end of r's 95% bootstrap interval", "–"),
        Column("high", "to", "signed", "upper end of r's 95% bootstrap interval", "–"),
        Column("p", "p", "p", "two-sided", "–"),
        Column("p_holm", "p (Holm)", "p", "adjusted over the tasks", "–"),
        Column("spearman", "Spearman ρ", "signed", "rank correlation", "–"),
        Column("spearman_p", "p of ρ", "p", "two-sided", "–"),
    ]
    return Table(name, caption, frame, columns, f"Embedder: {study.embedder}.")


def _scatter(study: Study, row: pd.Series) -> Figure:
    task = str(row["task"])
    runs = study.tested[study.tested["task"] == task]
    table = runs.assign(x=runs[DIVERSITY], y=runs["test"])[["label", "seed", "x", "y"]].dropna()
    if row["undefined"]:
        words = f"no correlation, since {row['undefined']}"
    else:
        words = f"r = {row['r']:+.2f}, p = {p_value(row['p'])}, n = {row['n']}"
    return Figure(
        f"diversity_{slug(task)}",
        f"{task}: {words} (r in utility: + is better with more diversity).",
        f"Exploration Diversity against test performance on {task}, a point per run; {words}.",
        table,
        partial(
            figures.scatter,
            looks=study.looks,
            x=f"Exploration Diversity ({study.embedder})",
            y=study.metric_of(task),
        ),
    )


def _process(study: Study) -> Table:
    known = study.cells.drop(columns=[*METRICS, "embedder"], errors="ignore")
    four = study.cells.reindex(columns=["run_id", *METRICS])
    each = process_table(known, four)
    wanted = [c.name for c in TWELVE if study.embedder or c.column not in METRICS]
    names = CONFIGURATION
    # tables that count cells want what says which of two runs counts
    runs = each.merge(study.cells[["run_id", "status", "started"]], on="run_id")
    long = mean_and_std(runs, wanted)
    frame = readable(long, 3) if len(long) else pd.DataFrame(columns=[*names, *wanted])
    columns = [Column("agent", "agent"), Column("llm", "LLM")]
    columns += [Column(name, name, "spread") for name in wanted]
    note = "Mean ± standard deviation over tasks and rounds; N/A where no run can report it."
    return Table(
        "process",
        "The process metrics of FML-bench (arXiv 2605.17373).",
        frame,
        columns,
        note + (f" Embedder: {study.embedder}." if study.embedder else ""),
        raw=long,
    )
