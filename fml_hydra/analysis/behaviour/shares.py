"""What configurations do with their steps: shares of categories, academic rate, repeated errors.

From tables to tables. Shares are means over runs, so that a long run counts no more than a short
one. Runs are taken as they are given: to count each cell once, give `behaviour` the runs of
`tables.one_per_cell`.
"""

import re
from typing import get_args

import pandas as pd

from fml_hydra.analysis.behaviour.categories import Category
from fml_hydra.analysis.rows import CONFIGURATION
from fml_hydra.analysis.tables import one_per_cell

CATEGORIES: tuple[str, ...] = get_args(Category)
RATES = ("acr", "shallow")
_RUN = ["run_id", *CONFIGURATION, "task", "seed"]
_MEANINGLESS = (
    (re.compile(r"0x[0-9a-fA-F]+|\b(?=\w*\d)[0-9a-f]{8,}\b"), "#"),
    (re.compile(r"(?:(?<![\w.])[A-Za-z]:|(?<![\w.])[~.]*)[/\\](?:[\w.+~-]+[/\\])*"), ""),
    (re.compile(r"(?:[\w.~-]+[/\\])+(?=[\w-]+\.\w+)"), ""),
    (re.compile(r"(?<=\d)x(?=\d)"), ","),
    (re.compile(r"(?<![A-Za-z_])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?"), "#"),
    (re.compile(r"#(?:\s*,\s*#)*,?(?=[])])"), "#"),
)
"""What makes equal errors look different: addresses, folders, numbers, lists of numbers."""


def run_shares(table: pd.DataFrame) -> pd.DataFrame:
    """A row per run of a table of `behaviour`, with `steps`, a share per category, RATES.

    `acr` is the Academic Contribution Rate (FML-bench v1): academic steps / steps that changed
    code; missing where no step did.
    """
    counts = pd.crosstab([table[name] for name in _RUN], table["category"], normalize="index")
    shares = counts.reindex(columns=list(CATEGORIES), fill_value=0.0)
    grouped = table.groupby(_RUN)
    rates = {
        "steps": grouped.size(),
        "acr": table["academic"].astype("Float64").groupby([table[n] for n in _RUN]).mean(),
        "shallow": grouped["shallow"].mean(),
    }
    return shares.join(pd.DataFrame(rates)).astype({"acr": "float64"}).reset_index()


def behaviour_shares(table: pd.DataFrame) -> pd.DataFrame:
    """A row per configuration: `n` runs, and the means over runs of the shares and RATES."""
    grouped = run_shares(table).groupby(CONFIGURATION)
    means = grouped[[*CATEGORIES, *RATES]].mean()
    means.insert(0, "n", grouped.size())
    return means.rename_axis(columns=None).reset_index()


def best_and_worst(table: pd.DataFrame, runs: pd.DataFrame) -> pd.DataFrame:
    """The shares of each configuration's best and worst run, by normalized improvement on test.

    Columns: `case` (best, worst), what names the run, `normalized_improvement`, `steps`, the shares
    and RATES. Runs without a test result do not take part; a single run is both. Ties go to the run
    with the smaller auc in the worst case, the larger in the best.
    """
    tested = one_per_cell(runs[runs["normalized_improvement"].notna()])
    result = tested[["run_id", "normalized_improvement", "auc"]]
    order = run_shares(table).merge(result, on="run_id")
    order = order.sort_values(["normalized_improvement", "auc"], kind="stable", na_position="first")
    ends = {"best": order.drop_duplicates(CONFIGURATION, keep="last")}
    ends["worst"] = order.drop_duplicates(CONFIGURATION, keep="first")
    both = pd.concat([end.assign(case=case) for case, end in ends.items()])
    both = both.sort_values([*CONFIGURATION, "case"], ignore_index=True)
    return both[["case", *_RUN, "normalized_improvement", "steps", *CATEGORIES, *RATES]]


def repeated_errors(steps: pd.DataFrame) -> pd.DataFrame:
    """Which errors occur how often, per configuration, from the steps' table (load_steps).

    Errors are compared without numbers, folders and addresses (`error_kind`). Columns: `status`,
    `error`, `steps`, `runs`, `again` (how often the next step of the run failed in the same way),
    `example` (one as it was told). Most frequent first.
    """
    ordered = steps.sort_values(["run_id", "k"], kind="stable")
    kinds = ordered["error"].map(error_kind).where(~ordered["ok"], "")
    failure = (ordered["status"] + "\n" + kinds).where(~ordered["ok"], "")
    following = failure.groupby(ordered["run_id"]).shift(-1)
    marked = ordered.assign(error=kinds, again=failure == following, example=ordered["error"])
    grouped = marked[~marked["ok"]].groupby([*CONFIGURATION, "status", "error"], sort=False)
    counts = grouped.agg(
        steps=("step", "size"),
        runs=("run_id", "nunique"),
        again=("again", "sum"),
        example=("example", "first"),
    ).reset_index()
    order = [*CONFIGURATION, "steps", "error"]
    return counts.sort_values(order, ascending=[True, True, False, True], ignore_index=True)


def error_kind(error: str) -> str:
    """The last line of an error without what differs from one occurrence to the next."""
    last = (error.strip().splitlines() or [""])[-1]
    for pattern, instead in _MEANINGLESS:
        last = pattern.sub(instead, last)
    return last.strip()
