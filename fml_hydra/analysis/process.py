"""The process metrics of FML-bench v3 (arXiv 2605.17373): how a run searched, in twelve numbers.

Four say where its code states lie as vectors; the other eight are columns of the runs' table.
Not here: what becomes a vector (diversity.step_text), who embeds it (an embedder), curves (curves).
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.cluster.hierarchy import linkage

from fml_hydra.analysis.diversity import spread
from fml_hydra.analysis.rows import CELL, NAN
from fml_hydra.embedding import Vectors, effective_dimension, reach

MERGE_BELOW = 0.015
"""Mean cosine distance below which two clusters of code states are one."""
_ZERO = 1e-8
"""Vectors that are shorter have no direction."""


@dataclass(frozen=True)
class Exploration:
    """Where a run's code states lie; NaN throughout for a run without a step."""

    spread: float
    """Mean L2 distance to their centroid (Exploration Diversity)."""
    uniqueness: float
    """Clusters / states."""
    reach: float
    """Largest L2 distance to the baseline's code; NaN where that is not known."""
    effective_dimension: float
    """Directions they vary in (participation ratio)."""


@dataclass(frozen=True)
class Column:
    """Where one of the twelve stands in our tables."""

    name: str
    """What FML-bench calls it, its unit included."""
    column: str
    """Column of the runs' table, or of `exploration`."""
    per: float = 1.0
    """What our unit is divided by."""


TWELVE = (
    Column("Exploration Spread", "diversity"),
    Column("Exploration Uniqueness", "uniqueness"),
    Column("Exploration Reach", "reach"),
    Column("Effective dim", "effective_dimension"),
    Column("Val-test |gap|", "val_test_gap"),
    Column("Valid step ratio", "step_success_rate"),
    Column("AUC-over-steps", "auc"),
    Column("First-improvement step", "first_improvement_step"),
    Column("Late-gain fraction", "late_gain"),
    Column("Best-improvement step", "best_improvement_step"),
    Column("Token cost (M)", "tokens", 1e6),
    Column("Wall-clock time (h)", "seconds", 3600),
)
"""In the order of FML-bench's own table."""


def process_metrics(vectors: Vectors, baseline_vector: Vectors | None) -> Exploration:
    """The four of them that are about code, from one vector per step.

    `vectors` has the shape (steps, dimensions), `baseline_vector` (dimensions,); None if the
    baseline's code is not known. As in FML-bench's script, the spread is computed in the vectors'
    own precision and everything else in float64.
    """
    if not len(vectors):
        return Exploration(NAN, NAN, NAN, NAN)
    points = np.asarray(vectors, dtype=np.float64)
    equal = bool((points == points[0]).all())  # rounding would make a direction of nothing
    return Exploration(
        spread=spread(vectors),
        uniqueness=clusters(points) / len(points),
        reach=NAN if baseline_vector is None else reach(points, np.asarray(baseline_vector, float)),
        effective_dimension=0.0 if equal else effective_dimension(points),
    )


def clusters(vectors: Vectors) -> int:
    """How many groups (n, d) vectors form: average linkage, cosine distance, below 0.015.

    All vectors of length zero are one more group.
    """
    points = np.asarray(vectors, dtype=np.float64)
    pointing = points[np.linalg.norm(points, axis=1) > _ZERO]
    groups = len(pointing)
    if groups > 1:
        distances = linkage(pointing, method="average", metric="cosine")[:, 2]
        groups = 1 + int((distances >= MERGE_BELOW).sum())
    return groups + (len(pointing) < len(points))


def process_table(runs: pd.DataFrame, explored: pd.DataFrame) -> pd.DataFrame:
    """The twelve metrics of each run, under FML-bench's names and in its units.

    `explored` has a row per run: `run_id`, `diversity`, `uniqueness`, `reach`,
    `effective_dimension`; a run that is not in it has NaN there. Columns: `run_id`, the cell, the
    names of `TWELVE`.
    """
    four = [c.column for c in TWELVE if c.column not in runs.columns]
    joined = runs.merge(explored[["run_id", *four]], on="run_id", how="left", validate="1:1")
    numbers = {c.name: joined[c.column].astype(float) / c.per for c in TWELVE}
    return joined[["run_id", *CELL]].assign(**numbers)
