"""One call: attempts, waiting, and what has to change between two attempts.

A call ends at the latest `max_wait` + 2 x `deadline` seconds after it began (and after the waiting
for a rate limit): with a reply, or with ProviderError. Not here: a single attempt (wire).
"""

import logging
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

from fml_hydra.llm.base import ProviderError, Reply
from fml_hydra.llm.blame import blamed
from fml_hydra.llm.failures import AWAY, FINAL, LOST, Failure
from fml_hydra.llm.forms import Line, Sending
from fml_hydra.llm.limits import Gate
from fml_hydra.llm.notices import say_once
from fml_hydra.llm.waits import Waiting
from fml_hydra.llm.windows import estimate_tokens, fit
from fml_hydra.llm.wire import Answer
from fml_hydra.usage import Spend, Usage

log = logging.getLogger(__name__)
FIRST_WAIT = 1.0
LONGEST_WAIT = 60.0
"""Seconds between attempts: doubled each time, up to this, and then spread by chance."""
SHRINK = 0.8
"""How much shorter a prompt is made when the provider says that it is too long."""


class Patience(Protocol):
    """How long a call may take."""

    @property
    def deadline(self) -> float:
        """Seconds one attempt may take."""
        ...

    @property
    def attempts(self) -> int:
        """Attempts that may be lost in a row."""
        ...

    @property
    def max_wait(self) -> float:
        """Seconds a service may be away."""
        ...


