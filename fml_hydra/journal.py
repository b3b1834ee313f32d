"""The append-only history of a run. A run's state is what folding its journal gives, nothing else.

Events, one JSON line each (`e` is the kind, `t` the time in seconds since the epoch):

    open   a process takes up the run, or its clock goes on; the first one carries the header
    batch  the actions about to be tried, written ahead of trying them
    note   a decision of the policy that came from an LLM; read back on resume, not asked again
    node   the record of a finished step
    pause  the process puts the run down unfinished (interrupted, infra), or its clock (waiting)
    close  the search is over, with the reason
    test   the held-out result; the run is finished

Not here: prompts and replies (`calls.jsonl`, session), logs and pictures (tracking).
"""

import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from fml_hydra.errors import JournalError
from fml_hydra.jsonl import JsonLines, Record, read_records
from fml_hydra.metric import better
from fml_hydra.usage import Usage

Status = Literal[
    "ok", "noop", "edit_failed", "syntax", "protected", "crash", "timeout", "no_metric", "invalid"
]
REFUSED: frozenset[str] = frozenset({"noop", "edit_failed", "syntax", "protected"})
"""Statuses that can be known before anything is trained."""


@dataclass(frozen=True)
class Action:
    """What to try next."""

    op: str
    """The operator: draft, improve, debug, crossover, tune or ablate."""
    parents: tuple[int, ...] = ()
    """Ids of the nodes it starts from; none means the baseline."""
    meta: Mapping[str, Any] = field(default_factory=dict)
    """What the policy wants to remember (idea, island, stage, ...); plain JSON values."""


@dataclass(frozen=True)
class Node:
    """The record of one step."""

    id: int
    """Position in the order of proposals, from 0."""
    op: str
    """The operator that made it."""
    parents: tuple[int, ...]
    """Ids of the nodes it started from."""
    meta: dict[str, Any]
    """What the policy remembered."""
    status: Status
    """How it ended."""
    utility: float | None
    """Primary metric with its sign turned so that higher is better; None unless status is ok."""
    metrics: dict[str, float]
    """All metrics of the task on val, in their own units."""
    snapshot: dict[str, str]
    """The files that differ from the task's pinned commit, whole."""
    plan: str = ""
    """What the agent meant to do, in its words."""
    analysis: str = ""
    """What the agent made of the outcome."""
    feedback: str = ""
    """What the agent was told: the metric line, or head and tail of the error."""
    usage: Usage = Usage()
    """Tokens of all LLM calls of the step."""
    cost: float | None = 0.0
    """US dollars of those calls; None if unknown."""
    seconds_llm: float = 0.0
    """Wall time of those calls."""
    seconds_exec: float = 0.0
    """Wall time of the candidate's commands, measured outside them."""
    started: float = 0.0
    """When the step began, seconds since the epoch."""
    sandbox: str = ""
    """Sandbox level it ran under; empty when nothing was run."""
    outputs: str = ""
    """Hash of the outputs that were graded; empty when there were none."""
    flags: tuple[str, ...] = ()
    """Suspicions with their evidence; never a verdict."""

    @property
    def ok(self) -> bool:
        """Whether it has a metric that counts."""
        return self.status == "ok" and self.utility is not None

    def outcome(self) -> Record:
        """Everything but the clock: what must be equal between two equal runs."""
        record = asdict(self)
        for clock in ("seconds_llm", "seconds_exec", "started"):
            del record[clock]
        return record


@dataclass(frozen=True)
class Batch:
    """Actions proposed together; action i becomes node `at + i`."""

    at: int
    """Id of the first action's node."""
    actions: tuple[Action, ...]
    """What to try, in order."""


class History:
    """Everything a policy may look at: the nodes so far and the baseline. Never changes a file."""

    def __init__(
        self, nodes: Iterable[Node], baseline: float | None, notes: dict[str, Any]
    ) -> None:
        self._nodes = {node.id: node for node in sorted(nodes, key=lambda n: n.id)}
        self.baseline = baseline
        """Utility of the baseline on val."""
        self.notes = notes
        """Decisions of the policy that came from an LLM, by key."""

    def __len__(self) -> int:
        return len(self._nodes)

    def __iter__(self) -> Iterator[Node]:
        return iter(self._nodes.values())

    def __getitem__(self, node_id: int) -> Node:
        return self._nodes[node_id]

    def good(self) -> list[Node]:
        """Nodes with a metric, in order."""
        return [n for n in self if n.ok]

    def buggy(self) -> list[Node]:
        """Nodes without a metric, in order."""
        return [n for n in self if not n.ok]

    def best(self, among: Iterable[Node] | None = None) -> Node | None:
        """The node with the best utility, the earliest on ties; None if none has a metric."""
        best: Node | None = None
        for node in self if among is None else among:
            if node.ok and better(node.utility, best.utility if best else None):
                best = node
        return best

    def children(self, node_id: int) -> list[Node]:
        """Nodes whose first parent is `node_id`."""
        return [n for n in self if n.parents and n.parents[0] == node_id]

    def ancestors(self, node: Node) -> list[Node]:
        """First parents up to the root, nearest first."""
        chain = []
        while node.parents:
            node = self[node.parents[0]]
            chain.append(node)
        return chain

    def way_to_best(self) -> set[int]:
        """Ids of the best node and its first parents; empty if none has a metric."""
        best = self.best()
        return {n.id for n in (best, *self.ancestors(best))} if best else set()

    def debug_depth(self, node: Node) -> int:
        """How many debug steps in a row led to `node`, itself included."""
        depth = 0
        while node.op == "debug" and node.parents:
            depth += 1
            node = self[node.parents[0]]
        return depth

    def debuggable(self, max_depth: int) -> list[Node]:
        """Buggy nodes without children, at most `max_depth` debug steps deep, in order."""
        parents = {parent for node in self for parent in node.parents}
        leaves = [node for node in self.buggy() if node.id not in parents]
        return [node for node in leaves if self.debug_depth(node) <= max_depth]

    def scaled(self, utility: float) -> float:
        """Where `utility` lies between the run's worst (0) and best (1); 0.5 if all are equal."""
        worst, best = self._range
        if not 0 < best - worst < math.inf:
            return 0.5
        return min(1.0, max(0.0, (utility - worst) / (best - worst)))

    @cached_property
    def _range(self) -> tuple[float, float]:
        known = [n.utility for n in self if n.ok and n.utility is not None]
        utilities = [utility for utility in known if math.isfinite(utility)]
        return min(utilities, default=0.0), max(utilities, default=0.0)


