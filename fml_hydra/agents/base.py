"""What an agent is, and the loop that every search agent shares.

A search agent is a policy (what next?) and operators (how the LLM is asked). A policy is a pure
function of the history, so resuming a run is replaying its journal.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass as plain_dataclass
from typing import Annotated, Any, Protocol, TypeVar, runtime_checkable

from pydantic import Field, NonNegativeInt
from pydantic.dataclasses import dataclass

from fml_hydra.errors import BudgetExhausted
from fml_hydra.journal import Action, History, Node
from fml_hydra.knobs import STRICT
from fml_hydra.llm.base import Message, Purpose, Schema
from fml_hydra.operators import Feedback, Operator, Operators
from fml_hydra.prompts import Prompts
from fml_hydra.session import Asker, Maker, Session

T = TypeVar("T")
Share = Annotated[float, Field(ge=0, le=1)]
"""A probability, or another number from 0 to 1."""


def idea_schema(*scores: str) -> Schema:
    """The object that prompts for an idea ask for; each of `scores` is a whole number."""
    kinds = dict.fromkeys(("Name", "Title", "Experiment"), "string") | dict.fromkeys(
        scores, "integer"
    )
    return {
        "type": "object",
        "properties": {key: {"type": kind} for key, kind in kinds.items()},
        "required": list(kinds),
        "additionalProperties": False,
    }


IDEA = idea_schema()
"""An idea without scores."""


@runtime_checkable
class Agent(Protocol):
    """Spends a session's budget; the session raises BudgetExhausted when it is gone."""

    @property
    def name(self) -> str:
        """Name in tables and tags."""
        ...

    def run(self, session: Session) -> None:
        """Search until the budget is gone; returning earlier is recorded as finished early."""
        ...


@plain_dataclass(frozen=True)
class Advisor:
    """A policy's access to the LLM."""

    session: Session
    """The run."""
    prompts: Prompts
    """The agent's templates."""
    asker: Asker
    """Calls on behalf of the next proposal."""

    @property
    def steps(self) -> int:
        """Steps of the whole run, if they last."""
        return self.session.budget.steps

    def decide(self, key: str, decision: Callable[[], T]) -> T:
        """The value of `decision` (plain JSON); journalled before use, read back on resume."""
        return self.session.decide(key, decision)

    def conversation(self, template: str, **context: Any) -> list[Message]:
        """A conversation about the task that begins with `template`."""
        brief = self.session.brief
        about = {"task": brief, "targets": sorted(brief.files)}
        return self.prompts.conversation(template, **about, **context)

    def improvement(self, utility: float) -> float:
        """How far `utility` goes from the baseline to the best there can be; 0 if it is worse."""
        metric = self.session.brief.metric
        baseline = self.session.brief.baseline[metric.name]
        return metric.normalized_improvement(metric.value(utility), baseline)

    def files(self, node: Node | None = None) -> dict[str, str]:
        """The target files' text as `node` left them, or as the task gives them."""
        return {**self.session.brief.files, **(node.snapshot if node else {})}

    def ask(
        self, purpose: Purpose, messages: Sequence[Message], schema: Schema | None = None
    ) -> str:
        """One LLM call; a reply may keep to a `schema` or not, and has to be read with care."""
        return self.asker(purpose, messages, schema).text


@runtime_checkable
class Policy(Protocol):
    """Answers "what next?" from the history alone; keeps no state of its own."""

    def propose(
        self, history: History, k: int, rng: random.Random, advisor: Advisor
    ) -> list[Action]:
        """At most `k` actions to be tried at once; none ends the run early.

        All chance comes from `rng`, all advice from `advisor.decide`.
        """
        ...


@dataclass(frozen=True, config=STRICT)
class SearchAgent:
    """Propose, ask for an edit, evaluate, repeat."""

    name: str
    """Name in tables and tags."""
    policy: Policy
    """What next?"""
    prompts: Prompts
    """The templates."""
    operators: dict[str, Operator]
    """How each kind of action is put to the LLM."""
    analysis: str | None = None
    """Template of the call after each step, or null."""
    feedback: Feedback = Field(default_factory=Feedback)
    """How much of an error the LLM is shown."""
    whole_files: bool = False
    """Whether replies must give whole files."""
    ahead: NonNegativeInt = 0
    """Actions proposed at once beyond the slots, so that the LLM works on them while others train;
    they know less of each other's results. Without effect with one slot."""

    def run(self, session: Session) -> None:
        """Search until the session's budget is gone or the policy has nothing to propose."""
        try:
            self._search(session)
        except BudgetExhausted:
            session.settle()
            raise
        session.settle()

    def _search(self, session: Session) -> None:
        maker = self.maker(session)
        while True:
            if not session.journal.state.pending():
                actions = self._propose(session)
                if not actions:
                    return
            else:
                actions = []
            session.run_batch(actions, maker)

    def maker(self, session: Session) -> Maker:
        """What turns its actions into candidates; an agent with other conversations has another."""
        return self.operators_of(session)

    def operators_of(self, session: Session) -> Operators:
        """Its operators in this run."""
        return Operators(
            brief=session.brief,
            prompts=self.prompts,
            operators=self.operators,
            feedback=self.feedback,
            analysis=self.analysis,
            whole_files=self.whole_files,
            repairs=session.budget.repairs,
        )

    def _propose(self, session: Session) -> list[Action]:
        session.check_budget()
        history = session.history
        at_once = session.slots + (self.ahead if session.slots > 1 else 0)
        k = min(at_once, session.steps_left())
        rng = random.Random(f"{session.seed}:{len(history)}")
        advisor = Advisor(session, self.prompts, session.proposer())
        return self.policy.propose(history, k, rng, advisor)[:k]
