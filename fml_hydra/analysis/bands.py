"""Best-so-far over the steps, summed up over seeds: the bands that a report draws."""

import numpy as np
import pandas as pd

from fml_hydra.analysis.rows import CONFIGURATION
from fml_hydra.analysis.tables import one_per_cell
from fml_hydra.metric import Direction

COLUMNS = ["task", *CONFIGURATION, "k", "n", "mean", "low", "high"]


def bands(runs: pd.DataFrame, steps: pd.DataFrame) -> pd.DataFrame:
    """COLUMNS: best val metric so far after k steps, over the seeds of a task, agent and LLM.

    In the metric's unit, the baseline counting as step 0 (k = 0). `mean` is over the `n` seeds,
    `low` and `high` are the least and the greatest. A run that is over keeps its last value up to
    the task's longest run; one that is still going on counts as far as it got.
    """
    cells = one_per_cell(runs)
    joined = steps.merge(cells[["run_id", "baseline_val", "direction"]], on="run_id")
    best = joined["best_val"].fillna(joined["baseline_val"])
    higher = joined["direction"] == Direction.HIGHER.value
    joined["value"] = np.where(
        higher,
        np.fmax(best, joined["baseline_val"]),
        np.fmin(best, joined["baseline_val"]),
    )
    starts = cells.assign(k=0, value=cells["baseline_val"])
    names = ["task", "run_id", "k", "value"]
    curves = pd.concat([starts[names], joined[names]], ignore_index=True)
    over = set(cells.loc[cells["termination"] != "", "run_id"])
    tasks = [_levelled(task, over) for _, task in curves.groupby("task")]
    if not tasks:
        return pd.DataFrame(columns=COLUMNS)
    whole = pd.concat(tasks).merge(cells[["run_id", "task", *CONFIGURATION]], on="run_id")
    grouped = whole.groupby(["task", *CONFIGURATION, "k"])["value"]
    return grouped.agg(n="count", mean="mean", low="min", high="max").reset_index()[COLUMNS]


def _levelled(curves: pd.DataFrame, over: set[str]) -> pd.DataFrame:
    """The curves of one task's runs; those that are over go on level to the longest one's end."""
    wide = curves.pivot(index="k", columns="run_id", values="value")
    ended = [run_id for run_id in wide.columns if run_id in over]
    wide[ended] = wide[ended].ffill()
    return wide.reset_index().melt(id_vars="k", var_name="run_id").dropna(subset=["value"])
