"""What a program asks for, done: its working copy becomes a step of the session, and an answer.

Not here: when a program is served (`visit`), how a step is evaluated (session).
"""

import time
from pathlib import Path
from typing import Any

from fml_hydra.external.copy import Found, WorkingCopy
from fml_hydra.external.launches import Launches, Ledger
from fml_hydra.external.programs import Told
from fml_hydra.journal import Action, Node
from fml_hydra.prompts import Prompts
from fml_hydra.session import Candidate, Session
from fml_hydra.usage import Spend

NOTE_CHARS = 4000
"""How much of a note is kept as a step's plan."""
SAID_CHARS = 100_000
"""How much of what the agent said is kept with a step."""
NAMED = 5
"""How many new files an answer names."""
Answer = dict[str, Any]


class Service:
    """Serves one session."""

    def __init__(self, session: Session, folder: Path, prompts: Prompts) -> None:
        brief = session.brief
        self._session, self._prompts = session, prompts
        self._clock = (session.journal.state.seconds, time.monotonic())
        self.copy = WorkingCopy(folder, brief.repository, brief.files)
        """What the program edits."""

    def restore(self) -> None:
        """Make the working copy anew, in the state of the last step."""
        last = self._last()
        self.copy.make(last.snapshot if last else {})

    def session(self, launches: Launches) -> str:
        """The program's session that led to the last step: one without a step may not be kept."""
        last = self._last()
        return launches.session(last.meta["launch"]) if last else ""

    def words(self, asks: str, again: bool) -> str:
        """What the program is told: everything, or only that there is more to do."""
        context = {
            "task": self._session.brief,
            "targets": sorted(self._session.brief.files),
            "asks": asks,
            "steps_done": len(self._session.history),
            **self.standing(),
        }
        return self._prompts.render("external_again" if again else "external", **context)

    def evaluate(self, note: str, told: Told, ledger: Ledger, launch: int) -> Answer:
        """One step with the working copy as it is now."""
        found = self.copy.look()
        spend = ledger.spend(told)
        said = _clean("\n\n".join(told.said[ledger.heard :]), SAID_CHARS)
        candidate = _candidate(found, _clean(note, NOTE_CHARS), said, spend)
        node = self._session.evaluate(self._action(launch), candidate)
        ledger.answered(told)
        return self._told_of(node, found)

    def standing(self) -> Answer:
        """How the run stands."""
        metric, best = self._session.brief.metric, self._session.history.best()
        value = None if best is None or best.utility is None else metric.value(best.utility)
        return {"best": value, "steps_left": self._session.steps_left()}

    def exhausted(self) -> Answer:
        """The answer when nothing is run any more."""
        return {"status": "budget_exhausted", "metric": None, **self.standing()} | {
            "steps_left": 0,
            "feedback": "The budget is exhausted. Nothing was run. Stop here.",
        }

    def elapsed(self) -> float:
        """Wall time worked on the run until now, in seconds; the journal knows the last event's."""
        seconds, at = self._clock
        if self._session.journal.state.seconds != seconds:
            self._clock = (self._session.journal.state.seconds, time.monotonic())
            seconds, at = self._clock
        return seconds + time.monotonic() - at

    def _last(self) -> Node | None:
        return next(reversed(list(self._session.history)), None)

    def _action(self, launch: int) -> Action:
        """A program goes on from where it is: linear refinement."""
        last, meta = self._last(), {"launch": launch}
        if last is None:
            return Action("draft", (), meta)
        return Action("improve" if last.ok else "debug", (last.id,), meta)

    def _told_of(self, node: Node, found: Found) -> Answer:
        value = node.metrics.get(self._session.brief.metric.name) if node.ok else None
        feedback = node.feedback
        if found.new:
            names = ", ".join(found.new[:NAMED]) + (", ..." if found.new[NAMED:] else "")
            feedback += f"\nNew files are not part of an evaluation: {names}"
        result = {"step": node.id, "status": node.status, "metric": value}
        return {**result, **self.standing(), "feedback": feedback.strip()}


def _candidate(found: Found, plan: str, said: str, spend: Spend) -> Candidate:
    facts: dict[str, Any] = {"files": found.files, "plan": plan, "reply": said, "spend": spend}
    if found.touched:
        names = ", ".join(found.touched)
        reason = f"changed files that may not be edited: {names}; they have been restored"
        return Candidate(**facts, refused="protected", reason=reason)
    if found.unreadable:
        reason = "; ".join(f"{name} is {why}" for name, why in found.unreadable.items())
        return Candidate(**facts, refused="edit_failed", reason=reason)
    return Candidate(**facts)


def _clean(text: str, most: int) -> str:
    """What can be written to a file: no half characters, and not without end."""
    return text[:most].encode("utf-8", "replace").decode("utf-8")
