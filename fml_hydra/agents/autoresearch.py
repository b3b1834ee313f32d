"""Autoresearch: greedy hill climbing. An idea, an edit of the incumbent, a run; keep it or drop it.

Karpathy, "autoresearch" (github.com/karpathy/autoresearch, 2026), as FML-bench v3 describes it
(arXiv 2605.17373). Several climbs can go on side by side; adaptive_search makes use of that.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass as plain_dataclass
from dataclasses import field
from functools import partial
from typing import Any

from pydantic import NonNegativeFloat, PositiveInt
from pydantic.dataclasses import dataclass

from fml_hydra.agents.base import IDEA, Advisor
from fml_hydra.edits import render_files
from fml_hydra.journal import Action, History, Node
from fml_hydra.knobs import STRICT
from fml_hydra.replies import parse_object, without_thoughts

Idea = dict[str, Any]
CODELESS = frozenset({"noop", "edit_failed", "protected"})
"""Failures that left no new code to be fixed: the idea is dropped."""
UNREADABLE_CHARS = 1000
"""How much of a reply is kept as the idea when it holds no JSON object."""


@plain_dataclass(frozen=True)
class Climb:
    """One hill climb: where it began and the steps made in it."""

    start: Node | None
    """Its first incumbent; None is the baseline."""
    threshold: float | None
    """Utility to be beaten at first."""
    nodes: Sequence[Node]
    """Its steps, in order."""
    meta: Mapping[str, Any] = field(default_factory=dict)
    """What its actions carry."""
    hint: str = ""
    """Advice for the next idea."""
    differ_from: Sequence[Idea] = ()
    """Ideas whose mechanism the next one must not share."""


@dataclass(frozen=True, config=STRICT)
class Autoresearch:
    """Climbs from the baseline, one step at a time."""

    min_delta: NonNegativeFloat
    """A step is kept if its utility is better by more than this."""
    simpler_wins: bool
    """Whether a step within `min_delta` is kept if its files have fewer lines."""
    max_crashes: PositiveInt
    """Crashes in a row after which an idea is given up."""

    def propose(
        self, history: History, k: int, rng: random.Random, advisor: Advisor
    ) -> list[Action]:
        """The next step of the only climb; always one at a time."""
        climb = Climb(None, history.baseline, list(history))
        return self.advance([climb], self.kept(climb, advisor), history, advisor)

    def kept(self, climb: Climb, advisor: Advisor) -> list[Node]:
        """The steps of `climb` that became the incumbent, in order."""
        incumbent, utility, kept = climb.start, climb.threshold, list[Node]()
        for node in climb.nodes:
            if self._beats(node, incumbent, utility, advisor):
                incumbent, utility = node, node.utility
                kept.append(node)
        return kept

    def advance(
        self, climbs: Sequence[Climb], kept: Sequence[Node], history: History, advisor: Advisor
    ) -> list[Action]:
        """One action for each climb; the ideas they need are one decision.

        `kept` are the steps marked as kept in the table that the LLM is shown.
        """
        idle = [climb for climb in climbs if not self._broken(climb, history)]
        think = partial(self._ideas, idle, {n.id for n in kept}, history, advisor)
        ideas = iter(advisor.decide(f"ideas/{len(history)}", think) if idle else ())
        return [
            Action("debug", (broken.id,), {**climb.meta, "idea": broken.meta["idea"]})
            if (broken := self._broken(climb, history))
            else self._attempt(climb, next(ideas), advisor)
            for climb in climbs
        ]

    def _attempt(self, climb: Climb, idea: Idea, advisor: Advisor) -> Action:
        incumbent = self._incumbent(climb, advisor)
        parents = (incumbent.id,) if incumbent else ()
        return Action("improve" if parents else "draft", parents, {**climb.meta, "idea": idea})

    def _incumbent(self, climb: Climb, advisor: Advisor) -> Node | None:
        kept = self.kept(climb, advisor)
        return kept[-1] if kept else climb.start

    def _beats(
        self, node: Node, incumbent: Node | None, utility: float | None, advisor: Advisor
    ) -> bool:
        if not node.ok or node.utility is None:
            return False
        gain = float("inf") if utility is None else node.utility - utility
        simpler = self.simpler_wins and _lines(node, advisor) < _lines(incumbent, advisor)
        return gain > self.min_delta or (simpler and abs(gain) <= self.min_delta)

    def _broken(self, climb: Climb, history: History) -> Node | None:
        """The step whose code is to be fixed next, if it is not given up."""
        last = climb.nodes[-1] if climb.nodes else None
        if last is None or last.ok or last.status in CODELESS:
            return None
        return last if history.debug_depth(last) + 1 < self.max_crashes else None

    def _ideas(
        self, climbs: Sequence[Climb], kept: set[int], history: History, advisor: Advisor
    ) -> list[Idea]:
        """An idea for each climb; first ideas of climbs differ from those before them too."""
        ideas: list[Idea] = []
        for climb in climbs:
            first = climb.differ_from if climb.nodes else (*climb.differ_from, *ideas)
            ideas.append(self._idea(climb, first, kept, history, advisor))
        return ideas

    def _idea(
        self,
        climb: Climb,
        differ_from: Sequence[Idea],
        kept: set[int],
        history: History,
        advisor: Advisor,
    ) -> Idea:
        incumbent = self._incumbent(climb, advisor)
        messages = advisor.conversation(
            "autoresearch_idea",
            incumbent=incumbent,
            files=render_files(advisor.files(incumbent)),
            steps=list(history),
            kept=kept,
            hint=climb.hint,
            differ_from=differ_from,
        )
        reply = advisor.ask("idea", messages, IDEA)
        unnamed = {"Name": f"unnamed_{len(history)}"}
        return parse_object(reply) or {
            **unnamed,
            "Experiment": without_thoughts(reply)[:UNREADABLE_CHARS],
        }


def _lines(node: Node | None, advisor: Advisor) -> int:
    return sum(text.count("\n") for text in advisor.files(node).values())
