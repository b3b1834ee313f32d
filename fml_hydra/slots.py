"""Work of one batch done at the same time, each piece in a thread of its own.

Not here: what the work is, and how many may evaluate at once (session).
"""

import threading
from collections.abc import Callable, Sequence

from fml_hydra.errors import BudgetExhausted


def all_at_once(work: Sequence[Callable[[], None]]) -> None:
    """Run all of `work`, each in a thread of its own, and raise the first failure afterwards."""
    if len(work) == 1:
        work[0]()
        return
    failures: list[Exception] = []

    def collected(call: Callable[[], None]) -> None:
        try:
            call()
        except Exception as error:  # noqa: BLE001  # raised again below, in the caller's thread
            failures.append(error)

    threads = [
        threading.Thread(target=collected, args=(w,), name=f"slot {i}", daemon=True)
        for i, w in enumerate(work)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise next((f for f in failures if not isinstance(f, BudgetExhausted)), failures[0])
