"""The AI Scientist (v1): a list of ideas first, then a chain of runs for each idea.

Lu et al., "The AI Scientist", arXiv 2408.06292.
"""

import json
import random
from functools import partial
from typing import Any

from pydantic import PositiveInt
from pydantic.dataclasses import dataclass

from fml_hydra.agents.base import Advisor, idea_schema
from fml_hydra.journal import Action, History, Node
from fml_hydra.knobs import STRICT
from fml_hydra.llm.base import Message
from fml_hydra.replies import parse_object

Idea = dict[str, Any]
SCORED = idea_schema("Interestingness", "Feasibility", "Novelty")
DONE_THINKING = "I am done"
ALL_COMPLETED = "ALL_COMPLETED"
UNREADABLE_CHARS = 1000
"""How much of a reply is kept as the idea when it holds no JSON object."""


@dataclass(frozen=True, config=STRICT)
class AiScientist:
    """Ideas, then up to `max_runs` successful runs of each, one building on the other."""

    num_ideas: PositiveInt
    """Ideas made at a time."""
    num_reflections: PositiveInt
    """Rounds spent on one idea, the first included."""
    max_runs: PositiveInt
    """Successful runs per idea."""
    max_tries: PositiveInt
    """Tries for a run before the idea is dropped."""
    max_tries_after_success: PositiveInt
    """The same once the idea has had a successful run (the authors' program gives one less)."""
    more_ideas: bool
    """Whether a new list is made when one is used up; else the run ends early."""

    def propose(
        self, history: History, k: int, rng: random.Random, advisor: Advisor
    ) -> list[Action]:
        """The next run of the current idea, or the first of the next one; always one at a time."""
        index = self._current(history)
        mine = [n for n in history if n.meta["index"] == index]
        idea = self._idea(index, advisor)
        if idea is None:
            return []
        meta = {"index": index, "idea": idea}
        if not mine:
            return [Action("draft", (), meta)]
        return [Action("improve" if mine[-1].ok else "debug", (mine[-1].id,), meta)]

    def _current(self, history: History) -> int:
        """Index of the idea whose turn it is."""
        index = max((n.meta["index"] for n in history), default=0)
        mine = [n for n in history if n.meta["index"] == index]
        return index + 1 if mine and self._finished(mine) else index

    def _finished(self, runs: list[Node]) -> bool:
        good = [n for n in runs if n.ok]
        failures = len(runs) - (runs.index(good[-1]) + 1 if good else 0)
        tries = self.max_tries_after_success if good else self.max_tries
        completed = runs[-1].ok and ALL_COMPLETED in runs[-1].analysis
        return len(good) >= self.max_runs or failures >= tries or completed

    def _idea(self, index: int, advisor: Advisor) -> Idea | None:
        """The idea of that index, making lists until there is one; None when no more are made."""
        known: list[Idea] = []
        part = 0
        while len(known) <= index:
            if part and not self.more_ideas:
                return None
            known += advisor.decide(f"ideas/{part}", partial(self._think, list(known), advisor))
            part += 1
        return known[index]

    def _think(self, earlier: list[Idea], advisor: Advisor) -> list[Idea]:
        """A list of ideas, each made in the sight of those before it."""
        ideas: list[Idea] = []
        for _ in range(self.num_ideas):
            ideas.append(self._one_idea([*earlier, *ideas], advisor))
        return ideas

    def _one_idea(self, earlier: list[Idea], advisor: Advisor) -> Idea:
        """One idea after its rounds of reflection; an unreadable one is kept as its text."""
        shown = [json.dumps(idea, ensure_ascii=False) for idea in earlier]
        messages = advisor.conversation("idea", earlier=shown)
        idea: Idea | None = None
        for reflecting in range(self.num_reflections):
            # later replies may say that they are done beside the object
            reply = advisor.ask("idea", messages, None if reflecting else SCORED)
            idea = parse_object(reply) or idea
            if DONE_THINKING in reply:
                break
            again = advisor.conversation("idea_reflection")[-1]
            messages = [*messages, Message("assistant", reply or "(an empty reply)"), again]
        return idea or {"Name": f"unnamed_{len(earlier)}", "Experiment": reply[:UNREADABLE_CHARS]}