class Journal:
    """A run's journal file and the state folded from it."""

    def __init__(self, path: Path) -> None:
        self._lines = JsonLines(path)
        self._state = Folded(path, self._lines.records)

    def record(self, kind: str, **payload: Any) -> None:
        """Write one event, then take it into the state; raises InfraError if the disk refuses."""
        event = {"e": kind, "t": round(time.time(), 3), **payload}
        self._lines.append(event)
        self._state.take(event, len(self._lines.records))

    @property
    def state(self) -> "Folded":
        """The state so far."""
        return self._state

    def propose(self, batch: Batch) -> None:
        """Write a batch ahead of trying it."""
        self.record("batch", at=batch.at, actions=[asdict(a) for a in batch.actions])

    def commit(self, node: Node) -> None:
        """Write a finished step."""
        self.record("node", **asdict(node))

    def note(self, key: str, value: Any) -> None:
        """Write a decision that came from an LLM."""
        self.record("note", key=key, value=value)

    def close(self) -> None:
        """Let go of the file."""
        self._lines.close()


class Folded:
    """The state of a run: what its events add up to."""

    def __init__(self, path: Path, events: Sequence[Record]) -> None:
        self._path = path
        self.header: Record = {}
        """Payload of the first `open` event."""
        self.nodes: dict[int, Node] = {}
        """Finished steps by id."""
        self.notes: dict[str, Any] = {}
        """Decisions by key."""
        self.batch: Batch | None = None
        """The newest batch."""
        self.closed: Record | None = None
        """The `close` event, when the search is over."""
        self.test: Record | None = None
        """The `test` event, when the run is finished."""
        self.paused: Record | None = None
        """The `pause` event, when the run was put down and not taken up again."""
        self.seconds = 0.0
        """Wall time worked on the run, over all processes, up to the last event."""
        self._last = 0.0
        for number, event in enumerate(events, start=1):
            self.take(event, number)

    @classmethod
    def read(cls, path: Path) -> "Folded":
        """Fold a journal without opening it for writing."""
        return cls(path, read_records(path)[0])

    def take(self, event: Record, number: int) -> None:
        """Fold one event in."""
        handler = getattr(self, f"_on_{event.get('e')}", None)
        if handler is None:
            raise JournalError(f"{self._path}:{number}: unknown event {event.get('e')!r}")
        try:
            handler({k: v for k, v in event.items() if k not in {"e", "t"}})
            now = float(event["t"])
        except (KeyError, TypeError, ValueError) as error:
            raise JournalError(f"{self._path}:{number}: damaged event ({error})") from error
        if event["e"] != "open":
            self.seconds += max(0.0, now - self._last)
        self._last = now

    def history(self) -> History:
        """What a policy may see now."""
        return self.before(1 + max(self.nodes, default=-1))

    def before(self, node_id: int) -> History:
        """What a policy could see before node `node_id` was proposed."""
        return History(
            (n for n in self.nodes.values() if n.id < node_id), self.baseline, dict(self.notes)
        )

    @property
    def baseline(self) -> float | None:
        """Utility of the baseline on val."""
        return self.header.get("baseline_utility")

    def pending(self) -> list[tuple[int, Action]]:
        """Actions of the newest batch that are not finished, with their node ids."""
        if self.batch is None:
            return []
        numbered = enumerate(self.batch.actions, start=self.batch.at)
        return [(i, action) for i, action in numbered if i not in self.nodes]

    def _on_open(self, event: Record) -> None:
        self.header = self.header or event
        self.paused = None

    def _on_batch(self, event: Record) -> None:
        actions = (Action(a["op"], tuple(a["parents"]), dict(a["meta"])) for a in event["actions"])
        self.batch = Batch(event["at"], tuple(actions))

    def _on_note(self, event: Record) -> None:
        self.notes[event["key"]] = event["value"]

    def _on_node(self, event: Record) -> None:
        fields = {**event, "usage": Usage(**event["usage"])}
        fields.update(parents=tuple(event["parents"]), flags=tuple(event["flags"]))
        node = Node(**fields)
        self.nodes[node.id] = node

    def _on_pause(self, event: Record) -> None:
        self.paused = event

    def _on_close(self, event: Record) -> None:
        self.closed = event

    def _on_test(self, event: Record) -> None:
        self.test = event
