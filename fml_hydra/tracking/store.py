"""Which MLflow store is used, and its first creation. Imports mlflow only when it is needed."""

import os
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock
from pydantic.dataclasses import dataclass

from fml_hydra.knobs import STRICT

if TYPE_CHECKING:
    from mlflow import MlflowClient

OFF = "none"
_DEFAULTS = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",  # the default of seven blocks for minutes
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
    "MLFLOW_LOGGING_LEVEL": "WARNING",
}


@dataclass(frozen=True, config=STRICT)
class Tracking:
    """Where runs are recorded."""

    uri: str | None
    """Tracking address; null for the local store, `none` for no tracking."""
    experiment: str
    """Name of the MLflow experiment."""

    @property
    def on(self) -> bool:
        """Whether runs are sent anywhere."""
        return self.uri != OFF

    def address(self, root: Path) -> str:
        """The tracking address, the local store's if none is given."""
        return self.uri or f"sqlite:///{root.absolute()}/mlflow.db"

    def is_local(self, root: Path) -> bool:
        """Whether the store is the database below `root`."""
        return self.address(root) == f"sqlite:///{root.absolute()}/mlflow.db"

    def open(self, root: Path) -> tuple["MlflowClient", str]:
        """A client and the experiment's id; creates store and experiment the first time.

        Several processes may call this at once: four of them on a fresh database would crash in its
        migration, so they take turns.
        """
        for name, value in _DEFAULTS.items():
            os.environ.setdefault(name, value)
        from mlflow import MlflowClient  # two to three seconds

        root.mkdir(parents=True, exist_ok=True)
        with FileLock(root / "mlflow.lock"):
            client = MlflowClient(tracking_uri=self.address(root))
            found = client.get_experiment_by_name(self.experiment)
            if found is None:
                place = f"file://{root.absolute()}/artifacts" if self.is_local(root) else None
                experiment_id = client.create_experiment(self.experiment, artifact_location=place)
            else:
                experiment_id = found.experiment_id
            if self.is_local(root):
                _write_ahead(root / "mlflow.db")
        return client, str(experiment_id)


def _write_ahead(database: Path) -> None:
    """WAL lets one process write while others read, and is twice as fast; it sticks to the file."""
    with sqlite3.connect(database) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
    connection.close()
