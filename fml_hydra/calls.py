"""The exchange log: every LLM call of a run, on disk before its answer is used.

A call is known by what it was for, so that a resumed run reads back what was already answered (and
paid) instead of asking again. Not here: what is asked (operators) and who answers (llm).
"""

import json
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from pathlib import Path

from fml_hydra.errors import InfraError
from fml_hydra.hashing import text_hash
from fml_hydra.jsonl import JsonLines, Record
from fml_hydra.llm.base import LLM, Forecasts, Message, ProviderError, Purpose, Reply, Request
from fml_hydra.usage import Spend, Usage

Afford = Callable[[Spend, Spend], None]
"""Given what was spent and what is about to be; raises when that is too much."""


def whatever(spent: Spend, more: Spend) -> None:
    """Any call can be afforded."""


class CallLog:
    """`calls.jsonl` of a run; thread-safe."""

    def __init__(self, path: Path) -> None:
        self._lines = JsonLines(path)
        self._lock = threading.Lock()
        self._closed = False
        self._known = {(r["key"], r["request"]): r for r in self._lines.records if _answered(r)}
        self._spent = _total(self._lines.records)
        self._under_way: dict[str, Spend] = {}

    def ask(self, llm: LLM, key: str, request: Request, afford: Afford = whatever) -> Reply:
        """The answer to `request`: the recorded one if this very request was answered before.

        `afford` is asked before a new call, with what was spent and a forecast of this call and of
        those under way. Raises what it raises, and InfraError when there is no answer.
        """
        asked = request_hash(request)
        with self._lock:
            record = self._known.get((key, asked))
            if record is not None:
                return _reply(record)
            more = self._forecast(llm, request)
            afford(self._spent, sum(self._under_way.values(), more))
            self._under_way[key] = more
        try:
            return self._answer(llm, key, request)
        finally:
            with self._lock:
                del self._under_way[key]

    def spend(self, prefix: str = "") -> Spend:
        """What the calls whose key begins with `prefix` have cost."""
        with self._lock:
            return _total(r for r in self._lines.records if r["key"].startswith(prefix))

    def by_purpose(self) -> dict[Purpose, Spend]:
        """What the calls of each purpose have cost."""
        with self._lock:
            purposes = sorted({r["purpose"] for r in self._lines.records})
            return {
                p: _total(r for r in self._lines.records if r["purpose"] == p) for p in purposes
            }

    def close(self) -> None:
        """Let go of the file; a call that is still under way gets an InfraError."""
        with self._lock:
            self._closed = True
            self._lines.close()

    def _answer(self, llm: LLM, key: str, request: Request) -> Reply:
        """A new answer, on disk."""
        started = round(time.time(), 3)
        try:
            reply = llm.complete(request)
        except ProviderError as error:
            self._keep_failed(key, request, error)
            raise
        reply = replace(reply, text=_utf8(reply.text))
        with self._lock:
            if self._closed:
                raise InfraError("the run was put down while it waited for a reply")
            self._keep(key, request, {**_recorded(reply), "started": started})
            self._known[key, request_hash(request)] = self._lines.records[-1]
        return reply

    def _forecast(self, llm: LLM, request: Request) -> Spend:
        """Input by estimate, output as in this run's earlier calls of the purpose."""
        if not isinstance(llm, Forecasts):
            return Spend()
        earlier = [
            r["usage"]["output"]
            for r in self._lines.records
            if r["purpose"] == request.purpose and _answered(r)
        ]
        return llm.forecast(request, sum(earlier) // len(earlier) if earlier else 0)

    def _keep_failed(self, key: str, request: Request, error: ProviderError) -> None:
        """What failed attempts have cost is spent, although there is no answer."""
        spend = error.spend
        if spend.usage == Usage() and spend.cost == 0.0:
            return
        nothing = Reply("", spend.usage, spend.cost, seconds=spend.seconds)
        with self._lock:
            if not self._closed:
                self._keep(key, request, {**_recorded(nothing), "failed": str(error)})

    def _keep(self, key: str, request: Request, reply: Record) -> None:
        record: Record = {
            "key": key,
            "request": request_hash(request),
            "purpose": request.purpose,
            "seed": request.seed,
            "messages": [asdict(m) for m in request.messages],
            **({"schema": dict(request.schema)} if request.schema is not None else {}),
            **reply,
        }
        self._lines.append(record)
        self._spent += _total([record])


def request_hash(request: Request) -> str:
    """Hash of everything that determines an answer."""
    texts = [f"{m.role}:{m.content}" for m in request.messages]
    if request.schema is not None:
        texts.append(f"schema:{json.dumps(request.schema, sort_keys=True)}")
    return text_hash("\x00".join([request.purpose, str(request.seed), *texts]))[:16]


def step_of(key: str) -> int:
    """The step a call belongs to; a proposal's calls belong to the (first) step it led to."""
    return int(key.partition("/")[0].removeprefix("p"))


def as_messages(record: Record) -> tuple[Message, ...]:
    """The conversation of a recorded call."""
    return tuple(Message(**m) for m in record["messages"])


def _utf8(text: str) -> str:
    """Half an emoji, where a provider cuts a reply off, can be written nowhere: it becomes `?`."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _answered(record: Record) -> bool:
    """Whether it holds an answer; else it is the bill of attempts that all failed."""
    return "failed" not in record


def _recorded(reply: Reply) -> Record:
    """The purpose of its tokens is that of the record."""
    record = asdict(reply)
    del record["usage"]["purposes"]
    return record


def _reply(record: Record) -> Reply:
    return Reply(
        text=record["text"],
        usage=Usage(**record["usage"]),
        cost=record["cost"],
        finish=record["finish"],
        seconds=record["seconds"],
        model=record.get("model", ""),
        notes=tuple(record.get("notes", ())),
        waited=record.get("waited", 0.0),
    )


def _total(records: Iterable[Record]) -> Spend:
    return sum((_spend(r) for r in records), Spend())


def _spend(record: Record) -> Spend:
    reply = _reply(record)
    return Spend(reply.usage.spent_on(record["purpose"]), reply.cost, reply.seconds)
