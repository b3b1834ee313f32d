"""Performance profiles: how often a configuration reaches a score, and MLGym's AUP (2502.14499).

The AUP of a configuration depends on the pool it is compared with; every table names the pool.
"""

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from fml_hydra.analysis.rows import CONFIGURATION
from fml_hydra.analysis.tables import tested
from fml_hydra.metric import Direction

POINTS = 500
"""Values of tau."""
PENALTY = 1.05
"""Times the worst ratio: what an infeasible or missing result counts as."""
BASELINE = "baseline"
"""Name of the tasks' own baseline in a pool."""
ROUNDING = 1e-12
"""Ratios that are equal up to rounding are equal."""


def score_profiles(
    runs: pd.DataFrame, y: str = "normalized_improvement", points: int = 101
) -> pd.DataFrame:
    """Share of results above each of `points` values from 0 to 1; tasks weigh the same.

    Long: agent, llm, `tau`, `share`.
    """
    cells = tested(runs).dropna(subset=[y])
    taus = np.linspace(0, 1, points)
    tables = []
    for names, group in cells.groupby(CONFIGURATION):
        each = [task.to_numpy(float)[:, None] > taus for _, task in group.groupby("task")[y]]
        above = np.mean([results.mean(axis=0) for results in each], axis=0)
        tables.append(
            pd.DataFrame({"agent": names[0], "llm": names[1], "tau": taus, "share": above})
        )
    columns = [*CONFIGURATION, "tau", "share"]
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=columns)


@dataclass(frozen=True)
class Profiles:
    """MLGym's profiles of one pool."""

    taus: pd.Series
    """log10 of the ratio to the best of the pool, from 0."""
    shares: pd.DataFrame
    """For each configuration (columns) the share of tasks within tau of the best."""
    ratios: pd.DataFrame
    """For each task (rows) and configuration the ratio to the best, 1 or more."""
    aup: pd.DataFrame
    """`configuration`, `aup`, `feasible` (tasks), `tasks`, `pool`; best first."""


def performance_profiles(best: pd.DataFrame, with_baseline: bool = True) -> Profiles:
    """The profiles of the configurations in a table of `best_of_n`, and of the baseline.

    A result is feasible if it is not worse than its task's baseline and its raw score is not
    negative; its ratio is best / score, or score / best where lower is better. What is infeasible,
    missing or without a finite ratio counts as PENALTY times the task's worst ratio. Tasks on which
    nothing is feasible are left out.
    """
    scores = _scores(best, with_baseline)
    names = sorted(set(scores["configuration"]) - {BASELINE})
    names += [BASELINE] if with_baseline and len(scores) else []
    rows = {task: _ratios(group, names) for task, group in scores.groupby("task")}
    known = pd.DataFrame(rows, index=names, dtype=float).T.dropna(how="all")
    ratios = known.T.fillna(PENALTY * known.max(axis=1)).T
    top = float(ratios.to_numpy().max()) if ratios.size else 1.0
    taus = np.linspace(0, math.ceil(10 * math.log10(top) - ROUNDING) / 10, POINTS)
    logs = np.log10(ratios.to_numpy(float))
    within = logs[None] <= taus[:, None, None] + ROUNDING
    reached = within.mean(axis=1) if ratios.size else np.full((POINTS, len(names)), np.nan)
    shares = pd.DataFrame(reached, columns=names)
    areas = np.diff(taus) @ reached[:-1]  # left Riemann sum
    table = pd.DataFrame({"configuration": names, "aup": areas})
    table = table.assign(feasible=list(known.notna().sum()), tasks=len(ratios))
    table = table.assign(pool=", ".join(names)).sort_values("aup", ascending=False, kind="stable")
    return Profiles(pd.Series(taus), shares, ratios, table.reset_index(drop=True))


def _scores(best: pd.DataFrame, with_baseline: bool) -> pd.DataFrame:
    """configuration, task, score, baseline and whether higher is better."""
    table = best.assign(
        configuration=best["agent"] + " · " + best["llm"],
        score=best["test"],
        baseline=best["baseline_test"],
        higher=best["direction"] == Direction.HIGHER.value,
    )
    wanted = ["configuration", "task", "score", "baseline", "higher"]
    if not with_baseline:
        return table[wanted]
    base = table.groupby("task", as_index=False)[["baseline", "higher"]].first()
    base = base.assign(configuration=BASELINE, score=base["baseline"])
    return pd.concat([table[wanted], base[wanted]], ignore_index=True)


def _ratios(task: pd.DataFrame, names: list[str]) -> pd.Series:
    """Ratios of one task's feasible results by configuration; NaN for the others."""
    higher = task["higher"].astype(bool)
    gain = (task["score"] - task["baseline"]).where(higher, task["baseline"] - task["score"])
    feasible = task[(gain >= 0) & (task["score"] >= 0)].set_index("configuration")["score"]
    if feasible.empty:
        return pd.Series(np.nan, index=names)
    up = bool(higher.iloc[0])
    top = feasible.max() if up else feasible.min()
    over, under = (top, feasible) if up else (feasible, top)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = pd.Series(np.divide(over, under), index=feasible.index)
    ratio[feasible == top] = 1.0  # 0 / 0 among them
    return ratio.where(np.isfinite(ratio)).reindex(names)
