"""The parent runs of an MLflow store and their journals. Reads only; mlflow is imported late."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from http.client import NOT_FOUND
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlparse
from urllib.request import url2pathname

from fml_hydra.analysis.rows import NAN, RunRow
from fml_hydra.errors import ConfigError
from fml_hydra.tracking.store import Tracking, connect

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

log = logging.getLogger(__name__)
JOURNAL = "journal.jsonl"
PAGE = 1000
"""Runs per page of a search."""
_SETTINGS = {
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "60",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",  # one bar per journal
}


@dataclass(frozen=True)
class Parents:
    """The parents in one experiment of one store."""

    client: "MlflowClient"
    """Talks to the store."""
    experiment_id: str
    """Where they are."""
    root: Path
    """Where runs of this machine lie, and the cache."""

    @classmethod
    def open(cls, tracking: Tracking, root: Path) -> "Parents":
        """Unlike `Tracking.open`, creates nothing; raises ConfigError, saying what is missing."""
        address = tracking.address(root)
        if tracking.is_local(root) and not (root / "mlflow.db").exists():
            raise ConfigError(
                f"{root / 'mlflow.db'} does not exist; run something first, name its root, or use "
                "load_folder for runs without MLflow"
            )
        client = connect(address, **_SETTINGS)
        from mlflow.exceptions import MlflowException

        try:
            found = client.get_experiment_by_name(tracking.experiment)
        except MlflowException as error:
            raise ConfigError(f"{address}: {str(error).splitlines()[0]}") from error
        if found is None:
            raise ConfigError(f"{address} has no experiment {tracking.experiment!r}")
        return cls(client, str(found.experiment_id), root)

    def search(self, wanted: str, sweep: str | None) -> Iterator["Run"]:
        """All parents that match; raises ConfigError for a filter MLflow does not understand."""
        from mlflow.exceptions import MlflowException

        parts = ["tags.`fml.kind` = 'run'", wanted.strip()]
        parts += [f"tags.`fml.sweep` = '{sweep}'"] if sweep is not None else []
        text, token = " and ".join(filter(None, parts)), None
        while True:
            try:
                page = self.client.search_runs(
                    [self.experiment_id], text, max_results=PAGE, page_token=token
                )
            except MlflowException as error:
                raise ConfigError(f"filter {text!r}: {str(error).splitlines()[0]}") from error
            yield from page
            token = page.token
            if not token:
                return

    def over(self, run: "Run") -> bool:
        """Whether nobody works on the run; one that is gone on with keeps its old end time."""
        return run.info.status != "RUNNING" and bool(run.info.end_time)

    def journal(self, run: "Run", folder: Path) -> Path | None:
        """The run's journal: where it lies, or fetched into `folder`; None if there is none."""
        place = urlparse(run.info.artifact_uri)
        if place.scheme in {"", "file"}:
            path = Path(url2pathname(place.path)) / JOURNAL
            return path if path.exists() else None
        from mlflow.exceptions import MlflowException

        folder.mkdir(parents=True, exist_ok=True)
        partial, path = folder / f"{JOURNAL}.part", folder / JOURNAL
        try:
            if not self._fetch(run, partial):
                return None
            partial.replace(path)  # whole: half a journal would look like a torn one
        except (MlflowException, OSError) as error:
            log.warning("%s: its journal cannot be fetched (%s)", run.info.run_id, error)
            return None
        return path

    def _fetch(self, run: "Run", path: Path) -> bool:
        """Download the journal to `path`; False if the run has none."""
        from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository
        from mlflow.store.artifact.http_artifact_repo import HttpArtifactRepository
        from requests import HTTPError

        repository = get_artifact_repository(run.info.artifact_uri, self.client.tracking_uri)
        if isinstance(repository, HttpArtifactRepository):
            try:  # one request; the public way asks for the run and lists its folder twice before
                repository._download_file(JOURNAL, str(path))  # type: ignore[no-untyped-call]
            except HTTPError as error:
                if error.response is not None and error.response.status_code == NOT_FOUND:
                    return False
                raise
            return True
        run_id, folder = run.info.run_id, str(path.parent)
        if all(info.path != JOURNAL for info in self.client.list_artifacts(run_id)):
            return False
        Path(self.client.download_artifacts(run_id, JOURNAL, folder)).replace(path)
        return True

    def local_journal(self, run: "Run") -> Path:
        """Where the journal is while this machine works on the run."""
        name = run.data.tags.get("fml.identity", "")
        return (self.root / "runs" / name / JOURNAL).absolute()

    def bare_row(self, run: "Run") -> RunRow:
        """What tags and metrics say of a run without a journal."""
        tags, metrics = run.data.tags, run.data.metrics
        names = ("instance", "sweep", "task", "agent", "llm", "identity", "status", "sandbox")
        texts: dict[str, Any] = {name: tags.get(f"fml.{name}", "") for name in names}
        return RunRow(
            run_id=run.info.run_id,
            **texts,
            seed=int(tags.get("fml.seed", -1)),
            started=run.info.start_time / 1000,
            baseline_val=metrics.get("baseline_val", NAN),
            baseline_test=metrics.get("baseline_test", NAN),
            best_val=metrics.get("best_val", NAN),
        )
