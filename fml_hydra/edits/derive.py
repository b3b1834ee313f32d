"""The edit that turns one set of files into another: SEARCH/REPLACE blocks that match once.

Not here: writing it down (render).
"""

from collections.abc import Mapping
from difflib import SequenceMatcher

from fml_hydra.edits.apply import apply_edit
from fml_hydra.edits.form import Edit, FileEdit, Replace
from fml_hydra.errors import EditError

_CONTEXT = 8
"""Unchanged lines tried around a change before the whole file is given instead."""


def edit_between(before: Mapping[str, str], after: Mapping[str, str], plan: str = "") -> Edit:
    """The smallest edit found that makes `before` into `after` (the same paths)."""
    changed = [path for path in before if after[path] != before[path]]
    return Edit(tuple(_change(path, before[path], after[path]) for path in changed), plan)


def _change(path: str, before: str, after: str) -> FileEdit:
    old, new = (text.removesuffix("\n").split("\n") for text in (before, after))
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    for context in range(_CONTEXT + 1):
        blocks = [
            Replace(
                "\n".join(old[group[0][1] : group[-1][2]]),
                "\n".join(new[group[0][3] : group[-1][4]]),
            )
            for group in matcher.get_grouped_opcodes(context)
        ]
        change = FileEdit(path, None, tuple(blocks))
        try:  # blocks are applied one after the other, so only applying them shows that they match
            if apply_edit(Edit((change,), ""), {path: before})[path] == after:
                return change
        except EditError:
            continue
    return FileEdit(path, after, ())
