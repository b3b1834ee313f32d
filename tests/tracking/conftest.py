"""A real MLflow store per test, toy cells whose runs are sent to it, and a real server."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock
from omegaconf import OmegaConf

from fml_hydra.config import load_experiment
from fml_hydra.journal import Folded, Journal
from fml_hydra.overrides import compose_config
from fml_hydra.runner import run
from fml_hydra.tracking import MlflowSink, Tracking

EXPERIMENT = "fml_hydra"
STEPS = ("agent=aide", "agent.policy.num_drafts=2", "budget.steps=3", "seed=5")


@pytest.fixture(scope="session")
def fresh_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database without runs: made once for all workers, since its migrations take seconds."""
    folder = tmp_path_factory.getbasetemp()
    shared = folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder
    with FileLock(shared / "fresh.lock"):
        if not (shared / "fresh" / "mlflow.db").exists():
            Tracking(None, "somebody else's").open(shared / "fresh")
    return shared / "fresh" / "mlflow.db"


@pytest.fixture
def root(tmp_path: Path, fresh_database: Path) -> Path:
    """A root with a local store of its own."""
    (tmp_path / "mlruns").mkdir(exist_ok=True)
    shutil.copy(fresh_database, tmp_path / "mlruns" / "mlflow.db")
    return tmp_path / "mlruns"


class Seen:
    """What is in a store, as a person with MlflowClient sees it."""

    def __init__(self, root: Path, uri: str | None = None, experiment: str = EXPERIMENT) -> None:
        self.store = Tracking(uri, experiment).open(root)
        self.client = self.store.client

    def search(self, wanted: str, order: Sequence[str] = ()) -> list[Any]:
        return list(
            self.client.search_runs([self.store.experiment_id], wanted, order_by=list(order))
        )

    def parents(self) -> list[Any]:
        return self.search("tags.`fml.kind` = 'run'")

    def parent(self) -> Any:
        (parent,) = self.parents()
        return parent

    def steps(self) -> list[Any]:
        runs = self.search("tags.`fml.kind` = 'step'")
        return sorted(runs, key=lambda run: int(run.data.tags["fml.step"]))

    def curve(self, run: Any, key: str) -> list[tuple[int, float]]:
        """Points of a series in the order of their steps, repetitions included."""
        history = self.client.get_metric_history(run.info.run_id, key)
        return sorted((m.step, m.value) for m in history)

    def files(self, run: Any, folder: str = "") -> set[str]:
        found: set[str] = set()
        for info in self.client.list_artifacts(run.info.run_id, folder or None):
            found |= self.files(run, info.path) if info.is_dir else {info.path}
        return found

    def text(self, run: Any, name: str) -> str:
        return Path(self.client.download_artifacts(run.info.run_id, name)).read_text()


@pytest.fixture
def look(root: Path) -> Callable[..., Seen]:
    """Open the test's store and look at it."""

    def build(uri: str | None = None, experiment: str = EXPERIMENT) -> Seen:
        return Seen(root, uri, experiment)

    return build


@dataclass
class Tracked:
    """A toy run below `root` and its way to MLflow."""

    words: list[str]
    root: Path
    uri: str | None = None
    name: str = "toy-run"
    problem: str = ""
    """What the sink said at the end of the newest `run`."""
    observers: list[Any] = field(default_factory=list)

    @property
    def folder(self) -> Path:
        return self.root / "runs" / self.name

    @property
    def state(self) -> Folded:
        return Folded.read(self.folder / "journal.jsonl")

    @property
    def tracking(self) -> Tracking:
        return Tracking(self.uri, EXPERIMENT)

    def run(self, llm: Any = None) -> Folded:
        """Run or resume it with a sink, as a sweep's cell does."""
        cfg = compose_config(self.words)
        experiment = load_experiment(cfg)
        if llm is not None:
            object.__setattr__(experiment, "llm", llm)
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "config.yaml").write_text(OmegaConf.to_yaml(cfg, resolve=True))
        journal = Journal(self.folder / "journal.jsonl")
        sink = MlflowSink(self.folder, self.tracking, self.root)
        try:
            run(experiment, self.name, self.folder, [sink, *self.observers], journal)
        finally:
            journal.close()
            self.problem = sink.finish()
        return self.state


@pytest.fixture
def tracked(words: Callable[..., list[str]], root: Path) -> Callable[..., Tracked]:
    """Make a toy run that is sent to the local store, or to `uri`."""

    def build(*extra: str, uri: str | None = None) -> Tracked:
        return Tracked(words(*STEPS, *extra), root, uri)

    return build


@pytest.fixture(scope="session")
def finished(
    toy: Path, fresh_database: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Tracked, Seen]:
    """A finished run, for looking at only."""
    root = tmp_path_factory.mktemp("finished")
    shutil.copy(fresh_database, root / "mlflow.db")
    words = ["--config-dir", f"{toy}/conf", "task=toy", f"tasks_dir={toy}/tasks"]
    words += [f"cache_dir={toy}/cache", f"root={root}", *STEPS, "budget.steps=5"]
    done = Tracked(words, root)
    done.run()
    return done, Seen(root)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Server:
    """`mlflow server` on a port of its own; can be killed and started again."""

    def __init__(self, folder: Path, database: Path) -> None:
        self.folder, self.port = folder, free_port()
        folder.mkdir(parents=True)
        shutil.copy(database, folder / "server.db")
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> "Server":
        assert self.process is None
        assert not self.answers(), "the port is free"
        command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1"]
        command += ["--port", str(self.port), "--workers", "1"]
        command += ["--backend-store-uri", f"sqlite:///{self.folder}/server.db"]
        command += ["--artifacts-destination", f"{self.folder}/artifacts"]
        quiet = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_DISABLE_TELEMETRY": "true"}
        with (self.folder / "server.log").open("ab") as out:
            self.process = subprocess.Popen(
                command, env=os.environ | quiet, stdout=out, stderr=out, start_new_session=True
            )
        deadline = time.monotonic() + 120
        while not self.answers():
            if time.monotonic() > deadline or self.process.poll() is not None:
                self.kill()
                raise RuntimeError((self.folder / "server.log").read_text()[-2000:])
            time.sleep(0.2)
        return self

    def answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.uri}/health", timeout=2) as reply:
                return bool(reply.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def kill(self) -> None:
        if self.process is not None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process = None


@pytest.fixture
def server(tmp_path: Path, fresh_database: Path) -> Iterator[Server]:
    """A server that is not started yet; its port refuses connections."""
    made = Server(tmp_path / "server", fresh_database)
    try:
        yield made
    finally:
        made.kill()
