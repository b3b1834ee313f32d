"""Which MLflow store is used, and its first creation. Imports mlflow only when it is needed."""

import os
import sqlite3
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass as plain
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock
from pydantic.dataclasses import dataclass

from fml_hydra.errors import ConfigError
from fml_hydra.knobs import STRICT

if TYPE_CHECKING:
    from mlflow import MlflowClient

OFF = "none"
_DEFAULTS = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",  # the default of seven blocks for minutes
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
    "MLFLOW_LOGGING_LEVEL": "WARNING",
    "MLFLOW_DISABLE_TELEMETRY": "true",  # a run talks to its store and to nobody else
}
_ABOUT = {
    "mlflow.note.content": "One run per task, agent, seed and LLM; its nested runs are the steps. "
    "Runs alone: tags.`fml.kind` = 'run'. One sweep: tags.`fml.sweep` = '...'. "
    "Compare `best_val` over steps, and `normalized_improvement` across tasks. "
    "A run's artifacts hold the search tree (tree.svg), all steps (steps.csv) and the best code.",
}


@plain(frozen=True)
class Store:
    """A store that answers."""

    client: "MlflowClient"
    """Talks to it."""
    experiment_id: str
    """Where runs are created."""


@dataclass(frozen=True, config=STRICT)
class Tracking:
    """Where runs are recorded."""

    uri: str | None
    """Tracking address; null for the local store, `none` for no tracking."""
    experiment: str
    """Name of the MLflow experiment."""
    traces: bool = True
    """Whether LLM calls are sent as traces."""

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

    def open(self, root: Path) -> Store:
        """The store; creates it and its experiment the first time.

        Several processes may call this at once: four of them on a fresh database would crash in its
        migration, so they take turns. Raises whatever the store's driver raises.
        """
        root.mkdir(parents=True, exist_ok=True)
        with self._turn(root):
            if self.is_local(root):
                _create(root / "mlflow.db")
            client = connect(self.address(root))
            place = f"file://{root.absolute()}/artifacts" if self.is_local(root) else None
            return Store(client, _experiment(client, self.experiment, place))

    def _turn(self, root: Path) -> AbstractContextManager[object]:
        """A server lets its clients in one by one; they must not wait for each other's timeouts."""
        if self.address(root).startswith("http"):
            return nullcontext()
        return FileLock(root / "mlflow.lock")


def connect(address: str, **settings: str) -> "MlflowClient":
    """A client, with our defaults and `settings` for what MLflow takes from the environment.

    What the user has set there stays. Nothing is asked of the store yet.
    """
    for name, value in {**_DEFAULTS, **settings}.items():
        os.environ.setdefault(name, value)
    from mlflow import MlflowClient  # two to three seconds

    return MlflowClient(tracking_uri=address)


def download(
    tracking: Tracking, root: Path, run_id: str, names: Sequence[str], folder: Path
) -> Path:
    """Fetch those of a run's artifacts that are there; raises ConfigError when it has none."""
    address = tracking.address(root)
    if not tracking.on or (tracking.is_local(root) and not (root / "mlflow.db").exists()):
        raise ConfigError(f"{run_id}: no such run below {root / 'runs'}, and no MLflow store")
    from mlflow.exceptions import MlflowException

    try:
        client = tracking.open(root).client
        there = {info.path for info in client.list_artifacts(run_id)}
        folder.mkdir(parents=True, exist_ok=True)
        for name in sorted(there & set(names)):
            client.download_artifacts(run_id, name, str(folder))
    except MlflowException as error:
        raise ConfigError(f"{run_id} on {address}: {str(error).splitlines()[0]}") from error
    if not there & set(names):
        raise ConfigError(f"{run_id} on {address} is not the parent of a run's steps")
    return folder


def _experiment(client: "MlflowClient", name: str, place: str | None) -> str:
    from mlflow.exceptions import MlflowException

    found = client.get_experiment_by_name(name)
    if found is None:
        try:
            return client.create_experiment(name, artifact_location=place, tags=_ABOUT)
        except MlflowException:
            found = client.get_experiment_by_name(name)  # another client may have been faster
            if found is None:
                raise
    return str(found.experiment_id)


def _create(database: Path) -> None:
    """Create a database beside its place and move it there: killed half way, it would be useless.

    WAL lets one process write while others read, and is twice as fast; it sticks to the file.
    """
    if database.exists():
        return
    partial = database.with_suffix(".part")
    partial.unlink(missing_ok=True)
    connect(f"sqlite:///{partial.absolute()}").search_experiments(max_results=1)
    connection = sqlite3.connect(partial)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.close()
    partial.replace(database)
