"""AdaptiveSearch: climb greedily; once that stagnates, climb on in several branches.

FML-bench v3 (arXiv 2605.17373). The climbing is Autoresearch's, which this policy holds. Code
embeddings tell a branch that goes nowhere from one that goes everywhere.
"""

import random
from collections.abc import Sequence
from dataclasses import replace
from statistics import linear_regression
from typing import Annotated

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveInt
from pydantic.dataclasses import dataclass

from fml_hydra.agents.autoresearch import Autoresearch, Climb, Idea
from fml_hydra.agents.base import Advisor
from fml_hydra.embedding import Embedder, Vectors, code_text, effective_dimension, reach
from fml_hydra.journal import Action, History, Node
from fml_hydra.knobs import STRICT

DEEPEN = "This branch has stayed near its start: go deeper, with a larger change of the same idea."
COHERE = "This branch has scattered: stay coherent, and refine what its kept steps have in common."
CONSOLIDATE = "Consolidate what this branch has gained, then deepen its main idea."


@dataclass(frozen=True, config=STRICT)
class AdaptiveSearch:
    """One climb first, and from the first stagnation on several."""

    first: Autoresearch
    """How it climbs, in both phases."""
    embedder: Embedder
    """Makes vectors of code states."""
    window: Annotated[int, Field(ge=2)]
    """Steps over which stagnation is judged, and the fewest before the switch."""
    min_slope: float
    """Largest slope per step that is stagnation, in normalised improvement of the best so far."""
    few_left: tuple[NonNegativeInt, ...]
    """With at most few_left[n] steps left there are n branches; with more, one more than that."""
    hint_after: PositiveInt
    """Steps in a branch before it is given hints."""
    few_keeps: NonNegativeInt
    """A branch is given hints when it kept at most so many of its newest steps."""
    deepen_window: PositiveInt
    """Newest steps looked at for the hint to go deeper."""
    deepen_reach: NonNegativeFloat
    """It is given up to this reach from the branch's start, relative to the farthest branch."""
    cohere_window: PositiveInt
    """Newest steps looked at for the hint to stay coherent."""
    cohere_dimension: NonNegativeFloat
    """It is given from this effective dimension of the branch on."""

    def propose(
        self, history: History, k: int, rng: random.Random, advisor: Advisor
    ) -> list[Action]:
        """The next step of the only climb, or of up to `k` branches in turn."""
        forks = self._forks(history, advisor)
        if not forks:
            return self.first.propose(history, k, rng, advisor)
        made = sum("branch" in node.meta for node in history)
        turns = [(made + i) % len(forks) for i in range(min(k, len(forks)))]
        trunk, branches = self._trunk(history), self._branches(history, forks)
        farthest = max(self._reach(climb, advisor) for climb in (trunk, *branches))
        hinted = (
            replace(branches[turn], hint=self.hint(branches[turn], farthest, advisor))
            for turn in turns
        )
        kept = [n for climb in (trunk, *branches) for n in self.first.kept(climb, advisor)]
        return self.first.advance([*hinted], kept, history, advisor)

    def stagnates(self, history: History, advisor: Advisor) -> bool:
        """Whether the normalised best so far has stopped rising over the newest `window` steps."""
        if len(history) < self.window:
            return False
        best, curve = 0.0, list[float]()
        for node in history:
            if node.ok and node.utility is not None:
                best = max(best, advisor.improvement(node.utility))
            curve.append(best)
        recent = curve[-self.window :]
        return linear_regression(range(len(recent)), recent).slope <= self.min_slope

    def _forks(self, history: History, advisor: Advisor) -> list[int | None]:
        """The step each branch starts from (None: the baseline); none in the first phase."""
        for node in history:
            if "forks" in node.meta:
                return list(node.meta["forks"])
        if not self.stagnates(history, advisor):
            return []
        left = advisor.steps - len(history)
        count = sum(left > few for few in self.few_left)
        kept = self.first.kept(self._trunk(history), advisor)
        best = sorted(kept, key=lambda node: -(node.utility or 0.0))[:count]
        return [*(node.id for node in best), *[None] * (count - len(best))]

    def _trunk(self, history: History) -> Climb:
        return Climb(None, history.baseline, [n for n in history if "branch" not in n.meta])

    def _branches(self, history: History, forks: Sequence[int | None]) -> list[Climb]:
        """The branches as they stand, without hints."""
        nodes = [[n for n in history if n.meta.get("branch") == b] for b in range(len(forks))]
        firsts: list[Idea] = [steps[0].meta["idea"] for steps in nodes if steps]
        starts = [None if fork is None else history[fork] for fork in forks]
        return [
            Climb(
                start=start,
                threshold=start.utility if start else history.baseline,
                nodes=steps,
                meta={"branch": branch, "forks": list(forks)},
                differ_from=() if steps else firsts,
            )
            for branch, (start, steps) in enumerate(zip(starts, nodes, strict=True))
        ]

    def hint(self, climb: Climb, farthest: float, advisor: Advisor) -> str:
        """Advice for a branch that gains little, from how it moves; `farthest` is any reach yet."""
        if len(climb.nodes) < self.hint_after:
            return ""
        kept = {node.id for node in self.first.kept(climb, advisor)}

        def stuck(window: int) -> bool:
            return sum(node.id in kept for node in climb.nodes[-window:]) <= self.few_keeps

        near = self._reach(climb, advisor) <= self.deepen_reach * farthest
        wide = effective_dimension(self._vectors(climb.nodes, advisor)) >= self.cohere_dimension
        deepen, cohere = stuck(self.deepen_window) and near, stuck(self.cohere_window) and wide
        return CONSOLIDATE if deepen and cohere else DEEPEN if deepen else COHERE if cohere else ""

    def _reach(self, climb: Climb, advisor: Advisor) -> float:
        """How far a climb has gone from its start."""
        return reach(self._vectors(climb.nodes, advisor), self._vectors([climb.start], advisor)[0])

    def _vectors(self, nodes: Sequence[Node | None], advisor: Advisor) -> Vectors:
        return self.embedder.embed([code_text(advisor.files(node)) for node in nodes])
