"""Reads a prompt as the offline program needs it: the files shown, and the sections by heading.

Not here: what to answer (offline), how prompts are written (conf/prompt).
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from fml_hydra.edits import parse_edit
from fml_hydra.errors import EditError
from fml_hydra.llm.base import Message, Request
from fml_hydra.replies import parse_object

_HEADING = re.compile(r"^## (?!FILE)(\w[\w ]*?) *$")
_FENCE = re.compile(r"^ {0,3}(`{3,})(.*)$")
_FILE = re.compile(r"^### FILE: (.+)$", re.MULTILINE)
_OTHER = re.compile(r"Other solution\b")
_NAME = re.compile(r'"Name"\s*:\s*"([^"]*)"')


@dataclass(frozen=True)
class Asked:
    """What a request shows and wants."""

    files: Mapping[str, str]
    """Text of each file shown; empty when there is none, or none that can be read."""
    sections: Mapping[str, str]
    """Text under each `## Heading` of the message that shows the files; the last one counts, and
    an error or an idea only below the files."""
    whole_files: bool
    """Whether the answer must give whole files."""
    said: str
    """The last answer in the conversation, or nothing."""
    latest: str
    """The last message."""

    @property
    def others(self) -> list[Mapping[str, str]]:
        """Files of each further solution shown, in order."""
        found = [_files(text) for name, text in self.sections.items() if _OTHER.match(name)]
        return [files for files in found if files]

    @property
    def idea(self) -> str:
        """Name of the idea to be implemented, or nothing."""
        found = parse_object(self.sections.get("Idea", "")) or {}
        return str(found.get("Name", ""))

    @property
    def earlier_ideas(self) -> frozenset[str]:
        """Names of the ideas that were had before."""
        return frozenset(_NAME.findall(self.sections.get("Earlier ideas", "")))


def read_request(request: Request) -> Asked:
    """What `request` shows and wants; never fails."""
    users = [message for message in request.messages if message.role == "user"]
    shown = next((m.content for m in reversed(users) if _FILE.search(m.content)), "")
    sections = _counted(list(_sections(shown or (users[-1].content if users else ""))))
    form = sections.get("Answer format", "")
    return Asked(
        files=_files(sections.get("Files", shown)),
        sections=sections,
        whole_files=bool(form) and "SEARCH" not in form,
        said=_last(request.messages, "assistant"),
        latest=_last(request.messages, "user"),
    )


def _last(messages: Sequence[Message], role: str) -> str:
    return next((m.content for m in reversed(messages) if m.role == role), "")


def _counted(sections: list[tuple[str, str]]) -> dict[str, str]:
    """The last section of each heading; a task's description may have an `## Error` of its own."""
    names = [name for name, _ in sections]
    files = len(names) - names[::-1].index("Files") if "Files" in names else 0
    late = {"Error", "Idea"}
    return {
        name: body for at, (name, body) in enumerate(sections) if name not in late or at >= files
    }


def _sections(text: str) -> Iterator[tuple[str, str]]:
    """(heading, text below it); headings inside fenced code are code."""
    heading, body, fence = "", list[str](), 0
    for line in text.split("\n"):
        mark = _FENCE.match(line)
        if mark and (not fence or (len(mark[1]) >= fence and not mark[2].strip())):
            fence = 0 if fence else len(mark[1])
        if (found := _HEADING.match(line)) and not fence:
            yield heading, "\n".join(body)
            heading, body = found[1], []
        else:
            body.append(line)
    yield heading, "\n".join(body)


def _files(text: str) -> dict[str, str]:
    try:
        edit = parse_edit(text, _FILE.findall(text))
    except EditError:
        return {}
    return {change.path: change.whole for change in edit.files if change.whole is not None}
