"""Things worth saying once: a line in the log, the first time in this process.

Not for failures (those are raised) and not for what belongs to one call (`Reply.notes`).
"""

import logging
import threading

log = logging.getLogger(__name__)
_said: set[str] = set()
_lock = threading.Lock()


def say_once(text: str) -> None:
    """Write `text` to the log unless that was done before."""
    with _lock:
        if text in _said:
            return
        _said.add(text)
    log.warning("%s", text)
