"""The report in MLflow: the artifacts of a run of kind `report`, beside the runs it is about.

Its files are written first; a server that is away costs nothing but this copy.
"""

from collections.abc import Sequence
from pathlib import Path

from fml_hydra import __version__
from fml_hydra.errors import InfraError
from fml_hydra.tracking import Tracking
from fml_hydra.tracking.delivery import check_reachable

KIND = "report"


def send(tracking: Tracking, root: Path, title: str, folder: Path, files: Sequence[Path]) -> str:
    """Log `files`, which lie below `folder`; the new run's id. Raises InfraError if it cannot."""
    if problem := check_reachable(tracking, root):
        raise InfraError(f"{tracking.address(root)}: {problem}")
    from mlflow.exceptions import MlflowException

    tags = {
        "fml.kind": KIND,
        "fml.sweep": title,
        "fml.version": __version__,
        "mlflow.runName": f"report · {title}",
        "mlflow.source.name": "fml_hydra",
        "mlflow.note.content": "Open report.html among the artifacts, or download them all.",
    }
    try:
        store = tracking.open(root)
        run_id = str(store.client.create_run(store.experiment_id, tags=tags).info.run_id)
        for path in files:
            inside = path.parent.relative_to(folder).as_posix()
            store.client.log_artifact(run_id, str(path), None if inside == "." else inside)
        store.client.set_terminated(run_id, "FINISHED")
    except (MlflowException, OSError) as error:
        raise InfraError(f"{tracking.address(root)}: {str(error).splitlines()[0]}") from error
    return run_id
