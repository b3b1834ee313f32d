"""The baseline again and again, a control: what best-of-n selection gains from noise alone.

Each step trains the unchanged code with another seed. The best of them on val beats the baseline by
luck, and its test value does not: an agent's gain on a task is to be seen beside this one.
Not a search: no language model is asked.
"""

from pydantic.dataclasses import dataclass

from fml_hydra.evaluation import Outcome
from fml_hydra.journal import Action
from fml_hydra.knobs import STRICT
from fml_hydra.session import Candidate, Session, Turn

PLAN = "Nothing is changed; the baseline is trained with another seed."


@dataclass(frozen=True, config=STRICT)
class RepeatBaseline:
    """Evaluates the code as given with one training seed after the other."""

    name: str
    """Name in tables and tags."""

    def run(self, session: Session) -> None:
        """Repeat until the session's budget is gone."""
        while True:
            session.run_batch(self._batch(session), self)

    def _batch(self, session: Session) -> list[Action]:
        first = 1 + len(session.history)
        count = min(session.slots, session.steps_left())
        return [Action("repeat", (), {"shift": first + i}) for i in range(count)]

    def make(self, turn: Turn) -> Candidate:
        """The baseline's code with the seed shift of the action."""
        return Candidate({}, PLAN, shift=turn.action.meta["shift"])

    def reflect(self, turn: Turn, candidate: Candidate, outcome: Outcome) -> str:
        """There is nothing to be learnt."""
        return ""
