"""Where a replayed run differs from the recorded one; pure. Not here: how it is run (replay)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fml_hydra.calls import step_of
from fml_hydra.errors import Divergence
from fml_hydra.journal import Folded, Node
from fml_hydra.jsonl import Record
from fml_hydra.summary import metric_of, summarize
from fml_hydra.usage import Spend

OUTCOME = ("status", "utility", "metrics", "outputs")
"""Fields of a node that tell what came of it; their values are shown."""
WORDS = {
    "op": "another operator",
    "parents": "other parents",
    "meta": "another idea",
    "snapshot": "other code",
    "plan": "another plan",
    "feedback": "other feedback",
    "analysis": "another analysis",
    "flags": "other flags",
}
"""What to say of the other fields, in the order of their causes."""


@dataclass(frozen=True)
class Comparison:
    """A recorded run and its replay."""

    recorded: Folded
    """The run that was recorded."""
    replayed: Folded
    """The replay."""
    end: int | None = None
    """Steps after which the replay had to stop; None when it had to end by itself."""
    calls: Sequence[Record] = ()
    """The recording."""
    asked: Sequence[Record] = ()
    """The calls of the replay."""
    diverged: Divergence | None = None
    """What stopped the replay."""

    @property
    def identical(self) -> bool:
        """Whether nothing differs, as far as the recording goes."""
        return not (self.changed_steps() or self.changed_run())

    def line(self, node_id: int) -> str:
        """What a step of the replay came to, beside the recorded one."""
        node, metric = self.replayed.nodes[node_id], metric_of(self.replayed)
        value = f"{metric.name} {node.metrics[metric.name]:.6g}" if node.ok else node.status
        told = f"step {node_id}: {node.op}, {value}"
        if node_id not in self.recorded.nodes:
            return f"{told}: was not recorded"
        found = node_differences(self.recorded.nodes[node_id], node)
        return f"{told}: DIFFERS: {'; '.join(found)}" if found else f"{told}: as recorded"

    def changed_steps(self) -> list[int]:
        """Steps that both runs have, and that differ."""
        both = sorted(self.recorded.nodes.keys() & self.replayed.nodes.keys())
        nodes = self.recorded.nodes, self.replayed.nodes
        return [i for i in both if node_differences(nodes[0][i], nodes[1][i])]

    def changed_run(self) -> list[str]:
        """What differs beside the steps, in the order of causes."""
        lines = self._baseline()
        if self.diverged is not None and not self._reached_the_end():
            lines.append(f"prompt: {self.diverged}")
            return lines
        if missing := sorted(self.recorded.nodes.keys() - self.replayed.nodes.keys()):
            lines.append(f"steps of the recording that were not taken: {missing}")
        lines += self._ending()
        if unasked := self._unasked():
            lines.append(f"calls of the recording that were not made: {', '.join(unasked)}")
        return lines

    def report(self) -> list[str]:
        """The verdict, the reasons for it, and what the recorded calls have cost."""
        changed = self.changed_steps()
        reasons = self.changed_run()
        lines = [f"Recorded under sandbox {a}, replayed under {b}." for a, b in self._sandboxes()]
        if changed:
            first = self.line(changed[0])
            lines.append(f"{len(changed)} steps differ, the first: {first}")
        lines += reasons
        if self.diverged is not None and reasons and self.diverged.diff:
            lines.append(self.diverged.diff)
        return [*lines, self._verdict(changed, reasons), self._spend()]

    def _verdict(self, changed: Sequence[int], reasons: Sequence[str]) -> str:
        if changed or reasons:
            return "DIVERGED from the recording."
        steps = f"{len(self.recorded.nodes)} steps, {len(self.asked)} calls"
        test = summarize(self.replayed).test
        if self.end is not None:
            return f"IDENTICAL as far as the recording goes: {steps}."
        return f"IDENTICAL: {steps}, test {test:.6g}."

    def _spend(self) -> str:
        spend = sum((Spend(n.usage, n.cost) for n in self.replayed.nodes.values()), Spend())
        cost = "cost N/A" if spend.cost is None else f"${spend.cost:.4f}"
        return f"Replayed: {spend.usage.total:,} tokens, {cost} at the time; nothing was spent now."

    def _reached_the_end(self) -> bool:
        return self.end is not None and self.recorded.nodes.keys() <= self.replayed.nodes.keys()

    def _baseline(self) -> list[str]:
        then, now = (run.header for run in (self.recorded, self.replayed))
        if then["baseline"] == now["baseline"]:
            return []
        name = metric_of(self.recorded).name
        values = [run["baseline"]["val"][name] for run in (now, then)]
        return [f"baseline: {name} on val {values[0]!r}, recorded {values[1]!r} (and the others)"]

    def _ending(self) -> list[str]:
        """A search that was ended from outside may be a call or a step ahead of its recording."""
        then, now = summarize(self.recorded), summarize(self.replayed)
        lines = []
        if self.end is None and now.termination != then.termination:
            lines.append(f"ended by {now.termination}, recorded {then.termination}")
        more = sorted(self.replayed.nodes.keys() - self.recorded.nodes.keys())
        if self.end is None and more:
            lines.append(f"steps that were not recorded: {more}")
        if not more and None not in (then.test, now.test) and now.test != then.test:
            lines.append(f"test: {now.test!r}, recorded {then.test!r}")
        return lines

    def _unasked(self) -> list[str]:
        """Recorded calls of finished steps without a counterpart."""
        made = {record["key"] for record in self.asked}
        known = {r["key"]: None for r in self.calls if "failed" not in r}
        return [k for k in known if k not in made and step_of(k) in self.recorded.nodes]

    def _sandboxes(self) -> list[tuple[str, str]]:
        then, now = (str(run.header["sandbox"]) for run in (self.recorded, self.replayed))
        return [(then, now)] if then != now else []


def node_differences(then: Node, now: Node) -> list[str]:
    """What differs between two steps, beside clocks, spend and walls."""
    old, new = then.outcome(), now.outcome()
    lines = [
        f"{name} {_shown(new[name], old[name])}, recorded {_shown(old[name], new[name])}"
        for name in OUTCOME
        if old[name] != new[name]
    ]
    return lines + [words for name, words in WORDS.items() if old[name] != new[name]]


def _shown(value: Any, other: Any) -> str:
    """A value; of metrics only those that differ, of hashes their beginning."""
    if isinstance(value, Mapping):
        return str({k: v for k, v in value.items() if other.get(k) != v})
    return value[:12] if isinstance(value, str) else repr(value)
