"""A run's clock stands still while all that the run does is wait for a provider.

The journal says so with a `pause` and an `open`, so that the time in between counts in no budget
and no table, also after a resume. Not here: the waiting itself (llm).
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from fml_hydra.journal import Journal
from fml_hydra.llm.waits import Wait
from fml_hydra.summary import PAUSED
from fml_hydra.usage import duration

WAITING = "waiting for "
"""What people are told of a wait begins like this."""


class Standstill:
    """Who works on a run and who waits; thread-safe."""

    def __init__(self, journal: Journal, lock: threading.Lock, changed: Callable[[], None]) -> None:
        self._journal, self._lock, self._changed = journal, lock, changed
        self._working = 0
        self._waits: dict[str, Wait] = {}
        self._since: float | None = None
        self._why = ""
        self._over = False

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Work on the run meanwhile, at the same time as others."""
        self._count(1)
        try:
            yield
        finally:
            self._count(-1)

    def hear(self, call: str, wait: Wait | None) -> None:
        """A call has begun to wait, or no longer does."""
        with self._lock:
            self._waits.pop(call, None)
            if wait:
                self._waits[call] = wait
            self._look()
            if not self._over:
                self._changed()

    def close(self) -> None:
        """The run is put down; the caller holds the lock."""
        self._waits.clear()
        self._look()
        self._over = True

    @property
    def words(self) -> str:
        """What is waited for; empty if nothing is."""
        for wait in self._waits.values():
            most = "" if wait.longest is None else f", at most {duration(wait.longest)}"
            return f"{WAITING}{wait.whom}{most} ({wait.why})"
        return ""

    def _count(self, turns: int) -> None:
        with self._lock:
            self._working += turns
            self._look()

    def _look(self) -> None:
        """Stop the clock, or set it going; outside of turns there is a single caller."""
        still = 0 < len(self._waits) >= max(1, self._working)
        if self._over or still == (self._since is not None):
            return
        if still:
            self._since, self._why = time.time(), self.words
            return
        if self._since is not None:
            # both now: a kill in the middle of a wait leaves no event that would count it
            since = round(self._since, 3)
            self._journal.record("pause", t=since, reason=PAUSED, detail=self._why)
            self._journal.record("open")
            self._since = None
