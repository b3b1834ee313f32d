"""Follows a run and sends it to MLflow from a thread of its own: no step waits for a server.

When the server is away nothing is lost: the run's folder is the spool, and what has not arrived is
sent at the next event, at the end, or later by `python -m fml_hydra sync`.
"""

import logging
import threading
import time
from pathlib import Path

from fml_hydra.errors import FmlError
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
        self._folder = folder
        self._delivery = Delivery(folder, tracking, root)
        self._wake, self._over = threading.Event(), threading.Event()
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
        tried = float("-inf")
        while True:
            self._wake.wait()
            self._wake.clear()
            last = self._over.is_set()  # before the attempt: what came later would not be in it
            if last or not self.problem or time.monotonic() - tried >= PATIENCE:
                tried = time.monotonic()
                self._attempt()
            if last:
                return

    def _attempt(self) -> None:
        try:
            self._delivery.send(Folded.read(self._folder / "journal.jsonl"))
            self.problem = ""
        except (FmlError, OSError) as error:
            self.problem = str(error)
            log.warning("MLflow: not delivered, will be tried again: %s", error)
            log.debug("details", exc_info=True)