@dataclass
class Known:
    """What this process has learned of a model; shared by all calls to it."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    """Held while something is learned."""
    refused: set[str] = field(default_factory=set)
    """Settings it does not take."""
    reached: bool = False
    """Whether anything was ever heard from its service."""


@dataclass
class Call:
    """A call under way."""

    line: Line
    """To whom."""
    title: str
    """The model in messages."""
    remedy: str
    """Where its key is to be found: the name of the variable."""
    sending: Sending
    """What is sent; changes when something is refused."""
    patience: Patience
    """How long it may take."""
    known: Known
    """What was learned of the model."""
    gate: Gate
    """The service's rate limits."""
    price: Callable[[Usage, str], float | None]
    """US dollars of a usage by a version."""
    send: Callable[[Line, Sending, float], Answer]
    """A single attempt."""
    waiting: Waiting
    """For the service, or for its rate limits."""
    notes: list[str] = field(default_factory=list)
    """What happened."""
    usage: Usage = Usage()
    """Of the failed attempts."""
    lost: int = 0
    """Attempts lost in a row."""
    tries: int = 0
    """Attempts that were not the prompt's or a parameter's fault."""
    away_since: float | None = None
    """When the service first was away."""
    away: bool = False
    """Whether it was at the last attempt."""

    def run(self) -> Reply:
        """The reply; raises ProviderError."""
        began = time.monotonic()
        try:
            return self._answered(began)
        finally:
            self.waiting.over()

    def _answered(self, began: float) -> Reply:
        while True:
            try:
                answer = self._attempt()
            except Failure as failure:
                self._count(failure)
                if (empty := self._after(failure, began)) is not None:
                    return empty
                continue
            return self._reply(answer, began)

    def _attempt(self) -> Answer:
        with self.known.lock:
            refused = set(self.known.refused)
        settings = {k: v for k, v in self.sending.settings.items() if k not in refused}
        schema = None if "schema" in refused else self.sending.schema
        self.sending = replace(self.sending, settings=settings, schema=schema)
        booking = self.gate.enter(self._size(), self._held_back)
        if not self.away:
            self.waiting.over()
        answer = self.send(self.line, self.sending, self.patience.deadline)
        booking.tokens = answer.usage.total if answer.usage else booking.tokens
        return answer

    def _held_back(self, seconds: float) -> None:
        self.waiting.sleep(seconds, "rate limit")

    def _size(self) -> int:
        return estimate_tokens(self.sending.messages)

    def _count(self, failure: Failure) -> None:
        """Tokens of a failed attempt: as told, or by estimate if a sent prompt got no answer."""
        self.known.reached |= failure.name != "unreachable"
        counted = ""
        if failure.usage is not None:
            self.usage += failure.usage
        elif failure.name in LOST:
            self.usage += Usage(input=self._size())
            counted = f" (counted as {self._size()} tokens of input)"
        self.notes.append(f"{failure}{counted}")
        log.warning("%s: %s%s", self.title, failure, counted)

    def _after(self, failure: Failure, began: float) -> Reply | None:
        """Prepare the next attempt; a reply without text if the model must not or cannot answer."""
        if failure.name == "content_filter":
            return self._empty(began)
        if failure.name == "overlong":
            return None if self._shorten() else self._empty(began)
        if failure.name in FINAL:
            if failure.name == "rejected" and self._drop(failure):
                return None
            raise self._given_up(failure, self._hint(failure), began)
        self._wait(failure, began)
        return None

    def _shorten(self) -> bool:
        before = self.sending.messages
        fitted = fit(before, int(self._size() * SHRINK))
        self.sending = replace(self.sending, messages=fitted.messages)
        self.notes += [f"left out: {what}" for what in fitted.left_out]
        return fitted.messages != before

    def _drop(self, failure: Failure) -> bool:
        """Do without the setting that was refused, now and later."""
        asked = [*self.sending.settings, *(["schema"] if self.sending.schema else [])]
        name = blamed(failure, asked)
        if not name:
            return False
        with self.known.lock:
            self.known.refused.add(name)
        what = f"{name} is not supported and is left out from now on"
        self.notes.append(what)
        say_once(f"{self.title}: {what}")
        return True

    def _wait(self, failure: Failure, began: float) -> None:
        """Wait for the next attempt; raises ProviderError when there is to be none."""
        now = time.monotonic()
        self.tries += 1
        self.lost = self.lost + 1 if failure.name in LOST else 0
        self.away = failure.name in AWAY
        if self.away and self.away_since is None:
            self.away_since = now
        seconds = min(LONGEST_WAIT, FIRST_WAIT * 2 ** min(self.tries - 1, 10))
        seconds *= random.uniform(0.8, 1.2)
        if failure.wait is not None:
            seconds = max(failure.wait, 0.0) + random.uniform(0, 0.1)
            self.gate.shut(seconds)
        if self.lost >= self.patience.attempts:
            raise self._given_up(failure, f"{self.lost} attempts in a row", began)
        if not self.known.reached and self.tries >= self.patience.attempts:
            hint = f"nothing was ever heard from {self.line.base_url}: check llm.base_url"
            raise self._given_up(failure, hint, began)
        away = now - (self.away_since if self.away_since is not None else now)
        if away + seconds > self.patience.max_wait:
            hint = f"after {away:.0f} s; llm.max_wait={self.patience.max_wait:g}"
            raise self._given_up(failure, hint, began)
        if self.away:
            self.waiting.sleep(seconds, str(failure), self.patience.max_wait)
        else:
            self.waiting.over()
            time.sleep(seconds)

    def _hint(self, failure: Failure) -> str:
        service = self.line.base_url
        hints = {
            "authentication": f"{service} refuses the key; check {self.remedy}",
            "quota": f"the account behind {self.remedy} has nothing left; top it up",
            "model_not_found": f"{service} knows no model {self.line.model}; check llm.model",
        }
        return hints.get(failure.name, "the request was refused")

    def _given_up(self, failure: Failure, hint: str, began: float) -> ProviderError:
        cost = self.price(self.usage, self.line.model) if self.usage.total else 0.0
        spend = Spend(self.usage, cost, self._worked(began))
        return ProviderError(f"{self.title}: {str(failure).rstrip(': ')} ({hint})", spend)

    def _worked(self, began: float) -> float:
        """Seconds since then, without those of waiting."""
        self.waiting.over()
        return time.monotonic() - began - self.waiting.seconds

    def _empty(self, began: float) -> Reply:
        nothing = Answer("", "refused", Usage(), "", ())
        return self._reply(nothing, began)

    def _reply(self, answer: Answer, began: float) -> Reply:
        self.known.reached = True
        for name in answer.ignored:
            what = f"{name} is not taken by this model and was not sent"
            self.notes.append(what)
            say_once(f"{self.title}: {what}")
        told = answer.usage
        if told is None:
            size = estimate_tokens(self.sending.messages)
            told = Usage(input=size, output=max(1, len(answer.text.encode()) // 4))
            self.notes.append("the provider does not tell tokens: they are estimated")
            say_once(f"{self.title}: does not tell tokens; they are estimated, the cost is unknown")
        usage = self.usage + told
        cost = self.price(usage, answer.model) if answer.usage is not None else None
        return Reply(
            answer.text,
            usage,
            cost,
            answer.finish,
            self._worked(began),
            answer.model,
            tuple(self.notes),
            self.waiting.seconds,
        )
