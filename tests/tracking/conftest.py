"""A real MLflow store per test, and toy cells whose runs are sent to it."""

import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from filelock import FileLock
from omegaconf import OmegaConf

from fml_hydra.config import load_experiment
from fml_hydra.journal import Folded, Journal
from fml_hydra.overrides import compose_config
from fml_hydra.runner import run
from fml_hydra.tracking import MlflowSink, Tracking
from fml_hydra.tracking.delivery import Delivery

EXPERIMENT = "fml_hydra"


@pytest.fixture(scope="session")
def fresh_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty MLflow database: made once for all workers, since its migrations take seconds."""
    folder = tmp_path_factory.getbasetemp()
    shared = folder.parent if folder.name.startswith("popen-") else folder
    with FileLock(shared / "fresh.lock"):
        root = shared / "fresh"
        if not (root / "mlflow.db").exists():
            Tracking(None, EXPERIMENT).open(root)
            store_of(root).delete_experiment(experiment_id(root))  # its artifacts lie elsewhere
            store_of(root).rename_experiment
    return root / "mlflow.db"
