"""Tables over runs: best of n rounds, reliability, cost, first places, why runs ended.

Every function takes the runs' table (rows) and returns a new one. Duplicates of a cell, as two
sweeps may leave, are never counted twice. Not here: tests and intervals (statistics, comparison).
"""

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from fml_hydra.analysis.rows import CELL, CONFIGURATION

RELIABILITY = ("step_success_rate", "step_completion_rate")
COST = ("tokens", "tokens_per_step", "cost_usd", "cost_usd_per_step", "seconds", "seconds_per_step")
PROCESS = ("auc", "first_improvement_step", "late_gain", "best_improvement_step", "val_test_gap")
NOT_AVAILABLE = "N/A"


def one_per_cell(runs: pd.DataFrame) -> pd.DataFrame:
    """One run per task, agent, LLM and seed: a finished one if there is one, then the newest."""
    order = runs.assign(_finished=runs["status"] == "finished")
    order = order.sort_values(["_finished", "started"], kind="stable")
    kept = order.drop_duplicates(CELL, keep="last").index
    return runs.loc[runs.index.isin(kept)].reset_index(drop=True)


def tested(runs: pd.DataFrame) -> pd.DataFrame:
    """The finished cells: one run each, with a test result."""
    return one_per_cell(runs[runs["utility"].notna()])


def best_of_n(runs: pd.DataFrame, n: int | None = None, asked: int | None = None) -> pd.DataFrame:
    """The best test performance over the rounds, per agent, LLM and task (FML-bench v2).

    The first `n` seeds count (None: all). Columns: those of the best run's row, `rounds` (how many
    there were) and `short` (fewer than `asked`, by default the most that any cell has). Ties go to
    the lowest seed.
    """
    cell = [*CONFIGURATION, "task"]
    rounds = tested(runs).sort_values([*cell, "seed"], kind="stable")
    if n is not None:
        rounds = rounds.groupby(cell, sort=False).head(n)
    counted = rounds.assign(rounds=rounds.groupby(cell)["seed"].transform("size"))
    order = counted.sort_values("utility", ascending=False, kind="stable")
    best = order.drop_duplicates(cell).sort_values(cell, ignore_index=True)
    wanted = asked or int(best["rounds"].max() if len(best) else 0)
    return best.assign(short=best["rounds"] < wanted)


def mean_and_std(
    runs: pd.DataFrame, metrics: Sequence[str], by: Sequence[str] = CONFIGURATION
) -> pd.DataFrame:
    """Mean and sample standard deviation (n - 1) over tasks and rounds, per group.

    Long: a row per group and metric, with `n` (runs that report it), `mean` and `std`. What no run
    of a group reports has n = 0 and NaN; `std` needs two runs.
    """
    cells = one_per_cell(runs)
    long = cells.melt(id_vars=list(by), value_vars=list(metrics), var_name="metric_name")
    grouped = long.groupby([*by, "metric_name"], sort=False)["value"]
    table = grouped.agg(n="count", mean="mean", std="std").reset_index()
    return table.rename(columns={"metric_name": "metric"})


def reliability(runs: pd.DataFrame) -> pd.DataFrame:
    """Step success and completion rates (FML-bench v2), as `mean_and_std`."""
    return mean_and_std(runs, RELIABILITY)


def cost(runs: pd.DataFrame) -> pd.DataFrame:
    """Tokens, dollars and seconds, total and per step (FML-bench v2), as `mean_and_std`."""
    return mean_and_std(runs, COST)


def process(runs: pd.DataFrame) -> pd.DataFrame:
    """Efficiency metrics (FML-bench v3), as `mean_and_std`."""
    return mean_and_std(runs, PROCESS)


def readable(table: pd.DataFrame, digits: int = 2) -> pd.DataFrame:
    """A table of `mean_and_std` for people: metrics as columns, `0.83 ± 0.27`, or N/A."""
    texts = [
        _readable(mean, std, digits) for mean, std in zip(table["mean"], table["std"], strict=True)
    ]
    by = [name for name in table.columns if name not in {"metric", "n", "mean", "std"}]
    wide = table.assign(text=texts).pivot(index=by, columns="metric", values="text")
    return wide[list(dict.fromkeys(table["metric"]))].reset_index().rename_axis(columns=None)


def _readable(mean: float, std: float, digits: int) -> str:
    if np.isnan(mean):
        return NOT_AVAILABLE
    return f"{mean:.{digits}f}" + ("" if np.isnan(std) else f" ± {std:.{digits}f}")


def first_places(best: pd.DataFrame) -> pd.DataFrame:
    """On how many tasks a configuration is best, from a table of `best_of_n`; most first.

    Columns: `first` (tasks, shared ones included), `shared` (of these, ties), `tasks` (their
    names, a shared one followed by `=`).
    """
    top = best["utility"] == best.groupby("task")["utility"].transform("max")
    ties = top.groupby(best["task"]).transform("sum") > 1
    names = best["task"].where(~ties, best["task"] + "=").where(top, "")
    marked = best.assign(first=top, shared=top & ties, tasks=names)
    grouped = marked.groupby(CONFIGURATION, sort=False)
    counts = grouped.agg(first=("first", "sum"), shared=("shared", "sum"), tasks=("tasks", _joined))
    return counts.sort_values("first", ascending=False, kind="stable").reset_index()


def _joined(names: Iterable[str]) -> str:
    return ", ".join(sorted(filter(None, names)))


def terminations(runs: pd.DataFrame) -> pd.DataFrame:
    """Why runs ended, per configuration: `runs` and mean `step` for each reason."""
    cells = one_per_cell(runs)
    reason = cells["termination"].where(cells["termination"] != "", cells["status"])
    grouped = cells.assign(reason=reason).groupby([*CONFIGURATION, "reason"])
    return grouped.agg(runs=("run_id", "size"), step=("steps", "mean")).reset_index()


def step_statuses(steps: pd.DataFrame) -> pd.DataFrame:
    """How steps ended, per configuration: `steps` and their `share` for each status."""
    counts = steps.groupby([*CONFIGURATION, "status"]).size().rename("steps").reset_index()
    totals = counts.groupby(CONFIGURATION)["steps"].transform("sum")
    return counts.assign(share=counts["steps"] / totals)


def missing_cells(runs: pd.DataFrame) -> pd.DataFrame:
    """Cells of the full cross product (as far as the table knows it) without a test result."""
    groups = runs[CONFIGURATION].drop_duplicates()
    full = groups.merge(runs[["task"]].drop_duplicates(), how="cross")
    full = full.merge(runs[["seed"]].drop_duplicates(), how="cross")
    known = tested(runs)[CELL].assign(_there=True)
    joined = full.merge(known, on=CELL, how="left")
    return joined.loc[joined["_there"].isna(), CELL].reset_index(drop=True)
