"""The cells of a sweep: which there are, and what happens to each, whatever goes wrong in it."""

import logging
import os
import secrets
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import FrameType

import psutil
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from fml_hydra.config import Experiment, load_experiment
from fml_hydra.errors import FmlError, InfraError, SandboxError
from fml_hydra.journal import Folded, Journal
from fml_hydra.runner import claimed, finished, run, set_aside
from fml_hydra.session import Observer
from fml_hydra.status import CellStatus, read_statuses, write_status
from fml_hydra.summary import summarize
from fml_hydra.tracking import MlflowSink

log = logging.getLogger(__name__)
PARENT_SECONDS = 0.5
"""How often a worker looks whether the process that started it still lives."""
PUT_DOWN_SECONDS = 20.0
"""How long an interrupted sweep waits for its runs to be put down."""


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
    """Treat a termination request, and the death of the process that started us, like Ctrl-C."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        for again in before:
            signal.signal(again, signal.SIG_IGN)  # once is enough; putting down takes a moment
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    for number in before:
        signal.signal(number, interrupt)
    over = threading.Event()
    threading.Thread(target=_watch_parent, args=(over,), daemon=True).start()
    try:
        yield
    finally:
        over.set()
        for number, handler in before.items():
            signal.signal(number, handler)


def _watch_parent(over: threading.Event) -> None:
    """A worker whose sweep was killed must let go of its run, so that it can be started again."""
    parent = os.getppid()
    while not over.wait(PARENT_SECONDS):
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGTERM)
            over.wait(PUT_DOWN_SECONDS)
            os._exit(130)  # nobody is left to hear how it went


def settled(folder: Path) -> list[CellStatus]:
    """The cells of a sweep that is over.

    One that still claims to be running could not write its last word (a kill, a full disk): its
    journal has it.
    """
    cells = read_statuses(folder)
    for cell in cells:
        if cell.state != "running":
            continue
        journal = Path(cell.folder) / "journal.jsonl"
        paused = (Folded.read(journal).paused or {}) if cell.folder and journal.exists() else {}
        cell.state = paused.get("reason", "failed")
        cell.message = paused.get("detail", "") or "its process ended without a word"
    return cells


def put_down_all(folder: Path) -> None:
    """Ask the processes that work on a sweep's cells to put their runs down, and wait for them."""
    deadline = time.monotonic() + PUT_DOWN_SECONDS
    asked: set[int] = set()
    while time.monotonic() < deadline:
        running = {c.pid for c in read_statuses(folder) if c.state == "running"} - {os.getpid()}
        alive = {pid for pid in running if psutil.pid_exists(pid)}
        if not alive:
            return
        for pid in alive - asked:
            os.kill(pid, signal.SIGTERM)
        asked |= alive
        time.sleep(0.1)
