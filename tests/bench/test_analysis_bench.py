"""Loading 200 runs of 100 steps, from a local store and through a server; and once more, cached.

Each step changes a file of 20 kB. All parents share one journal on disk (hard links), so that what
is measured is asking, reading and folding, not a cold disk.

Run with: pytest tests/bench/test_analysis_bench.py -n 0 --benchmark-enable -s
"""

import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from fml_hydra.analysis.load import load_runs, load_steps
from fml_hydra.tracking import Tracking

sys.path.append(str(Path(__file__).parents[1] / "analysis"))
from journals import events, written  # noqa: E402

RUNS, STEPS = 200, 100
CODE = "x = 1\n" * 3400


def _copies(database: Path, template: str, parent: str) -> None:
    """Put STEPS copies of a child run below a parent, straight into the database."""
    with closing(sqlite3.connect(database)) as db, db:
        for table in ("runs", "tags", "metrics", "latest_metrics", "params"):
            found = db.execute(f"SELECT * FROM {table} WHERE run_uuid = ?", (template,))
            names = [column[0] for column in found.description]
            rows = [dict(zip(names, row, strict=True)) for row in found.fetchall()]
            marks = ",".join("?" * len(names))
            for step in range(STEPS):
                own = uuid.uuid5(uuid.UUID(parent), str(step)).hex
                for row in rows:
                    changed = row | {"run_uuid": own}
                    if changed.get("key") == "mlflow.parentRunId":
                        changed["value"] = parent
                    values = [changed[name] for name in names]
                    db.execute(f"INSERT INTO {table} VALUES ({marks})", values)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A local store with RUNS finished parents and their steps."""
    root = tmp_path_factory.mktemp("bench") / "mlruns"
    opened = Tracking(None, "fml_hydra").open(root)
    client, place = opened.client, opened.experiment_id
    values = [0.5 + 0.4 * k / STEPS if k % 5 else None for k in range(STEPS)]
    done = events(values, test=0.8, steps=STEPS)
    for event in done:
        if event["e"] == "node":
            event["snapshot"] = {"model.py": CODE + f"y = {event['id']}\n"}
    journal = written(root.parent / "journal", done)
    child = client.create_run(place, 0, {"fml.kind": "step", "mlflow.parentRunId": "?"})
    for name in ("val", "tokens", "cost_usd", "seconds_llm", "seconds_exec"):
        client.log_metric(child.info.run_id, name, 1.0)
    for number in range(RUNS):
        tags = {"fml.kind": "run", "fml.instance": str(number), "fml.sweep": "s"}
        run = client.create_run(place, 0, tags)
        for knob in range(5):
            client.log_param(run.info.run_id, f"knob{knob}", "1")
        folder = root / "artifacts" / run.info.run_id / "artifacts"
        folder.mkdir(parents=True)
        os.link(journal, folder / "journal.jsonl")
        client.set_terminated(run.info.run_id, "FINISHED", 1000)
        _copies(root / "mlflow.db", child.info.run_id, run.info.run_id)
    return root


def both(uri: str | None, root: Path) -> None:
    """What a report begins with."""
    runs = load_runs(uri, root)
    steps = load_steps(runs)
    assert (len(runs), len(steps)) == (RUNS, RUNS * STEPS)
    assert runs["step_success_rate"].eq(0.8).all()


TARGET, AGAIN = 20.0, 2.0
"""Seconds for the first load, and for one that finds everything cached."""


def within(seconds: float, benchmark, *where: object) -> None:
    """Load once and say how long that took: on the clock as well if nobody else is at work."""
    busy = os.getloadavg()[0]
    wall, cpu = time.monotonic(), time.process_time()
    benchmark.pedantic(both, where, rounds=1)
    wall, cpu = time.monotonic() - wall, time.process_time() - cpu
    print(f"\n{wall:.1f} s, {cpu:.1f} s CPU, load average {busy:.1f}")  # noqa: T201
    assert cpu < seconds
    if busy < 0.5 * (os.cpu_count() or 1):
        assert wall < seconds


def test_local(store, benchmark):
    shutil.rmtree(store / "analysis", ignore_errors=True)
    within(TARGET, benchmark, None, store)


def test_local_again(store, benchmark):
    both(None, store)
    within(AGAIN, benchmark, None, store)


@pytest.fixture(scope="module")
def server(store: Path) -> Iterator[str]:
    """A server on the same store, from whom alone the artifacts can be had."""
    with closing(sqlite3.connect(store / "mlflow.db")) as db, db:
        local = f"file://{store.absolute()}/artifacts"
        db.execute("UPDATE runs SET artifact_uri = replace(artifact_uri, ?, ?)", (local, PROXIED))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "mlflow", "server", "--workers", "1", "--port", str(port)]
    command += ["--backend-store-uri", f"sqlite:///{store}/mlflow.db"]
    command += ["--artifacts-destination", f"{store}/artifacts"]
    quiet = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_DISABLE_TELEMETRY": "true"}
    log = (store / "server.log").open("ab")
    process = subprocess.Popen(
        command, env=os.environ | quiet, stdout=log, stderr=log, start_new_session=True
    )
    try:
        yield _answering(f"http://127.0.0.1:{port}", process)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        log.close()


PROXIED = "mlflow-artifacts:"


def _answering(uri: str, process: "subprocess.Popen[bytes]") -> str:
    deadline = time.monotonic() + 300
    while process.poll() is None and time.monotonic() < deadline:
        try:
            urllib.request.urlopen(f"{uri}/health", timeout=5).close()
            return uri
        except OSError:
            time.sleep(0.3)
    raise RuntimeError("the server did not come up")


def test_http(server, benchmark, tmp_path):
    within(TARGET, benchmark, server, tmp_path / "elsewhere")


def test_http_again(server, benchmark, tmp_path):
    both(server, tmp_path / "elsewhere")
    within(AGAIN, benchmark, server, tmp_path / "elsewhere")
