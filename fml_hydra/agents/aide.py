"""AIDE: draft a few solutions, debug broken leaves by chance, else improve the best.

Jiang et al., "AIDE: AI-Driven Exploration in the Space of Code", arXiv 2502.13138.
"""

import random
from collections.abc import Sequence

from pydantic import NonNegativeInt, PositiveInt
from pydantic.dataclasses import dataclass

from fml_hydra.agents.base import Advisor
from fml_hydra.journal import Action, History
from fml_hydra.knobs import STRICT


@dataclass(frozen=True, config=STRICT)
class Aide:
    """Greedy tree search with debugging by chance."""

    num_drafts: PositiveInt
    """Roots to draft before anything is improved."""
    debug_prob: float
    """Chance of debugging when there is something to debug."""
    max_debug_depth: NonNegativeInt
    """A leaf is debugged while it is at most so many debug steps deep."""

    def propose(
        self, history: History, k: int, rng: random.Random, advisor: Advisor
    ) -> list[Action]:
        """Choose `k` actions one after the other, each knowing those before it."""
        actions: list[Action] = []
        for _ in range(k):
            actions.append(self._next(history, rng, actions))
        return actions

    def _next(self, history: History, rng: random.Random, taken: Sequence[Action]) -> Action:
        roots = sum(not n.parents for n in history) + sum(not a.parents for a in taken)
        if roots < self.num_drafts:
            return Action("draft")
        if rng.random() < self.debug_prob and (broken := self._debuggable(history, taken)):
            return Action("debug", (rng.choice(broken),))
        best = history.best()
        return Action("improve", (best.id,)) if best else Action("draft")

    def _debuggable(self, history: History, taken: Sequence[Action]) -> list[int]:
        busy = {parent for action in taken for parent in action.parents}
        return [n.id for n in history.debuggable(self.max_debug_depth) if n.id not in busy]
