"""Which of a task's ideas are in some files, which still apply, and how to take one out. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from fml_hydra.edits import Edit, FileEdit, Replace, apply_edit
from fml_hydra.errors import EditError
from fml_hydra.ideas import Idea

Files = Mapping[str, str]


@dataclass(frozen=True)
class Catalogue:
    """A task's ideas beside the files that are shown."""

    ideas: tuple[Idea, ...]
    """All of them."""
    files: Files
    """The files shown."""

    @property
    def open(self) -> list[Idea]:
        """Ideas that apply and are not in yet."""
        return [i for i in self.ideas if added(i, self.files) and not holds(i, self.files)]

    @property
    def present(self) -> list[Idea]:
        """Ideas that are in and can be taken out."""
        return [i for i in self.ideas if holds(i, self.files) and removed(i, self.files)]

    def named(self, name: str) -> Idea | None:
        """The idea with this id."""
        return next((idea for idea in self.ideas if idea.id == name), None)


def added(idea: Idea, files: Files) -> dict[str, str] | None:
    """`files` with the idea, or None when it does not apply or changes nothing."""
    return _applied(idea.edit, files)


def removed(idea: Idea, files: Files) -> dict[str, str] | None:
    """`files` without the idea, or None when it cannot be told how they were."""
    if any(change.whole is not None for change in idea.edit.files):
        return None
    reverse = tuple(
        FileEdit(c.path, None, tuple(Replace(b.replace, b.search) for b in reversed(c.blocks)))
        for c in idea.edit.files
    )
    return _applied(Edit(reverse, ""), files)


def holds(idea: Idea, files: Files) -> bool:
    """Whether the files have the idea, or most of it where its numbers were changed since."""
    lines = [line for line in new_lines(idea) if len(line) > 5]
    if added(idea, files) and (_old_lines(idea) or not lines):
        return False  # what it replaces is still there
    have = {line.strip() for text in files.values() for line in text.split("\n")}
    share = sum(line in have for line in lines) / max(1, len(lines))
    return not lines or share == 1.0 or (share >= 0.5 and len(lines) >= 3)


def new_lines(idea: Idea) -> list[str]:
    """The lines, stripped, that the idea brings in."""
    return [line for search, replace in _pairs(idea) for line in _minus(replace, search)]


def _old_lines(idea: Idea) -> list[str]:
    return [line for search, replace in _pairs(idea) for line in _minus(search, replace)]


def _pairs(idea: Idea) -> list[tuple[str, str]]:
    return [
        pair
        for change in idea.edit.files
        for pair in [(b.search, b.replace) for b in change.blocks] or [("", change.whole or "")]
    ]


def _minus(text: str, other: str) -> list[str]:
    known = {line.strip() for line in other.split("\n")} | {""}
    return [line.strip() for line in text.split("\n") if line.strip() not in known]


def _applied(edit: Edit, files: Files) -> dict[str, str] | None:
    try:
        after = apply_edit(edit, files)
    except EditError:
        return None
    return None if after == dict(files) else after
