"""The knobs of a report; their values are in conf/report.yaml."""

from collections.abc import Sequence
from typing import Literal

from pydantic import NonNegativeInt, PositiveInt
from pydantic.dataclasses import dataclass

from fml_hydra.analysis.behaviour import Judge
from fml_hydra.analysis.diversity import PreferredEmbedder
from fml_hydra.embedding import Embedder
from fml_hydra.knobs import STRICT, Folder
from fml_hydra.tracking import Tracking

LATEST, ALL = "latest", "all"


@dataclass(frozen=True, config=STRICT)
class Settings:
    """What is shown, and where it is written."""

    tracking: Tracking
    """Where the runs are looked up, and the report is sent."""
    embedder: Embedder | PreferredEmbedder
    """Turns code into vectors."""
    judge: Judge
    """Says what steps changed."""
    root: Folder
    """Where runs, sweeps and the MLflow store lie."""
    sweep: str
    """`latest`, `all`, or names of sweeps separated by commas."""
    filter: str
    """An MLflow search over runs; empty for none."""
    out: Folder | None
    """Where the report is written; None: below `root`."""
    best_of: PositiveInt | None
    """Rounds a best of n is taken over; None: all."""
    diversity: bool
    """Whether code is embedded."""
    behaviours: bool
    """Whether the code of steps is compared, to say what they changed."""
    resamples: PositiveInt
    """Bootstrap samples."""
    bootstrap_seed: NonNegativeInt
    """Seed of the bootstrap."""
    figures: Sequence[Literal["svg", "png", "pdf"]]
    """Formats of the figures' files."""
    trees: NonNegativeInt
    """Search trees shown in large."""
    rows: NonNegativeInt
    """Steps listed on the page, at most."""
    mlflow_ui: str | None
    """Address of the MLflow UI for links; None: found out."""
    log: bool
    """Whether the report is sent to MLflow."""
