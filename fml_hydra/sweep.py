"""The cells of a sweep: which there are, and what happens to each, whatever goes wrong in it."""

import logging
import secrets
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import FrameType

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from fml_hydra.config import Experiment, load_experiment
from fml_hydra.errors import FmlError, InfraError, SandboxError
from fml_hydra.journal import Folded, Journal
from fml_hydra.runner import claimed, finished, run, set_aside
from fml_hydra.session import Observer
from fml_hydra.status import CellStatus, write_status
from fml_hydra.summary import summarize
from fml_hydra.tracking import MlflowSink

log = logging.getLogger(__name__)


def new_sweep_name() -> str:
    """A name that two sweeps started in the same second do not share."""
    return f"{time.strftime('%Y-%m-%d_%H-%M-%S')}_{secrets.token_hex(2)}"


def cells_folder(root: Path, sweep: str) -> Path:
    """Where the cells of a sweep keep their status files."""
    return root / "sweeps" / sweep / "cells"


class StatusObserver:
    """Keeps a cell's status file up to date."""

    def __init__(self, path: Path, status: CellStatus) -> None:
        self._path, self.status = path, status
        self.state: Folded | None = None
        """The run's state once its journal is open."""

    def changed(self) -> None:
        """Something was written to the journal."""
        if self.state is not None and self.state.header:
            self.status.row = asdict(summarize(self.state))
        self.write()

    def doing(self, what: str) -> None:
        """The run turned to something that takes time."""
        self.status.doing = what
        self.write()

    def end(self, state: str, message: str = "") -> None:
        """The cell is over."""
        self.status.state, self.status.message, self.status.doing = state, message, ""
        self.changed()

    def write(self) -> None:
        """Write the file; a full disk must not end a run for this."""
        try:
            write_status(self._path, self.status)
        except OSError as error:
            log.warning("%s: %s", self._path, error)


def run_cell(cfg: DictConfig) -> float | None:
    """Run, resume or skip one cell; the utility of its best val step, for hyperparameter sweepers.

    Failures are written to the cell's status file, never raised: the other cells go on.
    """
    observer = _observer(cfg)
    try:
        with _interruptible():
            _run_or_skip(cfg, observer)
    except KeyboardInterrupt:
        observer.end("interrupted", "put down; the same command goes on from here")
        raise
    except (InfraError, SandboxError) as error:
        observer.end("infra", str(error))
    except FmlError as error:
        observer.end("failed", str(error))
    except Exception as error:  # noqa: BLE001  # a bug in one cell must not end the others
        log.exception("unexpected failure")
        observer.end("failed", f"unexpected {type(error).__name__}: {error} (see the log)")
    best = observer.state.history().best() if observer.state else None
    return best.utility if best else None


def _run_or_skip(cfg: DictConfig, observer: StatusObserver) -> None:
    experiment = load_experiment(cfg, HydraConfig.get().runtime.choices)
    identity = experiment.identity(cfg)
    folder = experiment.root / "runs" / identity
    observer.status.folder = str(folder)
    with claimed(folder):
        if experiment.resume == "never":
            set_aside(folder)
        if state := finished(folder):
            observer.state = state
            observer.end("skipped", "finished earlier")
            return
        _keep_config(cfg, folder)
        _run_tracked(experiment, identity, folder, observer)


def _run_tracked(
    experiment: Experiment, identity: str, folder: Path, observer: StatusObserver
) -> None:
    journal = Journal(folder / "journal.jsonl")
    observer.state = journal.state
    sink = (
        MlflowSink(folder, experiment.tracking, experiment.root) if experiment.tracking.on else None
    )
    observers: Sequence[Observer] = [observer, sink] if sink else [observer]
    try:
        run(experiment, identity, folder, observers, journal)
    finally:
        journal.close()
        undelivered = sink.finish() if sink else ""
    notice = f"not all in MLflow yet ({undelivered}); send it with `python -m fml_hydra sync`"
    observer.end("finished", notice if undelivered else "")


def _keep_config(cfg: DictConfig, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.yaml").write_text(OmegaConf.to_yaml(cfg, resolve=True))


def _observer(cfg: DictConfig) -> StatusObserver:
    job = HydraConfig.get().job
    number = 0 if OmegaConf.is_missing(job, "num") else job.num
    path = cells_folder(Path(cfg.root), cfg.sweep) / f"{number}.json"
    task, agent, llm = (
        str(OmegaConf.select(cfg, f"{k}.name", default="?")) for k in ("task", "agent", "llm")
    )
    return StatusObserver(path, CellStatus(task, agent, llm, cfg.seed))


@contextmanager
def _interruptible() -> Iterator[None]:
    """Treat a termination request like Ctrl-C, so that the run is put down properly."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
