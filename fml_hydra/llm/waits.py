"""Waiting for a provider that is away or asks for patience: how long it was, and who is told.

A listener is told only of waits that last; it belongs to the thread that makes the call. Not here:
when there is something to wait for (calling, limits).
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

NOTED = 1.5
"""Seconds from which on a wait is told: a single short one is nobody's business."""


@dataclass(frozen=True)
class Wait:
    """A call waits for its provider."""

    whom: str
    """The model."""
    why: str
    """What the provider said, or which limit holds the call back."""
    longest: float | None = None
    """Seconds after which it is given up; None: it is not."""


Listener = Callable[[Wait | None], None]
"""Told of a wait when it has begun, and None when it is over."""
_listener: ContextVar[Listener] = ContextVar("listener", default=lambda wait: None)


@contextmanager
def heard_by(listener: Listener) -> Iterator[None]:
    """Let `listener` hear of the waits of the calls made meanwhile in this thread."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


class Waiting:
    """The waiting of one call."""

    def __init__(self, whom: str) -> None:
        self.seconds = 0.0
        """Waited so far, without the wait that is under way."""
        self._whom = whom
        self._since: float | None = None
        self._until = 0.0
        self._told = False

    def sleep(self, seconds: float, why: str, longest: float | None = None) -> None:
        """Wait; several times in a row are one wait, with what lies between, until it is over."""
        now = self._until = time.monotonic()
        self._since = now if self._since is None else self._since
        if not self._told and now - self._since + seconds >= NOTED:
            self._told = True
            _listener.get()(Wait(self._whom, why, longest))
        time.sleep(seconds)
        self._until = time.monotonic()

    def over(self) -> None:
        """The wait, if there is one, has ended with its last sleep."""
        if self._since is not None:
            self.seconds += self._until - self._since
        told, self._told, self._since = self._told, False, None
        if told:
            _listener.get()(None)
