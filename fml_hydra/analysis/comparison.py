"""Comparing configurations over tasks and seeds: pairs, the interquartile mean, with intervals.

Intervals are stratified bootstraps: seeds are drawn anew within each task, tasks are kept, since
the tasks of a benchmark are no sample.
"""

from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from fml_hydra.analysis.rows import CONFIGURATION
from fml_hydra.analysis.statistics import RESAMPLES, holm, interval, iqm
from fml_hydra.analysis.tables import tested

NAN = float("nan")
NI = "normalized_improvement"
Values = NDArray[np.float64]


def pairwise(
    runs: pd.DataFrame, y: str = NI, resamples: int = RESAMPLES, seed: int = 0
) -> pd.DataFrame:
    """Every two configurations, paired over task and seed.

    Columns: `a`, `b` (agent and LLM), `n` pairs, `tasks` they come from, `difference` (mean of a
    minus b in `y`) with its interval `low`, `high`, `p` (Wilcoxon signed-rank, two-sided),
    `p_holm` over all pairs, `undefined` (why there is no p).
    """
    named = _named(runs, y)
    wide = named.pivot(index=["task", "seed"], columns="configuration", values=y)
    rows = [
        _pair(a, b, (wide[a] - wide[b]).dropna(), resamples, seed)
        for a, b in combinations(map(str, wide.columns), 2)
    ]
    columns = ["a", "b", "n", "tasks", "difference", "low", "high", "p", "undefined"]
    table = pd.DataFrame(rows, columns=columns)
    table.insert(8, "p_holm", np.array(holm(list(table["p"])), dtype=float))
    return table


def interquartile_means(
    runs: pd.DataFrame, y: str = NI, resamples: int = RESAMPLES, seed: int = 0
) -> pd.DataFrame:
    """Per configuration over tasks x seeds: `n`, `tasks`, `iqm` with `low`, `high`, `mean`."""
    rows = []
    for names, group in tested(runs).dropna(subset=[y]).groupby(CONFIGURATION):
        values, tasks = group[y].to_numpy(float), group["task"].to_numpy()
        drawn = _resampled(values, tasks, resamples, seed)
        low, high = interval(stats.trim_mean(drawn, 0.25, axis=1))
        row = dict(zip(CONFIGURATION, names, strict=True))
        row |= {"n": len(values), "tasks": len(set(tasks)), "iqm": iqm(values)}
        rows.append(row | {"low": low, "high": high, "mean": float(values.mean())})
    return pd.DataFrame(rows, columns=[*CONFIGURATION, "n", "tasks", "iqm", "low", "high", "mean"])


def _pair(a: str, b: str, differences: pd.Series, resamples: int, seed: int) -> dict[str, Any]:
    values = differences.to_numpy(float)
    tasks = differences.index.get_level_values("task").to_numpy()
    row: dict[str, Any] = {"a": a, "b": b, "n": len(values), "tasks": len(set(tasks))}
    if not len(values):
        return row | {"difference": NAN, "p": NAN, "undefined": "no task and seed in common"}
    low, high = interval(_resampled(values, tasks, resamples, seed).mean(axis=1))
    row |= {"difference": float(values.mean()), "low": low, "high": high, "undefined": ""}
    if not values.any():
        return row | {"p": NAN, "undefined": "all differences are 0"}
    return row | {"p": float(stats.wilcoxon(values).pvalue)}


def _resampled(values: Values, tasks: NDArray[Any], resamples: int, seed: int) -> Values:
    """Samples (rows) in which each task keeps its number of seeds."""
    generator = np.random.default_rng(seed)
    groups = [values[tasks == task] for task in sorted(set(tasks))]
    return np.hstack([generator.choice(group, size=(resamples, len(group))) for group in groups])


def _named(runs: pd.DataFrame, y: str) -> pd.DataFrame:
    cells = tested(runs).dropna(subset=[y])
    return cells.assign(configuration=cells["agent"] + " · " + cells["llm"])
