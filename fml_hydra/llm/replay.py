"""A recorded run in the place of a language model: no network, no cost, and never a wrong answer.

A recording is a run's `calls.jsonl`. The sampling seed of a request names its call within the run;
the answer is given only if purpose and messages are those of the recording, else the run ends with
a Divergence. `ReplayLLM.of(path)` is one for tests. Not here: the comparison of outcomes (the
command `replay`).
"""

import difflib
import json
from collections.abc import Sequence
from dataclasses import asdict, fields
from dataclasses import dataclass as plain
from functools import cached_property
from os.path import commonprefix
from pathlib import Path
from typing import Any

from pydantic import ValidationInfo, field_validator
from pydantic.dataclasses import dataclass

from fml_hydra.errors import ConfigError, Divergence
from fml_hydra.jsonl import Record, read_records
from fml_hydra.knobs import STRICT
from fml_hydra.llm.base import Reply, Request
from fml_hydra.usage import Usage

CALLS = "calls.jsonl"
"""Name of a run's recording in its folder."""
SHOWN, LEAD = 60, 20
"""Characters of a differing line that a message shows, and those of them before the difference."""
CONTEXT, DIFF_LINES = 2, 14
"""Lines around the first difference, and of the whole diff."""
Message = dict[str, str]
_NEEDED = {"key", "purpose", "seed", "messages", "text", "usage", "cost"}


@dataclass(frozen=True, config=STRICT)
class ReplayLLM:
    """Answers what a run was answered, at the prices of then."""

    name: str
    """Name in tables and tags."""
    root: Path
    """Where runs lie, for a recording that is given as a run."""
    recording: Path
    """A `calls.jsonl`; given as its path, its folder, a run's identity or its MLflow run id."""

    @field_validator("recording", mode="before")
    @classmethod
    def _there(cls, given: object, info: ValidationInfo) -> Path:
        try:
            found = find_run(str(given), Path(info.data.get("root", ".")))
        except ConfigError as error:
            raise ValueError(str(error)) from error
        path = found / CALLS if found.is_dir() else found
        if not path.is_file():
            raise ValueError(f"there is no {CALLS}")
        if problem := _not_a_recording(read_records(path)[0]):
            raise ValueError(problem)
        return path

    @classmethod
    def of(cls, recording: Path, name: str = "replay") -> "ReplayLLM":
        """The LLM of a run's folder or `calls.jsonl`; raises ValueError when it is none."""
        return cls(name, Path(), recording)

    def complete(self, request: Request) -> Reply:
        """The recorded answer; raises Divergence when this very request was not recorded."""
        asked = _Asked(
            request.purpose,
            tuple(asdict(message) for message in request.messages),
            dict(request.schema) if request.schema is not None else None,
        )
        meant = self._by_seed.get(request.seed, [])
        for record in meant:
            if _Asked.of(record) == asked:
                return _reply(record)
        raise _changed(meant[-1], asked) if meant else self._unknown(asked)

    @cached_property
    def _by_seed(self) -> dict[int, list[Record]]:
        found: dict[int, list[Record]] = {}
        for record in read_records(self.recording)[0]:
            if "failed" not in record:  # the bill of attempts without an answer
                found.setdefault(record["seed"], []).append(record)
        return found

    def _unknown(self, asked: "_Asked") -> Divergence:
        """There is no such call: the nearest one of its kind tells most about the reason."""
        records = [record for same in self._by_seed.values() for record in same]
        alike = [record for record in records if record["purpose"] == asked.purpose]
        what = f"a call ({asked.purpose}) that was not recorded"
        if not alike:
            return Divergence(f"{what}; no call of the recording is for {asked.purpose}")
        lines = asked.lines()
        nearest = max(alike, key=lambda record: len(lines & _Asked.of(record).lines()))
        if _Asked.of(nearest) == asked:
            why = f"call {nearest['key']} asks the same with another sampling seed"
            return Divergence(f"{what}; {why}: is `seed=` the recorded one?")
        near = _changed(nearest, asked)
        return Divergence(f"{what}; the nearest is another: {near}", diff=near.diff)


