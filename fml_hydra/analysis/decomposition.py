"""Agent or LLM? How much of the spread of a result goes with agent, LLM, task, and none of them.

A linear model of main effects, fitted by least squares; interactions are part of the rest.
"""

from itertools import permutations

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from fml_hydra.analysis.tables import tested

FACTORS = ("agent", "llm", "task")
NAN = float("nan")
Matrix = NDArray[np.float64]


def decomposition(runs: pd.DataFrame, y: str = "normalized_improvement") -> pd.DataFrame:
    """The variance of column `y` over finished runs, split into FACTORS and the rest.

    Columns: `source`, `levels`, `df`, `sum_of_squares`, `share` of the total, `p` (F test of the
    factor beside the other two), `note`. A factor's sum of squares is its gain in fit averaged over
    all orders in which the factors can be taken in (Lindeman, Merenda and Gold 1980): for a full
    cross product the classical one, and always adding up. Factors that cannot be told apart, since
    each agent has its own LLM say, have no p and a note.
    """
    cells = tested(runs).dropna(subset=[y])
    values = cells[y].to_numpy(float)
    blocks = {name: _indicators(cells[name]) for name in FACTORS}
    total = float(((values - values.mean()) ** 2).sum()) if len(values) else 0.0
    full = _residual(values, list(blocks.values()))
    spare = len(values) - _rank(len(values), list(blocks.values()))
    rows = [_factor(name, values, blocks, full, spare) for name in FACTORS]
    rows.append({"source": "rest", "df": spare, "sum_of_squares": full, "p": NAN, "note": ""})
    table = pd.DataFrame(rows, columns=["source", "levels", "df", "sum_of_squares", "p", "note"])
    known = total > 1e-24 * max(1, len(values))
    share = table["sum_of_squares"] / total if known else NAN
    table.insert(4, "share", share)
    if not known:
        table["note"], table["p"] = "all values are equal" if len(values) else "no runs", NAN
    return table


def _factor(
    name: str, values: Matrix, blocks: dict[str, Matrix], full: float, spare: int
) -> dict[str, object]:
    others = [block for other, block in blocks.items() if other != name]
    own = blocks[name].shape[1] - 1
    extra = _rank(len(values), list(blocks.values())) - _rank(len(values), others)
    gain = _residual(values, others) - full
    note = "" if own > 0 else "one level only"
    if own > extra:
        note = "cannot be told apart from the other factors in these runs"
    p = NAN
    if not note and spare > 0 and full > 0:
        p = float(stats.f.sf(gain / extra / (full / spare), extra, spare))
    return {
        "source": name,
        "levels": blocks[name].shape[1],
        "df": extra,
        "sum_of_squares": _averaged(name, values, blocks),
        "p": p,
        "note": note,
    }


def _averaged(name: str, values: Matrix, blocks: dict[str, Matrix]) -> float:
    """The factor's gain in fit, averaged over the orders of all factors."""
    gains = []
    for order in permutations(blocks):
        before = [blocks[other] for other in order[: order.index(name)]]
        gains.append(_residual(values, before) - _residual(values, [*before, blocks[name]]))
    return float(np.mean(gains))


def _indicators(column: pd.Series) -> Matrix:
    return pd.get_dummies(column, dtype=float).to_numpy()


def _design(rows: int, blocks: list[Matrix]) -> Matrix:
    return np.column_stack([np.ones(rows), *blocks])


def _rank(rows: int, blocks: list[Matrix]) -> int:
    return int(np.linalg.matrix_rank(_design(rows, blocks))) if rows else 0


def _residual(values: Matrix, blocks: list[Matrix]) -> float:
    """Sum of squares that the blocks and a constant leave."""
    if not len(values):
        return 0.0
    design = _design(len(values), blocks)
    fitted = design @ np.linalg.lstsq(design, values, rcond=None)[0]
    return float(((values - fitted) ** 2).sum())
