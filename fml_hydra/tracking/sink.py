"""Follows a run and sends it to MLflow from a thread of its own: no step waits for a server.

When the server is away nothing is lost: the run's folder is the spool, and what has not arrived is
sent at the next event, at the end, or later by `python -m fml_hydra sync`.
"""

import logging
import threading
import time
from pathlib import Path

from fml_hydra.journal import Folded
from fml_hydra.tracking.delivery import Delivery
from fml_hydra.tracking.store import Tracking

log = logging.getLogger(__name__)
PATIENCE = 20.0
"""Seconds between attempts while the store cannot be reached."""
FAREWELL = 120.0
"""Seconds a finished run waits for a store that answers."""


class MlflowSink:
    """An observer that keeps MLflow up to date."""

    def __init__(self, folder: Path, tracking: Tracking, root: Path) -> None:
        self._folder, self._tracking, self._root = folder, tracking, root
        self._wake, self._over = threading.Event(), threading.Event()
        self._delivery: Delivery | None = None
        self._sent = -1
        self.problem = ""
        """Why the newest attempt failed; empty when everything has arrived."""
        self._thread = threading.Thread(target=self._follow, name="mlflow", daemon=True)
        self._thread.start()

    def changed(self) -> None:
        """Something was written to the journal."""
        self._wake.set()

    def doing(self, what: str) -> None:
        """Not MLflow's business."""

    def finish(self) -> str:
        """Send the rest; returns why something has not arrived, or an empty string."""
        self._over.set()
        self._wake.set()
        self._thread.join(FAREWELL)
        return "the store is slow" if self._thread.is_alive() else self.problem

    def _follow(self) -> None:
        tried = 0.0
        while not self._over.is_set():
            self._wake.wait()
            self._wake.clear()
            if self.problem and not self._over.is_set() and time.monotonic() - tried < PATIENCE:
                continue
            tried = time.monotonic()
            self._attempt()

    def _attempt(self) -> None:
        try:
            if self._delivery is None:
                self._delivery = Delivery(self._folder, self._tracking, self._root)
            self._delivery.send(Folded.read(self._folder / "journal.jsonl"))
            self.problem = ""
        except Exception as error:  # noqa: BLE001  # whatever a store's driver raises; kept for later
            self.problem = (str(error).splitlines() or [type(error).__name__])[0]
            log.warning("MLflow: not delivered, will be tried again: %s", self.problem)