@plain(frozen=True)
class _Asked:
    """What has to be equal for a recorded answer to be the right one."""

    purpose: str
    messages: tuple[dict[str, str], ...]
    schema: dict[str, Any] | None

    @classmethod
    def of(cls, record: Record) -> "_Asked":
        return cls(record["purpose"], tuple(record["messages"]), record.get("schema"))

    def lines(self) -> set[str]:
        return {line for message in self.messages for line in message["content"].split("\n")}


def find_run(given: str, root: Path) -> Path:
    """The path `given`, or the folder of the run below `root` with that identity or MLflow run id.

    Raises ConfigError when there is none.
    """
    path = Path(given).expanduser()
    if given and path.exists():
        return path
    runs = root / "runs"
    if given and (runs / given / "journal.jsonl").exists():
        return runs / given
    for receipt in runs.glob("*/mlflow.json"):
        if json.loads(receipt.read_text()).get("run_id") == given:
            return receipt.parent
    known = sorted(p.parent.name for p in runs.glob("*/journal.jsonl"))
    close = difflib.get_close_matches(given, known, 1)
    hint = f"; did you mean {close[0]}?" if close else ""
    raise ConfigError(f"{given}: no such path, and no run in {runs} has that name or id{hint}")


def _not_a_recording(records: Sequence[Record]) -> str:
    for number, record in enumerate(records, start=1):
        if missing := sorted(_NEEDED - set(record)):
            return f"line {number} is not a recorded call: it lacks {', '.join(missing)}"
    return ""


def _reply(record: Record) -> Reply:
    known = {f.name: record[f.name] for f in fields(Reply) if f.name in record}
    lists = {name: tuple(value) for name, value in known.items() if isinstance(value, list)}
    return Reply(**{**known, **lists, "usage": Usage(**record["usage"])})


def _changed(record: Record, asked: _Asked) -> Divergence:
    """How a request differs from the recorded one it should be."""
    key, then = str(record["key"]), _Asked.of(record)
    call = f"call {key} ({asked.purpose}) is not the recorded one"
    if then.purpose != asked.purpose:
        return Divergence(f"{call}: that was for {then.purpose}", key)
    pairs = zip(then.messages, asked.messages, strict=False)
    for number, (old, new) in enumerate(pairs, start=1):
        if old != new:
            return _first_difference(f"{call}: message {number}", key, old, new)
    if len(then.messages) == len(asked.messages):
        return Divergence(f"{call}: it asks for a reply in another JSON schema", key)
    counts = f"{len(asked.messages)} messages, recorded {len(then.messages)}"
    return Divergence(f"{call}: {counts}", key)


def _first_difference(what: str, call: str, then: Message, now: Message) -> Divergence:
    if then["role"] != now["role"]:
        return Divergence(f"{what} is of role {now['role']}, recorded {then['role']}", call)
    old, new = then["content"].split("\n"), now["content"].split("\n")
    line = len(commonprefix([old, new]))
    here, there = ["".join(lines[line : line + 1]) for lines in (new, old)]
    start = max(0, len(commonprefix([here, there])) - LEAD)
    shown, recorded = (_cut(text, start) for text in (here, there))
    words = f"{what} ({now['role']}), line {line + 1}: {shown}, recorded {recorded}"
    return Divergence(words, call, _short_diff(old, new))


def _cut(text: str, start: int) -> str:
    """A quoted part of `text`, marked where it is cut."""
    end = start + SHOWN
    return repr(("..." if start else "") + text[start:end] + ("..." if text[end:] else ""))


def _short_diff(old: Sequence[str], new: Sequence[str]) -> str:
    """The first hunk of the unified diff, cut."""
    lines = difflib.unified_diff(old, new, "recorded", "now", n=CONTEXT, lineterm="")
    shown: list[str] = []
    for line in lines:
        if line.startswith("@@") and any(seen.startswith("@@") for seen in shown):
            break
        if len(shown) == DIFF_LINES:
            return "\n".join([*shown, "..."])
        shown.append(line)
    return "\n".join(shown)
