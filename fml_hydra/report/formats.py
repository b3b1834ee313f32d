"""Values as people read them: equal digits down a column, minus signs, N/A instead of NaN.

One writing for the page and for LaTeX; the CSV files hold the values themselves.
"""

import math
import re
from collections.abc import Sequence
from typing import Any

import pandas as pd

from fml_hydra.hashing import text_hash
from fml_hydra.report.parts import Column, Table

MINUS = "\N{MINUS SIGN}"
DIGITS = 4
"""Significant digits of the largest value of a column."""
FEWEST_P = 1e-4
"""A smaller p is written as less than this."""


def texts(table: Table) -> list[list[str]]:
    """The shown cells, row by row."""
    columns = [column_texts(table.frame, column) for column in table.columns]
    return [list(row) for row in zip(*columns, strict=True)] if columns else []


def strong(table: Table) -> list[list[bool]]:
    """Which of them are the best of their column."""
    marks = [_best(table.frame[c.key], c) for c in table.columns]
    return [list(row) for row in zip(*marks, strict=True)] if marks else []


def column_texts(frame: pd.DataFrame, column: Column) -> list[str]:
    """One column's cells."""
    values = frame[column.key]
    digits = column.digits
    if digits is None:
        digits = decimals(values) if column.kind in {"number", "signed"} else 0
    shown = [_shown(value, column, digits) for value in values]
    if not column.reason:
        return shown
    reasons = [str(reason) for reason in frame[column.reason]]
    return [
        f"undefined: {why}" if why and _unknown(value) else text
        for text, value, why in zip(shown, values, reasons, strict=True)
    ]


def decimals(values: pd.Series) -> int:
    """Digits after the point that give the largest value DIGITS significant ones; at most 4."""
    finite = [abs(float(v)) for v in values if not _unknown(v) and math.isfinite(float(v))]
    largest = max(finite, default=0.0)
    if largest == 0:
        return 2
    return min(4, max(0, DIGITS - 1 - math.floor(math.log10(largest))))


def number(value: float, digits: int = 4) -> str:
    """A number on its own: `0.1936`, `12.3`, `−4`, `5,450,000`, N/A."""
    if _unknown(value):
        return "N/A"
    text = f"{value:,.0f}" if abs(value) >= 10**digits else f"{value:.{digits}g}"
    return text.replace("-", MINUS)


def duration(seconds: float) -> str:
    """`41 s`, `3.2 min`, `5.0 h`."""
    for unit, size in (("h", 3600.0), ("min", 60.0)):
        if abs(seconds) >= 2 * size:
            return f"{seconds / size:,.1f} {unit}"
    return f"{seconds:.3g} s"


def plural(count: int, word: str) -> str:
    """`1 run`, `2 runs`."""
    return f"{count:,} {word}" if count == 1 else f"{count:,} {word}s"


def slug(name: str) -> str:
    """A name for files and anchors; names that differ stay different."""
    clean = re.sub(r"[^\w-]+", "_", name, flags=re.ASCII)
    return clean if clean == name else f"{clean}_{text_hash(name)[:6]}"


def joined(words: Sequence[str]) -> str:
    """`a, b and c`."""
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def p_value(p: float) -> str:
    """`0.0121`, `< 0.0001`."""
    return f"< {FEWEST_P:.4f}" if p < FEWEST_P else f"{p:.4f}"


def _shown(value: Any, column: Column, digits: int) -> str:
    if _unknown(value):
        return column.missing
    if column.kind in {"text", "spread"}:
        return str(value)
    written = {
        "number": lambda v: f"{v:z,.{digits}f}",
        "signed": lambda v: f"{v:+z,.{digits}f}",
        "count": lambda v: f"{v:,.0f}",
        "percent": lambda v: f"{100 * v:z.1f}%",
        "p": p_value,
        "each": number,
    }[column.kind](float(value))
    return written.replace("-", MINUS)


def _best(values: pd.Series, column: Column) -> list[bool]:
    if not column.best:
        return [False] * len(values)
    numbers = pd.to_numeric(values, errors="coerce")
    top = numbers.max() if column.best == "high" else numbers.min()
    return [bool(v == top) for v in numbers]


def _unknown(value: Any) -> bool:
    return value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value))
