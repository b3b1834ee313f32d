"""Who decides what kind of change a step is: the rules, or a language model that is shown the diff.

A model's verdicts are kept on disk by what it was shown, so that it is asked once. Whatever it
does not answer properly is decided by the rules. Not here: the words it is asked in (conf/judge).
"""

import logging
from dataclasses import dataclass as plain
from pathlib import Path
from typing import Protocol, get_args, runtime_checkable

from pydantic import PositiveInt
from pydantic.dataclasses import dataclass

from fml_hydra.files import replace_json
from fml_hydra.hashing import value_hash
from fml_hydra.ideas import Category as Kind
from fml_hydra.knobs import STRICT
from fml_hydra.llm.base import LLM, Message, Purpose, Request
from fml_hydra.prompts import Prompts
from fml_hydra.replies import parse_object

log = logging.getLogger(__name__)
KINDS: tuple[Kind, ...] = get_args(Kind)


@plain(frozen=True)
class Question:
    """A change to be judged."""

    task: str
    """Name of the task."""
    plan: str
    """What the agent meant to do."""
    diff: str
    """Unified diff from the code the step started from."""


@runtime_checkable
class Judge(Protocol):
    """Says what kind of change a step is."""

    @property
    def name(self) -> str:
        """Name in tables."""
        ...

    def kind(self, question: Question) -> Kind | None:
        """The kind of change; None leaves it to the rules."""
        ...


@dataclass(frozen=True, config=STRICT)
class RulesJudge:
    """No opinion: the rules decide."""

    name: str = "rules"
    """Name in tables."""

    def kind(self, question: Question) -> Kind | None:
        """None, always."""
        return None


@dataclass(frozen=True, config=STRICT)
class LLMJudge:
    """A language model; raises InfraError while its provider is out of reach."""

    llm: LLM
    """Who is asked."""
    prompts: Prompts
    """Templates `question` (task, plan, diff, kinds) and `repair` (kinds)."""
    cache: Path | None
    """Folder of its verdicts; None asks again each time."""
    longest: PositiveInt
    """Characters of a diff that are shown; the middle of a longer one is left out."""

    @property
    def name(self) -> str:
        """The model's name in tables."""
        return self.llm.name

    def kind(self, question: Question) -> Kind | None:
        """The model's verdict; None when it gives none, even after one repair."""
        shown = self.prompts.conversation(
            "question",
            task=question.task,
            plan=question.plan,
            diff=_shortened(question.diff, self.longest),
            kinds=KINDS,
        )
        key = value_hash([self.name, [vars(message) for message in shown], self._repair()])
        place = self.cache / f"{key[:32]}.json" if self.cache else None
        if place and place.exists():
            return _verdict(place.read_text(encoding="utf-8"))
        verdict = self._asked(tuple(shown), seed=int(key[:8], 16))
        if place:
            replace_json(place, {"kind": verdict, "model": self.name})
        return verdict

    def _asked(self, messages: tuple[Message, ...], seed: int) -> Kind | None:
        text = self._answer(messages, "analysis", seed)
        verdict = _verdict(text)
        if verdict is None:
            again = (Message("assistant", text), Message("user", self._repair()))
            verdict = _verdict(self._answer((*messages, *again), "repair", seed))
        if verdict is None:
            log.warning("judge %s: no verdict that can be read; the rules decide", self.name)
        return verdict

    def _repair(self) -> str:
        return self.prompts.render("repair", kinds=KINDS)

    def _answer(self, messages: tuple[Message, ...], purpose: Purpose, seed: int) -> str:
        return self.llm.complete(Request(messages, purpose, seed)).text


def _verdict(text: str) -> Kind | None:
    """The kind in a JSON object such as {"kind": "data"}; None for anything else."""
    given = (parse_object(text) or {}).get("kind")
    return next((kind for kind in KINDS if kind == given), None)


def _shortened(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[-half:]}"
