"""A program's stay in a run: launched, served, watched, launched again.

Not here: what a call amounts to (`service`), what a program is (`programs` and its modules).
"""

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fml_hydra.errors import BudgetExhausted, InfraError
from fml_hydra.external.endpoint import Endpoint
from fml_hydra.external.launches import Ended, Launches, Ledger
from fml_hydra.external.programs import Launch, Program, Task, Told
from fml_hydra.external.room import Furniture, furnish
from fml_hydra.external.running import Running
from fml_hydra.external.service import Service
from fml_hydra.prompts import Prompts
from fml_hydra.sandbox import Limits, Mount, Sandbox
from fml_hydra.session import Session

log = logging.getLogger(__name__)
TICK = 0.1
"""Seconds between two looks at a program that asks for nothing."""
RETRIES = 2
"""How often a program that cannot work is started again before the run is put down."""
RETRY_SECONDS = 2.0
"""Wait before that."""


@dataclass(frozen=True)
class Rules:
    """What a program may do."""

    limits: Limits
    """Of one launch; its seconds are wall time."""
    network: bool
    """Whether it may use the network."""
    resumes: int
    """How often it is started again when it stops with steps left."""
    idle_seconds: float
    """How long it may say nothing while no evaluation runs."""
    grace_seconds: float
    """How long it may go on once the steps are used up."""


@dataclass(frozen=True)
class Guest:
    """The program and what it brings along."""

    name: str
    """Name in messages."""
    program: Program
    """What is known of it."""
    prompts: Prompts
    """What it is told."""
    mounts: Sequence[Mount]
    """What of this machine it sees, read-only."""
    env: Mapping[str, str]
    """What it gets of our environment."""
    hidden: Sequence[Path]
    """What it does not see all the same."""


class Visit:
    """One stay, over all launches in this process."""

    def __init__(
        self, session: Session, guest: Guest, rules: Rules, sandbox: Sandbox, endpoint: Endpoint
    ) -> None:
        folder = session.folder / "agent"
        self._session, self._guest, self._rules, self._endpoint = session, guest, rules, endpoint
        (folder / "home").mkdir(parents=True, exist_ok=True)
        self._launches = Launches(session.journal, guest.program, folder / "events")
        self._service = Service(session, folder / "repo", guest.prompts)
        furniture = Furniture(
            self._service.copy.folder,
            folder / "home",
            endpoint.folder,
            guest.mounts,
            guest.env,
            guest.hidden,
        )
        self._room, self._place = furnish(sandbox, rules.network, furniture)
        self._over: float | None = None

    def stay(self) -> None:
        """Launch after launch, until it has stopped too often.

        Raises BudgetExhausted when anything is spent, InfraError when the program cannot work.
        """
        self._launches.settle()
        failures = 0
        while True:
            self._check()
            ended = self._launch(fresh=failures == RETRIES)
            self._check()
            failures = failures + 1 if ended.failed and not ended.evaluations else 0
            if failures > RETRIES or ended.reason == "refused":
                raise InfraError(f"{self._guest.name}: {ended.reason}: {ended.detail}")
            if ended.failed:
                log.warning("%s: %s (%s); again", self._guest.name, ended.reason, ended.detail)
                time.sleep(RETRY_SECONDS)
            elif self._launches.early() > self._rules.resumes:
                return

    def _launch(self, fresh: bool) -> Ended:
        """One launch, from the last state to its end, which is noted.

        `fresh` leaves its session alone: that may be what is broken.
        """
        self._service.restore()
        path = self._launches.begin()
        launch = self._prepared("" if fresh else self._service.session(self._launches))
        running = Running(self._guest.program, path)
        ledger = Ledger()
        self._over = None
        self._session.doing(f"{self._guest.name} at work")
        running.start(self._room, launch, replace(self._rules.limits, follower=running))
        try:
            self._serve(running, ledger)
        finally:
            running.end("interrupted")
            running.join()
        left = self._session.steps_left()
        ended = self._launches.close(running, ledger.evaluations, left)
        self._session.tell()
        return ended

    def _prepared(self, session: str) -> Launch:
        """The next launch, its files and tools in place."""
        program, dollars = self._guest.program, self._session.budget.dollars
        words = self._service.words(program.asks, again=bool(session) and program.resumable)
        spent = self._launches.total().cost or 0.0
        left = None if dollars is None else max(0.0, dollars - spent)
        task = Task(words, session, self._session.steps_left(), left)
        launch = program.launch(self._place, task)
        self._endpoint.equip(self._place.tools, {"TASK.md": words, **launch.files})
        return launch

    def _serve(self, running: Running, ledger: Ledger) -> None:
        """Answer its calls, one after the other, until it is gone."""
        while running.alive:
            call = self._endpoint.next(TICK)
            if call is None:
                self._watch(running)
            elif call.do == "status":
                call.answer(self._service.standing())
            elif self._spent(running.told()) or not self._session.steps_left():
                call.answer(self._service.exhausted())
            else:
                self._session.doing(f"an evaluation for {self._guest.name}")
                told = running.told()
                call.answer(self._service.evaluate(call.note, told, ledger, self._launches.number))
                running.touch()
                self._session.doing(f"{self._guest.name} at work")

    def _watch(self, running: Running) -> None:
        told = running.told()
        self._launches.met(told)
        if told.connected is False:
            running.end("not connected")
        elif told.refused:
            running.end("refused")
        elif resource := self._spent(told):
            running.end(resource)
        elif not self._session.steps_left():
            self._over = self._over or time.monotonic()
            if time.monotonic() - self._over > self._rules.grace_seconds:
                running.end("steps")
        elif running.quiet() > self._rules.idle_seconds:
            running.end("idle")

    def _check(self) -> None:
        self._session.check_budget()
        if resource := self._spent(None):
            raise BudgetExhausted(resource)

    def _spent(self, told: Told | None) -> str:
        """What is spent apart from steps, by the program's own account; empty if nothing is."""
        budget, total = self._session.budget, self._launches.total(told)
        if budget.seconds is not None and self._service.elapsed() >= budget.seconds:
            return "seconds"
        if budget.tokens is not None and total.usage and total.usage.total >= budget.tokens:
            return "tokens"
        if budget.dollars is not None and total.cost is not None and total.cost >= budget.dollars:
            return "dollars"
        return ""
