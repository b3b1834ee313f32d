"""Linear refinement: change the last state, step after step, with the whole conversation as memory.

What the papers call linear refinement (arXiv 2605.17373), needing no external program. A step that
made things worse, or broke them, is built on like any other.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass as plain_dataclass
from dataclasses import replace

from pydantic import PositiveInt
from pydantic.dataclasses import dataclass

from fml_hydra.agents.base import Advisor, SearchAgent
from fml_hydra.edits import edit_between, render_edit
from fml_hydra.evaluation import Outcome
from fml_hydra.journal import Action, History, Node
from fml_hydra.knobs import STRICT
from fml_hydra.llm.base import Message
from fml_hydra.operators import Operators
from fml_hydra.session import Candidate, Maker, Session, Turn


@dataclass(frozen=True, config=STRICT)
class LastState:
    """Always the newest step; a failed one is debugged."""

    def propose(
        self, history: History, k: int, rng: random.Random, advisor: Advisor
    ) -> list[Action]:
        """One action, from the newest step."""
        if not len(history):
            return [Action("draft")]
        last = [*history][-1]
        return [Action("improve" if last.ok else "debug", (last.id,))]


@dataclass(frozen=True, config=STRICT)
class Linear(SearchAgent):
    """A search agent whose steps are one long conversation."""

    turns: PositiveInt | None = None
    """Newest steps that stay in the conversation; null: all of them."""

    def maker(self, session: Session) -> Maker:
        """Operators that hold the conversation."""
        return Conversation(self.operators_of(session), self.turns)


@plain_dataclass(frozen=True)
class Conversation:
    """Asks for the next edit below all earlier ones and their results (a `session.Maker`).

    It is written anew from the journal: of a reply that was repaired, the final edit is shown.
    """

    operators: Operators
    """How a single step is put."""
    turns: int | None
    """Newest steps shown, or all."""

    def make(self, turn: Turn) -> Candidate:
        """The edit of the newest state."""
        base = self.operators.code(turn.history, turn.action.parents)
        system, newest = self.operators.messages(turn, base)
        opening, *said = self._said(turn)
        if not said:
            return self.operators.answered(turn, base, [system, newest])
        result = said.pop().content
        last = replace(newest, content=f"{result}\n\n{newest.content}")
        return self.operators.answered(turn, base, [system, opening, *said, last])

    def reflect(self, turn: Turn, candidate: Candidate, outcome: Outcome) -> str:
        """The analysis its operators ask for, if any."""
        return self.operators.reflect(turn, candidate, outcome)

    def _said(self, turn: Turn) -> Iterator[Message]:
        """The first step's prompt, then for each step shown its edit and its result."""
        pristine = self.operators.brief.files
        first = replace(turn, action=Action("draft"))
        yield self.operators.messages(first, pristine)[-1]
        steps = [*turn.history]
        for step in steps[-self.turns :] if self.turns else steps:
            before = self.operators.code(turn.history, step.parents)
            yield Message("assistant", self._reply(step, before))
            told = {"step": step, "feedback": self.operators.feedback.cut(step.feedback)}
            yield Message("user", self.operators.prompts.render("linear_result", **told))

    def _reply(self, step: Node, before: dict[str, str]) -> str:
        after = {**self.operators.brief.files, **step.snapshot}
        return render_edit(edit_between(before, after, step.plan)).strip() or "(an empty reply)"
