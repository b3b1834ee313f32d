"""AIRA's evolutionary search: generations on islands, by improvement and crossover.

Toledo et al., "AI Research Agents for Machine Learning", arXiv 2507.02554. A generation is made
from those before it only, so its individuals can be tried at the same time. An island that has
nobody, as all have in the beginning, is given a draft.
"""

import math
import random
from collections.abc import Callable, Iterable, Sequence
from statistics import fmean
from typing import TypeVar

from pydantic import NonNegativeInt, PositiveFloat, PositiveInt
from pydantic.dataclasses import dataclass

from fml_hydra.agents.base import Advisor, Share
from fml_hydra.journal import Action, History, Node
from fml_hydra.knobs import STRICT

Island = list[Node]
T = TypeVar("T")


@dataclass(frozen=True, config=STRICT)
class AiraEvo:
    """Islands of working solutions; parents are drawn by fitness, the scaled utility."""

    islands: PositiveInt
    """Populations that do not mix."""
    individuals: PositiveInt
    """Individuals per generation; one that is broken is debugged before the next generation."""
    crossover_prob: Share
    """Chance that two parents are combined rather than one improved."""
    crossover_from: NonNegativeInt
    """First generation in which that may happen."""
    temperature: PositiveFloat
    """Of the softmax over fitness by which islands and parents are drawn."""
    max_debug_depth: NonNegativeInt
    """Debug steps in a row before an individual is given up."""
    island_cap: PositiveInt
    """Members of an island; the worst leaves."""

    def propose(
        self, history: History, k: int, rng: random.Random, advisor: Advisor
    ) -> list[Action]:
        """Repairs first, then individuals up to the end of the generation."""
        broken = history.debuggable(self.max_debug_depth - 1)
        actions = [Action("debug", (node.id,), node.meta) for node in broken[:k]]
        generation = max((n.meta["generation"] for n in history), default=0)
        made = sum(n.op != "debug" and n.meta["generation"] == generation for n in history)
        if made == self.individuals and not broken:
            generation, made = generation + 1, 0
        islands = self.populations(n for n in history.good() if n.meta["generation"] < generation)
        for number in range(made, min(self.individuals, made + k - len(actions))):
            actions.append(self._individual(history, islands, generation, number, rng))
        return actions

    def populations(self, good: Iterable[Node]) -> list[Island]:
        """The islands' members: the drafts of the beginning, children no worse than the mean."""
        islands: list[Island] = [[] for _ in range(self.islands)]
        for node in good:
            island = islands[node.meta["island"]]
            first = node.meta["generation"] == 0
            if first or not island or _utility(node) >= fmean(map(_utility, island)):
                island.append(node)
            if len(island) > self.island_cap:
                island.remove(min(island, key=_utility))
        return islands

    def _individual(
        self,
        history: History,
        islands: Sequence[Island],
        generation: int,
        number: int,
        rng: random.Random,
    ) -> Action:
        """The individual of that number: a draft for an empty island, else a child."""
        empty = [i for i, island in enumerate(islands) if not island]
        if number < len(empty) or len(empty) == self.islands:
            at = empty[number % len(empty)]
            return Action("draft", (), {"generation": generation, "island": at})

        def fitness(node: Node) -> float:
            return history.scaled(_utility(node))

        living = [i for i, island in enumerate(islands) if island]
        at = self._draw(living, lambda i: fmean(map(fitness, islands[i])), rng)
        meta = {"generation": generation, "island": at}
        first = self._draw(islands[at], fitness, rng)
        others = [node for node in islands[at] if node is not first]
        crossed = generation >= self.crossover_from and rng.random() < self.crossover_prob
        if not crossed or not others:
            return Action("improve", (first.id,), meta)
        return Action("crossover", (first.id, self._draw(others, fitness, rng).id), meta)

    def _draw(self, items: Sequence[T], fitness: Callable[[T], float], rng: random.Random) -> T:
        """One of the items, by softmax of their fitness."""
        values = [fitness(item) for item in items]
        weights = [math.exp((value - max(values)) / self.temperature) for value in values]
        return rng.choices(items, weights)[0]


def _utility(node: Node) -> float:
    """The utility of a node that has one."""
    return node.utility or 0.0
