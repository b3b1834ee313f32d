"""AIRA's Monte Carlo tree search over code: descend by UCT, expand a leaf with several children.

Toledo et al., "AI Research Agents for Machine Learning", arXiv 2507.02554. As there, a broken child
is debugged at once and counts in the tree only when it works. Two things differ: a node without a
metric is never improved, and a node may be expanded again once it has been visited often enough
(`widening`; Coulom 2007), so that the root does not end at its first drafts.
"""

import math
import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass as plain_dataclass
from itertools import chain

from pydantic import NonNegativeFloat, NonNegativeInt, PositiveInt
from pydantic.dataclasses import dataclass

from fml_hydra.agents.base import Advisor, Share
from fml_hydra.journal import Action, History, Node
from fml_hydra.knobs import STRICT

Place = int | None
"""A node's id, or None for the root: the baseline, below which the drafts hang."""


@plain_dataclass(frozen=True)
class Tree:
    """Visits and values: what every good node adds to itself and to all nodes above it."""

    visits: Counter[Place]
    """Good nodes in the subtree, its top included; those of the root are all there are."""
    values: defaultdict[Place, float]
    """Sum of their utilities, each scaled to the run's range."""
    children: dict[Place, list[Node]]
    """By first parent, in order."""

    @classmethod
    def of(cls, history: History) -> "Tree":
        """Fold the history."""
        tree = cls(Counter(), defaultdict(float), {})
        for node in history:
            tree.children.setdefault(_above(node), []).append(node)
        for node in history.good():
            reward = history.scaled(node.utility or 0.0)
            for place in (node.id, *(n.id for n in history.ancestors(node)), None):
                tree.visits[place] += 1
                tree.values[place] += reward
        return tree

    def uct(self, node: Node, c: float) -> float:
        """Mean value and a bonus for being visited seldom; for visited nodes only."""
        visits = self.visits[node.id]
        bonus = math.sqrt(math.log(self.visits[_above(node)]) / visits)
        return self.values[node.id] / visits + c * bonus


@dataclass(frozen=True, config=STRICT)
class AiraMcts:
    """UCT over the journal's tree."""

    uct_c: NonNegativeFloat
    """Weight of the bonus for nodes that were visited seldom."""
    num_children: PositiveInt
    """Children made when a node is expanded."""
    max_debug_depth: NonNegativeInt
    """Debug steps in a row before a broken child is given up."""
    widening: Share
    """A node with n visits may be expanded (n / num_children) ** widening times; 0 means once."""

    def propose(
        self, history: History, k: int, rng: random.Random, advisor: Advisor
    ) -> list[Action]:
        """Repairs first, then the children that an expansion lacks, then further expansions."""
        broken = history.debuggable(self.max_debug_depth - 1)
        actions = [Action("debug", (node.id,)) for node in broken[:k]]
        tree = Tree.of(history)
        while len(actions) < k and (action := self._next(history, tree, actions)):
            actions.append(action)
        return actions

    def _next(self, history: History, tree: Tree, taken: Sequence[Action]) -> Action | None:
        """The next child; none when its place depends on what is being tried now."""
        made = Counter(_above(step) for step in (*history, *taken) if step.op != "debug")
        unfinished = (place for place in made if made[place] % self.num_children)
        for place in chain(unfinished, self._open(tree, made)):
            return Action("draft") if place is None else Action("improve", (place,))
        return None if taken else Action("draft")

    def _open(self, tree: Tree, made: Counter[Place]) -> Iterator[Place]:
        """Nodes that may be expanded, the best first: depth first in the order of UCT.

        A subtree in which everything failed is passed by.
        """
        stack: list[Node | None] = [None]
        while stack:
            node = stack.pop()
            place = node.id if node else None
            allowed = max(1.0, (tree.visits[place] / self.num_children) ** self.widening)
            if (node is None or node.ok) and made[place] // self.num_children < allowed:
                yield place
            visited = [n for n in tree.children.get(place, []) if tree.visits[n.id]]
            ranked = sorted(reversed(visited), key=lambda n: tree.uct(n, self.uct_c))
            stack += ranked  # the best is popped first, the earliest on ties


def _above(step: Node | Action) -> Place:
    return step.parents[0] if step.parents else None
