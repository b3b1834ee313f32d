"""`python -m fml_hydra ui`: the MLflow UI on the store the runs went to."""

import subprocess
import sys
from pathlib import Path

from rich.console import Console

from fml_hydra.errors import ConfigError
from fml_hydra.overrides import compose_config
from fml_hydra.tracking import Tracking

HOST, PORT = "127.0.0.1", 5000


def main(argv: list[str]) -> int:
    """Start the UI and stay until it is stopped; `port=5001` and overrides are understood."""
    port = next((a.partition("=")[2] for a in argv if a.startswith("port=")), str(PORT))
    if not port.isdigit():
        raise ConfigError(f"port={port}: not a number")
    cfg = compose_config([a for a in argv if not a.startswith("port=")])
    tracking = Tracking(cfg.tracking.uri, cfg.tracking.experiment)
    root = Path(cfg.root).absolute()
    console = Console()
    if not tracking.on:
        raise ConfigError("tracking=none: there is no MLflow store to look at")
    if not tracking.is_local(root):
        console.print(f"The runs are on {tracking.address(root)}: open that address in a browser.")
        return 0
    if not (root / "mlflow.db").exists():
        raise ConfigError(
            f"{root}/mlflow.db does not exist; run something first, or name its root="
        )
    console.print(f"MLflow on http://{HOST}:{port} (stop with Ctrl-C)", highlight=False)
    command = [sys.executable, "-m", "mlflow", "ui", "--host", HOST, "--port", port]
    command += ["--backend-store-uri", tracking.address(root)]
    try:
        return subprocess.run(command, check=False).returncode
    except KeyboardInterrupt:
        return 0
