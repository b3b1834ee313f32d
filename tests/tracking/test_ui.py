"""`python -m fml_hydra ui`: the right page of the right store; nothing left when it is stopped."""

import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request

import psutil
import pytest

from fml_hydra.commands import ui
from fml_hydra.errors import ConfigError


@pytest.mark.parametrize(
    ("extra", "complaint"),
    [
        ((), "mlflow.db does not exist"),
        (("tracking=none",), "no MLflow store"),
        (("port=http",), "not a number"),
    ],
)
def test_what_cannot_be_shown(words, extra, complaint):
    with pytest.raises(ConfigError, match=complaint):
        ui.main(words(*extra))


def test_a_remote_store_has_its_own_ui(words, capsys):
    assert ui.main(words("tracking.uri=http://mlflow.example.org")) == 0
    assert "http://mlflow.example.org" in capsys.readouterr().out


def test_serves_the_runs_until_it_is_stopped(words, server, look):
    experiment = look().store.experiment_id
    port = server.port  # a free one; the server itself is not started
    command = [sys.executable, "-m", "fml_hydra", "ui", *words(f"port={port}")]
    shown = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        said = [shown.stdout.readline() for _ in range(2)]
        assert said[1].strip() == (
            f"http://127.0.0.1:{port}/#/experiments/{experiment}/runs?workflowType=machine_learning"
        )
        deadline = time.monotonic() + 120
        while not server.answers():
            assert time.monotonic() < deadline
            time.sleep(0.2)
        url = f"http://127.0.0.1:{port}/ajax-api/2.0/mlflow/experiments/get?experiment_id="
        with urllib.request.urlopen(url + experiment, timeout=20) as reply:
            assert b'"fml_hydra"' in reply.read()
        family = psutil.Process(shown.pid).children(recursive=True)
        os.kill(shown.pid, signal.SIGTERM)
        shown.wait(30)
        gone, alive = psutil.wait_procs(family, timeout=30)
        assert family
        assert not alive
        with pytest.raises(urllib.error.URLError):
            urllib.request.urlopen(url + experiment, timeout=2)
    finally:
        shown.kill()
        shown.wait()
