"""Agent or LLM? Where the spread of results comes from, and each two configurations compared."""

from functools import partial

import pandas as pd

from fml_hydra.analysis.comparison import pairwise
from fml_hydra.analysis.decomposition import decomposition
from fml_hydra.report import figures
from fml_hydra.report.parts import Block, Column, Figure, Heading, Section, Table, Text
from fml_hydra.report.study import Study

MOST_PAIRS = 45
"""More pairs than these are a table only."""


def section(study: Study) -> Section:
    """The section `Comparisons`."""
    title = "Comparisons"
    if study.tested.empty:
        return Section("comparison", title, [Text("No run has a test result yet.")])
    blocks: list[Block] = [Heading("Agent or LLM?"), _decomposition(study)]
    pairs = differences(study)
    blocks.append(Heading("Each two configurations"))
    if pairs.empty:
        blocks.append(Text("There is one configuration only."))
    else:
        blocks.append(_pairs(pairs))
        if len(pairs) <= MOST_PAIRS and pairs["difference"].notna().any():
            blocks.append(_forest(pairs))
    return Section("comparison", title, blocks)


def differences(study: Study) -> pd.DataFrame:
    """All pairs with a `label` of their own."""
    settings = study.settings
    pairs = pairwise(study.runs, resamples=settings.resamples, seed=settings.bootstrap_seed)
    names = {
        f"{row['agent']} · {row['llm']}": row["label"] for _, row in study.configurations.iterrows()
    }
    a, b = pairs["a"].map(names), pairs["b"].map(names)
    return pairs.assign(label=a + " − " + b, a=a, b=b)


def _decomposition(study: Study) -> Table:
    columns = [
        Column("source", "source"),
        Column("levels", "levels", "count", missing="–"),
        Column("df", "df", "count", "degrees of freedom"),
        Column("share", "share of variance", "percent"),
        Column("p", "p", "p", "F test of the factor beside the other two", "–"),
        Column("note", "remark", missing=""),
    ]
    return Table(
        "decomposition",
        "The variance of NI over finished runs, split into agent, LLM, task and the rest.",
        decomposition(study.runs),
        columns,
        "Shares are gains in fit averaged over the orders of the factors; interactions are in the "
        "rest.",
    )


def _pairs(pairs: pd.DataFrame) -> Table:
    columns = [
        Column("a", "a"),
        Column("b", "b"),
        Column("n", "n", "count", "pairs of runs with the same task and seed"),
        Column("tasks", "tasks", "count"),
        Column("difference", "a − b", "signed", "mean difference in NI", "–"),
        Column("low", "from", "signed", "lower end of the 95% interval", "–"),
        Column("high", "to", "signed", "upper end of the 95% interval", "–"),
        Column("p", "p", "p", "Wilcoxon signed-rank, two-sided", "–", reason="undefined"),
        Column("p_holm", "p (Holm)", "p", "adjusted over all pairs", "–"),
    ]
    return Table(
        "pairwise",
        "Differences in NI, paired over task and seed; positive: a is better.",
        pairs,
        columns,
        "Intervals are stratified bootstraps: rounds are drawn anew within tasks, tasks are kept.",
    )


def _forest(pairs: pd.DataFrame) -> Figure:
    table = pairs.assign(value=pairs["difference"])[["label", "value", "low", "high"]].dropna()
    apart = int(((table["low"] > 0) | (table["high"] < 0)).sum())
    return Figure(
        "pairwise",
        "Differences in NI with 95% intervals.",
        f"{len(table)} differences; the intervals of {apart} do not contain 0.",
        table,
        partial(
            figures.intervals, looks={}, what="difference in NI, first minus second", zero=True
        ),
    )
