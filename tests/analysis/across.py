"""Tables of runs for the tests of comparisons: only what is given matters, the rest is filled."""

import math
from collections.abc import Iterable
from typing import Any

import pandas as pd

from fml_hydra.analysis.rows import RunRow, run_table


def row(agent: str, seed: int = 0, test: float | None = 0.5, **more: Any) -> RunRow:
    """A finished run (one still going on if `test` is None), higher is better unless said."""
    value = math.nan if test is None else test
    sign = -1 if more.get("direction") == "lower" else 1
    known: dict[str, Any] = {
        "run_id": f"{agent}{seed}",
        "instance": "",
        "sweep": "s",
        "task": "t",
        "llm": "m",
        "identity": "",
        "status": "running" if test is None else "finished",
        "started": 0.0,
        "direction": "higher",
        "test": value,
        "utility": sign * value,
        "normalized_improvement": value,
        "baseline_test": 0.0,
    }
    return RunRow(agent=agent, seed=seed, **{**known, **more})


def table(*rows: RunRow | Iterable[RunRow]) -> pd.DataFrame:
    """The rows as `load_runs` would give them."""
    flat = [r for item in rows for r in ([item] if isinstance(item, RunRow) else item)]
    return run_table(flat)
