"""Policies without runs: nodes by hand, and histories grown by asking a policy again and again."""

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from fml_hydra.agents.base import Policy
from fml_hydra.journal import Action, History, Node

World = Callable[[int, Action, History], float | None]
"""The utility of a node from its id, its action and the history before it; None: it fails."""
PRISTINE = {"a.py": "x = 0\n"}


def node(
    node_id: int,
    utility: float | None = None,
    op: str = "draft",
    parents: tuple[int, ...] = (),
    **extra: Any,
) -> Node:
    """A node whose only file says which node it is; texts differ in length too."""
    text = f"x = {node_id}\n" + "y\n" * (node_id * 7 % 13)
    return Node(
        id=node_id,
        op=op,
        parents=parents,
        meta=extra.pop("meta", {}),
        status="crash" if utility is None else "ok",
        utility=utility,
        metrics={},
        snapshot=extra.pop("snapshot", {"a.py": text}),
        **extra,
    )


def history(*nodes: Node, baseline: float = 0.0, notes: dict[str, Any] | None = None) -> History:
    """A history of these nodes."""
    return History(nodes, baseline, notes or {})


@dataclass
class Scribe:
    """An advisor without a session: keeps the notes, answers from a list, shows pristine files."""

    steps: int = 100
    notes: dict[str, Any] = field(default_factory=dict)
    answer: Callable[[str], str] = lambda template: ""
    asked: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def decide(self, key, decision):
        if key not in self.notes:
            self.notes[key] = decision()
            assert json.loads(json.dumps(self.notes[key])) == self.notes[key]
        return self.notes[key]

    def conversation(self, template, **context):
        self.asked.append((template, context))
        return [template]

    def ask(self, purpose, messages, schema=None):
        return self.answer(messages[-1])

    def files(self, node=None):
        return {**PRISTINE, **(node.snapshot if node else {})}


def chance(failures: float, seed: int = 0) -> World:
    """A world in which steps fail by chance, and utilities drift from parent to child."""

    def utility(node_id: int, action: Action, past: History) -> float | None:
        rng = random.Random(f"{seed}:{node_id}:{action.op}:{action.parents}")
        if rng.random() < failures:
            return None
        parent = past[action.parents[0]].utility if action.parents else 0.0
        return (parent or 0.0) + rng.gauss(0, 1)

    return utility


def grow(
    policy: Policy,
    world: World,
    steps: int,
    k: int = 1,
    seed: int = 0,
    scribe: Scribe | None = None,
) -> History:
    """What `policy` makes of `world`; checks on the way what every policy must keep."""
    scribe = scribe or Scribe(steps)
    nodes: list[Node] = []
    while len(nodes) < steps:
        past = history(*nodes, notes=scribe.notes)
        width = min(k, steps - len(nodes))

        def proposed(past: History = past, width: int = width) -> list[Action]:
            return policy.propose(past, width, random.Random(f"{seed}:{len(past)}"), scribe)

        actions = proposed()
        assert actions == proposed()
        assert 1 <= len(actions) <= width
        for action in actions:
            node_id = len(nodes)
            assert all(0 <= parent < len(past) for parent in action.parents)
            nodes.append(
                node(
                    node_id,
                    world(node_id, action, past),
                    action.op,
                    action.parents,
                    meta=dict(action.meta),
                )
            )
    return history(*nodes, notes=scribe.notes)
