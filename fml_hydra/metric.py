"""Metrics and their direction: the only module that knows a sign.

Everything else compares *utility*, which is always better when higher.
"""

import math
from enum import StrEnum

from pydantic.dataclasses import dataclass

from fml_hydra.knobs import STRICT


class Direction(StrEnum):
    """Whether a metric is to be raised or lowered."""

    HIGHER = "higher"
    LOWER = "lower"


@dataclass(frozen=True, config=STRICT)
class Metric:
    """The primary metric of a task."""

    name: str
    """Key in the grader's result."""
    direction: Direction
    """`higher` or `lower` is better."""
    best: float
    """Best value that can be thought of, in the metric's unit."""
    worst: float | None = None
    """Worst value; None means the baseline's value (`worst: baseline` in FML-bench)."""
    unit: str = ""
    """Unit for tables; empty for shares and scores."""

    def utility(self, value: float) -> float:
        """Turn a metric value into utility (higher is better)."""
        return value if self.direction is Direction.HIGHER else -value

    def value(self, utility: float) -> float:
        """Turn utility back into a metric value."""
        return self.utility(utility)

    def improvement(self, value: float, baseline: float) -> float:
        """Gain over the baseline, in the metric's unit; positive is better."""
        return self.utility(value) - self.utility(baseline)

    def normalized_improvement(self, value: float, baseline: float) -> float:
        """max(0, gain / |best - worst|) (FML-bench, arXiv 2605.17373).

        A range of zero width (the baseline is already the best value) gives 0.
        """
        width = abs(self.best - (baseline if self.worst is None else self.worst))
        return max(0.0, self.improvement(value, baseline) / width) if width > 0 else 0.0


def better(a: float | None, b: float | None) -> bool:
    """Whether utility `a` is strictly better than `b`; missing, NaN and infinite always lose."""
    if a is None or not math.isfinite(a):
        return False
    return b is None or not math.isfinite(b) or a > b
