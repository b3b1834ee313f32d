"""Does breadth go with results? Correlations over runs, per task and within an LLM or an agent.

Performance enters as utility, so that + means "more, and better" on every task (FML-bench v2).
"""

from collections.abc import Sequence

import pandas as pd

from fml_hydra.analysis.statistics import RESAMPLES, correlate, holm
from fml_hydra.analysis.tables import tested

COLUMNS = ["n", "r", "p", "p_holm", "low", "high", "spearman", "spearman_p", "undefined"]


def correlations(
    runs: pd.DataFrame,
    x: str,
    y: str = "utility",
    by: Sequence[str] = ("task",),
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> pd.DataFrame:
    """Correlation of columns `x` and `y` over all finished runs of each group.

    A row per group: its names, then COLUMNS (`statistics.Correlation`, and p adjusted by Holm over
    the tasks of one group). `x` may be any column joined to the runs, such as a diversity.
    """
    cells = tested(runs)
    rows = [
        dict(zip(by, names, strict=True)) | vars(correlate(group[x], group[y], resamples, seed))
        for names, group in cells.groupby(list(by))
    ]
    table = pd.DataFrame(rows, columns=[*by, *(c for c in COLUMNS if c != "p_holm")])
    return table.assign(p_holm=_adjusted(table, by))[[*by, *COLUMNS]]


def within_llm(
    runs: pd.DataFrame, x: str, y: str = "utility", resamples: int = RESAMPLES, seed: int = 0
) -> pd.DataFrame:
    """The same with the LLM fixed: what is left is due to agents and chance."""
    return correlations(runs, x, y, ("llm", "task"), resamples, seed)


def within_agent(
    runs: pd.DataFrame, x: str, y: str = "utility", resamples: int = RESAMPLES, seed: int = 0
) -> pd.DataFrame:
    """The same with the agent fixed: what is left is due to LLMs and chance."""
    return correlations(runs, x, y, ("agent", "task"), resamples, seed)


def _adjusted(table: pd.DataFrame, by: Sequence[str]) -> pd.Series:
    """Holm's adjustment within what is fixed beside the task."""
    fixed = [name for name in by if name != "task"]
    if table.empty or not fixed:
        return pd.Series(holm(list(table["p"])), index=table.index, dtype=float)
    return table.groupby(fixed)["p"].transform(lambda p: holm(list(p)))
