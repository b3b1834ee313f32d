"""`python -m fml_hydra ui`: the MLflow UI on the store the runs went to. Not for remote servers."""

import os
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import NoReturn

from rich.console import Console

from fml_hydra.construct import construct
from fml_hydra.errors import ConfigError
from fml_hydra.overrides import compose_config
from fml_hydra.tracking import Tracking

HOST, PORT = "127.0.0.1", 5000
_QUIET = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_DISABLE_TELEMETRY": "true"}
"""Nothing here needs MLflow's job runner, and nobody else needs to hear of it."""


def main(argv: list[str]) -> int:
    """Become the UI; `port=5001` and overrides are understood. Returns when it is elsewhere."""
    port = next((a.partition("=")[2] for a in argv if a.startswith("port=")), str(PORT))
    if not port.isdigit():
        raise ConfigError(f"port={port}: not a number")
    cfg = compose_config([a for a in argv if not a.startswith("port=")])
    tracking: Tracking = construct(cfg.tracking)
    root = Path(cfg.root).absolute()
    if not tracking.on:
        raise ConfigError("tracking=none: there is no MLflow store to look at")
    if tracking.is_local(root):
        _serve(root, tracking, port)
    Console().print(f"The runs are on {tracking.address(root)}: open that address in a browser.")
    return 0


def _serve(root: Path, tracking: Tracking, port: str) -> NoReturn:
    """Put the server in our place, so that whoever stops us stops it."""
    database = root / "mlflow.db"
    if not database.exists():
        raise ConfigError(f"{database} does not exist; run something first, or name its root=")
    page = f"http://{HOST}:{port}/{_page(database, tracking.experiment)}"
    Console().print(
        f"MLflow, in some seconds, on\n{page}\n(stop with Ctrl-C)", highlight=False, soft_wrap=True
    )
    sys.stdout.flush()
    command = [sys.executable, "-m", "mlflow", "server", "--host", HOST, "--port", port]
    command += ["--workers", "1"]  # up sooner than the usual four, and enough for one person
    command += ["--backend-store-uri", tracking.address(root)]
    os.execve(sys.executable, command, _QUIET | os.environ)


def _page(database: Path, experiment: str) -> str:
    """The page of the runs; MLflow's own first page is about traces, and empty here."""
    with closing(sqlite3.connect(database)) as connection:
        wanted = "SELECT experiment_id FROM experiments WHERE name = ?"
        found = connection.execute(wanted, (experiment,)).fetchone()
    return f"#/experiments/{found[0]}/runs?workflowType=machine_learning" if found else ""
