"""The exchange log: every LLM call of a run, on disk before its answer is used.

A call is known by what it was for, so that a resumed run reads back what was already answered (and
paid) instead of asking again. Not here: what is asked (operators) and who answers (llm).
"""

import threading
from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path

from fml_hydra.errors import InfraError
from fml_hydra.hashing import text_hash
from fml_hydra.jsonl import JsonLines, Record
from fml_hydra.llm.base import LLM, Message, Reply, Request
from fml_hydra.usage import Spend, Usage


class CallLog:
    """`calls.jsonl` of a run; thread-safe."""

    def __init__(self, path: Path) -> None:
        self._lines = JsonLines(path)
        self._lock = threading.Lock()
        self._closed = False
        self._known = {(r["key"], r["request"]): r for r in self._lines.records}

    def ask(self, llm: LLM, key: str, request: Request) -> Reply:
        """The answer to `request`: the recorded one if this very request was answered before."""
        asked = request_hash(request)
        with self._lock:
            record = self._known.get((key, asked))
        if record is not None:
            return _reply(record)
        reply = llm.complete(request)
        reply = replace(reply, text=_utf8(reply.text))
        with self._lock:
            if self._closed:
                raise InfraError("the run was put down while it waited for a reply")
            self._keep(key, asked, request, reply)
        return reply

    def spend(self, prefix: str = "") -> Spend:
        """What the calls whose key begins with `prefix` have cost."""
        with self._lock:
            return _total(r for r in self._lines.records if r["key"].startswith(prefix))

    def close(self) -> None:
        """Let go of the file; a call that is still under way gets an InfraError."""
        with self._lock:
            self._closed = True
            self._lines.close()

    def _keep(self, key: str, asked: str, request: Request, reply: Reply) -> None:
        record: Record = {
            "key": key,
            "request": asked,
            "purpose": request.purpose,
            "seed": request.seed,
            "messages": [asdict(m) for m in request.messages],
            **asdict(reply),
        }
        self._lines.append(record)
        self._known[key, asked] = self._lines.records[-1]


def request_hash(request: Request) -> str:
    """Hash of everything that determines an answer."""
    texts = [f"{m.role}:{m.content}" for m in request.messages]
    return text_hash("\x00".join([request.purpose, str(request.seed), *texts]))[:16]


def as_messages(record: Record) -> tuple[Message, ...]:
    """The conversation of a recorded call."""
    return tuple(Message(**m) for m in record["messages"])


def _utf8(text: str) -> str:
    """Half an emoji, where a provider cuts a reply off, can be written nowhere: it becomes `?`."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _reply(record: Record) -> Reply:
    usage = Usage(**record["usage"])
    return Reply(record["text"], usage, record["cost"], record["finish"], record["seconds"])


def _total(records: Iterable[Record]) -> Spend:
    replies = (_reply(r) for r in records)
    return sum((Spend(r.usage, r.cost, r.seconds) for r in replies), Spend())
