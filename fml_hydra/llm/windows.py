"""Makes a prompt fit: what is left out first when it is longer than the model can read.

In this order, each only as far as needed:

1. earlier attempts, experiments and ideas, the oldest first
2. the middle of a conversation, the oldest exchange first (never its first and its last message)
3. other solutions shown for comparison, the last first
4. what was learned so far: its beginning
5. the error: its middle
The task, the files to be edited, the idea, the instruction and the form of the answer stay. Where
something is missing the prompt says so. Tokens are estimated, for no tokenizer is at hand.
"""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from fml_hydra.llm.base import Message

BYTES_PER_TOKEN = 3.5
"""Lower than what tokenizers reach on English (4 to 5) and about that of code."""
PER_MESSAGE = 4
"""Tokens a message takes beside its text."""
LISTS = ("Earlier attempts", "Experiments so far", "Earlier ideas", "Ideas of the other branches")
"""Sections that are a list, the oldest entry first."""
_HEADING = re.compile(r"## (.+?) *")
_FENCE = re.compile(r" {0,3}(`{3,})(.*)")
_ENTRY = re.compile(r"- |\| \d+ |\[?\{")
_EXCHANGES_NOTE = "\n\n(The exchanges that followed are left out: it would be too long.)"
_CUT_TO = 400
"""Characters that stay of a text that is cut."""


@dataclass(frozen=True)
class Section:
    """A `## heading` and what stands below it, up to the next."""

    name: str
    """The heading; empty for what stands above the first."""
    text: str
    """Everything, heading included."""


@dataclass(frozen=True)
class Fitted:
    """A conversation, and what is no longer in it."""

    messages: tuple[Message, ...]
    """The conversation."""
    left_out: tuple[str, ...] = ()
    """In words, one line each."""


def estimate_tokens(messages: Sequence[Message]) -> int:
    """About how many tokens `messages` are."""
    size = sum(len(m.content.encode("utf-8", "replace")) for m in messages)
    return math.ceil(size / BYTES_PER_TOKEN) + PER_MESSAGE * len(messages)


def fit(messages: Sequence[Message], room: int) -> Fitted:
    """`messages` in about `room` tokens, or as near to it as what must stay allows."""
    now, left_out = tuple(messages), list[str]()
    for what, smaller in _WAYS:
        count = 0
        while estimate_tokens(now) > room:
            cut = smaller(now)
            if cut is None:
                break
            now, count = cut, count + 1
        if count:
            left_out.append(what.format(count=count))
    return Fitted(now, tuple(left_out))


def sections(text: str) -> list[Section]:
    """`text` at its `##` headings; those inside fenced code are code."""
    found, name, lines, fence = list[Section](), "", list[str](), 0
    for line in text.splitlines(keepends=True):
        mark = _FENCE.match(line)
        if mark and (not fence or (len(mark[1]) >= fence and not mark[2].strip())):
            fence = 0 if fence else len(mark[1])
        heading = None if fence else _HEADING.fullmatch(line.rstrip("\n"))
        if heading:
            found.append(Section(name, "".join(lines)))
            name, lines = heading[1], []
        lines.append(line)
    return [*found, Section(name, "".join(lines))]


def stable_part(text: str) -> str:
    """The beginning of a prompt that does not change from step to step: up to its second section.

    Empty when there is no such thing.
    """
    parts = sections(text)
    return "".join(s.text for s in parts[:2]) if len(parts) > 2 else ""


def _without_oldest(messages: tuple[Message, ...]) -> tuple[Message, ...] | None:
    """Without the first entry of the first list that has one."""
    return _with_section(messages, lambda s: s.name in LISTS, _shorter_list)


def _without_exchange(messages: tuple[Message, ...]) -> tuple[Message, ...] | None:
    """Without the oldest question and answer between the first question and the last."""
    users = [i for i, m in enumerate(messages) if m.role == "user"]
    if len(users) < 3:
        return None
    first = messages[users[0]]
    said = first.content.removesuffix(_EXCHANGES_NOTE)
    noted = replace(first, content=f"{said}{_EXCHANGES_NOTE}")
    return (*messages[: users[0]], noted, *messages[users[1] + 1 :])


def _without_other(messages: tuple[Message, ...]) -> tuple[Message, ...] | None:
    return _with_section(
        messages, lambda s: s.name.startswith("Other solution"), _heading_only, last=True
    )


def _shorter_summary(messages: tuple[Message, ...]) -> tuple[Message, ...] | None:
    return _with_section(messages, lambda s: s.name == "What was learned so far", _end_only)


def _shorter_error(messages: tuple[Message, ...]) -> tuple[Message, ...] | None:
    return _with_section(messages, lambda s: s.name == "Error", _ends_only)


_WAYS: tuple[tuple[str, Callable[[tuple[Message, ...]], tuple[Message, ...] | None]], ...] = (
    ("the oldest {count} of the earlier attempts and ideas", _without_oldest),
    ("the oldest {count} exchanges of the conversation", _without_exchange),
    ("{count} other solutions", _without_other),
    ("the beginning of what was learned so far", _shorter_summary),
    ("the middle of the error", _shorter_error),
)


def _with_section(
    messages: tuple[Message, ...],
    wanted: Callable[[Section], bool],
    shorter: Callable[[Section], str | None],
    last: bool = False,
) -> tuple[Message, ...] | None:
    """With one section made shorter, or None if there is none that can be."""
    for i, message in enumerate(messages):
        if message.role != "user":
            continue
        parts = sections(message.content)
        for j, part in sorted(enumerate(parts), reverse=last):
            text = shorter(part) if wanted(part) else None
            if text is not None:
                whole = "".join(text if k == j else s.text for k, s in enumerate(parts))
                return messages[:i] + (replace(message, content=whole),) + messages[i + 1 :]
    return None


def _shorter_list(section: Section) -> str | None:
    lines = section.text.splitlines(keepends=True)
    starts = [i for i, line in enumerate(lines) if _ENTRY.match(line)]
    if not starts:
        return None
    head, counted = lines[: starts[0]], 0
    if head and (found := re.match(r"\((\d+) older ", head[-1])):
        counted, head = int(found[1]), head[:-1]
    end = starts[1] if len(starts) > 1 else starts[0] + _length(lines[starts[0] :])
    rest = lines[end:]
    if lines[starts[0]].startswith("[") and rest and rest[0].startswith("{"):
        rest[0] = f"[{rest[0]}"
    note = f"({counted + 1} older left out: the prompt would be too long.)\n"
    return "".join([*head, note, *rest])


def _length(lines: Sequence[str]) -> int:
    """Lines of the only entry: up to an empty one."""
    return next((i for i, line in enumerate(lines) if not line.strip()), len(lines))


def _heading_only(section: Section) -> str | None:
    text = f"## {section.name}\n(Left out: the prompt would be too long.)\n\n"
    return text if len(section.text) > len(text) else None


def _end_only(section: Section) -> str | None:
    heading, _, body = section.text.partition("\n")
    body = body.strip("\n")
    if len(body) <= _CUT_TO:
        return None
    return f"{heading}\n[...]{body[-_CUT_TO // 2 :]}\n\n"


def _ends_only(section: Section) -> str | None:
    heading, _, body = section.text.partition("\n")
    body = body.strip("\n")
    if len(body) <= _CUT_TO:
        return None
    end = _CUT_TO // 3
    return f"{heading}\n{body[:end]}\n[...]\n{body[-end:]}\n\n"
