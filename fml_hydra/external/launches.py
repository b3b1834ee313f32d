"""The launches of a program in one run: how each ended, what each has spent. Notes of the journal.

`launch/0`, `launch/1`, ... are written when a launch begins, when its session is known, and when it
ends; `spend` is the sum. A launch that a crash of ours cut short is closed from its event stream.
"""

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fml_hydra.external.programs import Program, Told, beyond
from fml_hydra.external.running import Running, read_back
from fml_hydra.journal import Journal
from fml_hydra.usage import Spend, Usage

DETAIL_CHARS = 500
"""How much of the reason for a failure is kept."""
INTERRUPTED = "interrupted"
OURS = ("steps", "seconds", "tokens", "dollars", INTERRUPTED)
"""Ends that are no choice of the program's."""


FAULTS = ("not connected", "refused")
"""Ends that are no fault of the program's."""


@dataclass(frozen=True)
class Ended:
    """How a launch ended."""

    reason: str
    """`exit 0`, a budget, `idle`, a limit of its sandbox, one of FAULTS, `interrupted`."""
    detail: str
    """The last thing it said about that, one line."""
    evaluations: int
    """Steps it has taken."""
    failed: bool
    """Whether it could not work: its provider, its installation or its connection is at fault."""
    done: bool
    """Whether no steps were left."""

    @property
    def early(self) -> bool:
        """Whether it was the program's own choice to stop."""
        return not self.failed and not self.done and self.reason not in OURS


@dataclass(frozen=True)
class Total:
    """What a program has spent; None where that is not known."""

    usage: Usage | None
    """Tokens."""
    cost: float | None
    """US dollars."""


class Launches:
    """All launches of one run; the journal is their memory."""

    def __init__(self, journal: Journal, program: Program, folder: Path) -> None:
        self._journal, self._program, self._folder = journal, program, folder
        self._began = time.monotonic()

    @property
    def number(self) -> int:
        """The current launch's number, from 0."""
        return len(self._notes()) - 1

    def session(self, number: int) -> str:
        """The program's own session in one launch; empty if it told none."""
        return str(self._notes()[number]["session"])

    def early(self) -> int:
        """How often it has stopped although it had steps left."""
        return sum(bool(n["early"]) for n in self._notes())

    def begin(self) -> Path:
        """Note a new launch; where its events go."""
        self._note(self.number + 1, Told(), None)
        self._began = time.monotonic()
        return self._events(self.number)

    def met(self, told: Told) -> None:
        """Note its session as soon as that is known, for the case that we crash."""
        if told.session and not self._notes()[-1]["session"]:
            self._note(self.number, told, None)

    def close(self, running: Running, evaluations: int, steps_left: int) -> Ended:
        """Note how it ended; raises what kept it from starting."""
        completed, told = running.ended(), running.told()
        text = self._events(self.number).with_suffix(".stderr.txt")
        text.write_text(completed.stderr)
        why = told.refused or told.error or (completed.stderr if completed.code else "")
        lines = why.strip().splitlines() or [""]
        broken = completed.code not in (0, None) and not evaluations
        ended = Ended(
            running.reason or completed.killed or f"exit {completed.code}",
            lines[-1][:DETAIL_CHARS],
            evaluations,
            failed=running.reason in FAULTS
            or (not running.reason and (broken or bool(told.error))),
            done=not steps_left,
        )
        self._note(self.number, told, ended, time.monotonic() - self._began)
        return ended

    def settle(self) -> None:
        """Close the launch that was under way when an earlier process of ours went away."""
        notes = self._notes()
        if notes and not notes[-1]["reason"]:
            told = read_back(self._program, self._events(self.number))
            self._note(self.number, told, Ended(INTERRUPTED, "", 0, failed=False, done=False))

    def total(self, told: Told | None = None) -> Total:
        """What all launches have spent, with the current one's stream so far."""
        parts = [(n["usage"], n["cost"]) for n in self._notes()]
        if told is not None:
            usage = self._own(self.number, told)
            parts[-1] = (usage and asdict(usage), told.cost)
        used = [Usage(**usage) for usage, _ in parts if usage]
        costs = [cost for usage, cost in parts if usage or cost is not None]
        known = [cost for cost in costs if cost is not None]
        return Total(
            sum(used, Usage()) if used else None,
            sum(known) if costs and len(known) == len(costs) else None,
        )

    def _notes(self) -> list[Mapping[str, Any]]:
        notes = self._journal.state.notes
        return [notes[key] for key in sorted(k for k in notes if k.startswith("launch/"))]

    def _own(self, number: int, told: Told) -> Usage | None:
        """The tokens of this very launch."""
        if told.usage is None or not self._program.cumulative:
            return told.usage
        same = [n for n in self._notes()[:number] if n["session"] == told.session]
        earlier = [Usage(**n["usage"]) for n in same if n["usage"]]
        return beyond(told.usage, sum(earlier, Usage()))

    def _note(self, number: int, told: Told, ended: Ended | None, seconds: float = 0.0) -> None:
        usage = self._own(number, told)
        value = {
            "session": told.session,
            "usage": usage and asdict(usage),
            "cost": told.cost,
            "seconds": round(seconds, 3),
            "reason": ended.reason if ended else "",
            "detail": ended.detail if ended else "",
            "evaluations": ended.evaluations if ended else 0,
            "early": ended.early if ended else False,
        }
        self._journal.note(f"launch/{number:03d}", value)
        if ended:
            total = self.total()
            spend = {"usage": total.usage and asdict(total.usage), "cost": total.cost}
            self._journal.note("spend", spend)

    def _events(self, number: int) -> Path:
        return self._folder / f"{number:03d}.jsonl"


class Ledger:
    """Divides one launch's spend among its steps."""

    def __init__(self) -> None:
        self.evaluations = 0
        """Steps of the launch."""
        self.heard = 0
        """How many of its utterances belong to earlier steps."""
        self._usage, self._cost = Usage(), 0.0
        self._since = time.monotonic()

    def spend(self, told: Told) -> Spend:
        """What was spent since the last step; its seconds are those the program had to itself."""
        usage, before = told.usage or Usage(), self._usage
        cost = None if told.cost is None else told.cost - self._cost
        grown = beyond(usage, before)
        self._usage, self._cost = usage, told.cost or self._cost
        return Spend(grown, cost, time.monotonic() - self._since)

    def answered(self, told: Told) -> None:
        """A step is over; the program goes on."""
        self.evaluations += 1
        self.heard = len(told.said)
        self._since = time.monotonic()
