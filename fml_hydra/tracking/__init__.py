"""MLflow as a sink that can be rebuilt from the journal: `sink` follows a run, `delivery` sends it.

The journal on disk is the truth. Nothing here ever raises into a run.
"""

from fml_hydra.tracking.sink import MlflowSink
from fml_hydra.tracking.store import Tracking

__all__ = ["MlflowSink", "Tracking"]
