"""Requests and tokens per minute, shared by everything in this process that uses one service.

Runs in other processes do not share them: with several cells at a time, divide the limits. Not
here: what is done after a refusal (calling).
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

MINUTE = 60.0


@dataclass
class Booking:
    """A call that was let through."""

    at: float
    """When, on the gate's clock."""
    tokens: int
    """How many tokens it takes: by estimate, then as told."""


class Gate:
    """Lets calls through so that no minute holds more than is allowed; thread-safe."""

    def __init__(
        self,
        requests: int | None,
        tokens: int | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._requests, self._tokens = requests, tokens
        self._clock = clock
        self._lock = threading.Lock()
        self._recent: deque[Booking] = deque()
        self._shut_until = 0.0

    def enter(self, tokens: int, sleep: Callable[[float], None] = time.sleep) -> Booking:
        """Wait until a call of `tokens` may be sent; one above the limit goes alone."""
        while True:
            with self._lock:
                now = self._clock()
                wait = self._wait(now, tokens)
                if wait <= 0:
                    booking = Booking(now, tokens)
                    self._recent.append(booking)
                    return booking
            sleep(wait)

    def shut(self, seconds: float) -> None:
        """Let nobody through for a while: the service asked for it."""
        with self._lock:
            self._shut_until = max(self._shut_until, self._clock() + seconds)

    def _wait(self, now: float, tokens: int) -> float:
        while self._recent and self._recent[0].at <= now - MINUTE:
            self._recent.popleft()
        if now < self._shut_until:
            return self._shut_until - now
        if not self._recent:
            return 0.0
        full = self._requests is not None and len(self._recent) >= self._requests
        spent = sum(b.tokens for b in self._recent)
        full = full or (self._tokens is not None and spent + tokens > self._tokens)
        return self._recent[0].at + MINUTE - now if full else 0.0


_gates: dict[tuple[str, int | None, int | None], Gate] = {}


def gate(service: str, requests: int | None, tokens: int | None) -> Gate:
    """The one gate of a service (address, model and key together) in this process."""
    return _gates.setdefault((service, requests, tokens), Gate(requests, tokens))
