"""Sends the traces of a run's LLM calls: several steps in one request, each linked to its run.

A request costs the store about as much as a whole step, whatever it holds, so that the traces of
fast steps wait for each other. All of it may be repeated: the ids are the same again. Not here:
what a trace holds (spans), what has arrived (delivery).
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from fml_hydra.journal import Folded
from fml_hydra.tracking.exchanges import Exchanges
from fml_hydra.tracking.spans import Trace, size, trace
from fml_hydra.tracking.store import Store

if TYPE_CHECKING:
    from mlflow.tracing.client import TracingClient

T = TypeVar("T")
log = logging.getLogger(__name__)
PAUSE = 5.0
"""Seconds between two requests while the run goes on."""
REQUEST_CHARS = 1_000_000
"""What one request holds, about; servers and their proxies have limits."""
REQUEST_TRACES = 50
"""Traces per request; MLflow links 100 at most."""
_NOT_THERE = "span logging is not supported"
_NO_VERSION = "could not identify MLflow server version"


class Traces:
    """The traces of one run on their way to a store."""

    def __init__(self, calls: Path) -> None:
        self._exchanges = Exchanges(calls)
        self._sent = float("-inf")
        self._supported = True

    def waiting(
        self, state: Folded, arrived: Mapping[int, int], over: bool
    ) -> Iterator[list[Trace]]:
        """What has to be sent, request by request; `arrived` counts the calls of each step there.

        Calls that led to no step are left until the run is over, or put down.
        """
        if not self._supported or not (over or time.monotonic() - self._sent >= PAUSE):
            return iter(())
        made = self._exchanges.made()
        new = [s for s, count in made.items() if count > arrived.get(s, 0)]
        due = [step for step in new if over or step in state.nodes]
        traces = (trace(state, step, self._exchanges.of(step)) for step in sorted(due))
        return _parcels(traces, lambda t: sum(map(size, t.spans)), REQUEST_TRACES)

    def send(
        self, store: Store, traces: Sequence[Trace], run_id: str, child: Callable[[int], str]
    ) -> None:
        """Send `traces` and link them to the run and to their steps; raises what the store raises.

        A store that knows no spans (a server before MLflow 3.4) is told of, once.
        """
        from mlflow.entities import Span
        from mlflow.exceptions import MlflowException
        from mlflow.tracing.client import TracingClient

        client = TracingClient(store.client.tracking_uri)
        try:
            for parcel in _parcels((s for t in traces for s in t.spans), size):
                client.log_spans(store.experiment_id, [Span.from_dict(span) for span in parcel])
        except (NotImplementedError, MlflowException) as error:
            if _NO_VERSION in str(error):
                _forget_version(client)
                raise ConnectionError("the server did not tell its version") from error
            if isinstance(error, MlflowException) and _NOT_THERE not in str(error):
                raise
            log.warning("MLflow: this store keeps no traces, the calls are in calls.jsonl")
            self._supported = False
            return
        store.client.link_traces_to_run([t.id for t in traces], run_id)
        for sent in traces:
            if step_run := child(sent.step):
                store.client.link_traces_to_run([sent.id], step_run)
        self._sent = time.monotonic()


def _forget_version(client: "TracingClient") -> None:
    """MLflow remembers for good that a server, away or slow just then, had no version."""
    remembered = getattr(client.store, "_get_server_version", None)
    if clear := getattr(remembered, "cache_clear", None):
        clear()


def _parcels(
    items: Iterator[T], size_of: Callable[[T], int], count: int | None = None
) -> Iterator[list[T]]:
    """`items` in order, in lists that fit into a request; one that is too big goes alone."""
    parcel: list[T] = []
    filled = 0
    for item in items:
        more = size_of(item)
        if parcel and (filled + more > REQUEST_CHARS or len(parcel) == count):
            yield parcel
            parcel, filled = [], 0
        parcel.append(item)
        filled += more
    if parcel:
        yield parcel
