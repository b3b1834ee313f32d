"""How a run got better step by step: the efficiency metrics of FML-bench (arXiv 2605.17373).

A curve holds, for each executed step in order, the best-so-far normalized gain over the baseline
on val: never below 0, never falling. Steps are counted from 1.
"""

import math
from collections.abc import Sequence

from fml_hydra.journal import Node
from fml_hydra.metric import Metric, better

NAN = float("nan")
IMPROVED, GAINED = 1e-15, 1e-12
"""Smaller gains are none: for the first improvement, and for dividing by the final gain."""


def best_utilities(nodes: Sequence[Node]) -> list[float | None]:
    """Best utility after each step; None before the first one that counts."""
    found: list[float | None] = []
    best: float | None = None
    for node in nodes:
        if node.ok and better(node.utility, best):
            best = node.utility
        found.append(best)
    return found


def gain_curve(nodes: Sequence[Node], metric: Metric, baseline: float) -> list[float]:
    """Best-so-far normalized gain over `baseline` (in the metric's unit).

    NaN throughout if the metric's range has no width: then nothing can be normalized.
    """
    worst = baseline if metric.worst is None else metric.worst
    if metric.best == worst or not math.isfinite(baseline):
        return [NAN] * len(nodes)
    return [
        0.0 if best is None else metric.normalized_improvement(metric.value(best), baseline)
        for best in best_utilities(nodes)
    ]


def area(curve: Sequence[float]) -> float:
    """AUC over steps: the mean of the curve; NaN without a step."""
    return math.fsum(curve) / len(curve) if curve else NAN


def first_improvement(curve: Sequence[float]) -> float:
    """The first step with a gain; NaN if there is none."""
    return next((float(k) for k, gain in enumerate(curve, start=1) if gain > IMPROVED), NAN)


def late_gain(curve: Sequence[float]) -> float:
    """Share of the final gain that was made after step floor(K/2); NaN without a final gain.

    A single step belongs to the first half, as in FML-bench's own script.
    """
    if not curve or not curve[-1] > GAINED:
        return NAN
    half = max(1, len(curve) // 2)
    return (curve[-1] - curve[half - 1]) / curve[-1]


def best_improvement(nodes: Sequence[Node]) -> float:
    """The last step whose val metric equals the best; NaN if no step has one."""
    best = best_utilities(nodes)[-1] if nodes else None
    if best is None:
        return NAN
    return float(max(k for k, n in enumerate(nodes, start=1) if n.ok and n.utility == best))
