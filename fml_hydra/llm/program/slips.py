"""The mistakes a language model makes when it writes an edit, made on purpose. Pure.

Each kind ends in the status named beside it. Not here: how often they happen (offline).
"""

import ast
import builtins
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from difflib import SequenceMatcher
from random import Random
from typing import Literal

from fml_hydra.edits import (
    Edit,
    FileEdit,
    Replace,
    apply_edit,
    edit_between,
    render_edit,
    syntax_error,
    syntax_tree,
)
from fml_hydra.errors import EditError
from fml_hydra.llm.program.moves import Move

Slip = Literal["name", "bracket", "search", "no_code", "wrong_file", "unchanged"]
"""name: a misspelt identifier (crash, if it is reached); bracket: a missing one (syntax); search:
lines that are not in the file (edit_failed); no_code: only the plan (edit_failed); wrong_file: a
file that is no target (protected); unchanged: the file as it was (noop)."""

Files = Mapping[str, str]


def written(move: Move, before: Files, whole: bool) -> str:
    """The reply that makes `move`, without a mistake."""
    edit = edit_between(before, move.files, move.plan)
    return render_edit(_in_whole(edit, move.files) if whole else edit)


def slipped(kind: Slip, move: Move, before: Files, whole: bool, rng: Random) -> str:
    """The reply that means to make `move`, with a mistake; only a plan where `kind` cannot be."""
    edit = edit_between(before, move.files, move.plan)
    edit = _in_whole(edit, move.files) if whole else edit
    if kind == "wrong_file":
        return render_edit(_renamed(edit, before))
    if kind == "unchanged":
        return render_edit(_unchanged(edit, before))
    if kind == "search" and (misquoted := _misquoted(edit, before)):
        return render_edit(misquoted)
    broken = _broken(kind, move.files, before, rng)
    if broken:
        return written(Move(broken, move.plan), before, whole)
    return f"{move.plan} I would change {', '.join(change.path for change in edit.files)}."


def _in_whole(edit: Edit, after: Files) -> Edit:
    return Edit(tuple(FileEdit(c.path, after[c.path], ()) for c in edit.files), edit.plan)


def _renamed(edit: Edit, before: Files) -> Edit:
    def other(path: str) -> str:
        return next(new for new in (f"src/{path}", f"src/new_{path}") if new not in before)

    return Edit(tuple(replace(c, path=other(c.path)) for c in edit.files), edit.plan)


def _unchanged(edit: Edit, before: Files) -> Edit:
    def same(change: FileEdit) -> FileEdit:
        if change.whole is not None:
            return replace(change, whole=before[change.path])
        return replace(change, blocks=tuple(Replace(b.search, b.search) for b in change.blocks))

    return Edit(tuple(same(change) for change in edit.files), edit.plan)


def _misquoted(edit: Edit, before: Files) -> Edit | None:
    """The edit with a line in its first SEARCH that is not in the file."""
    first, *rest = edit.files
    if not first.blocks:
        return None
    block = first.blocks[0]
    wrong = Replace(f"{block.search}\n# end of the part to change", block.replace)
    wrong_edit = Edit((replace(first, blocks=(wrong, *first.blocks[1:])), *rest), edit.plan)
    try:
        apply_edit(wrong_edit, before)
    except EditError:
        return wrong_edit
    return None


def _broken(kind: Slip, after: Files, before: Files, rng: Random) -> dict[str, str] | None:
    """`after` with a misspelt name or without a bracket, on a changed line if there is one."""
    if kind not in ("name", "bracket"):
        return None
    change: Callable[[str, set[int], Random], str | None] = (
        _misspelt if kind == "name" else _unclosed
    )
    for path in after:
        if path.endswith(".py") and after[path] != before[path]:
            broken = change(after[path], _changed_lines(before[path], after[path]), rng)
            if broken is not None:
                return {**after, path: broken}
    return None


def _changed_lines(before: str, after: str) -> set[int]:
    """Line numbers, from 1, that are new in `after`."""
    matcher = SequenceMatcher(None, before.split("\n"), after.split("\n"), autojunk=False)
    codes = [code for code in matcher.get_opcodes() if code[0] != "equal"]
    return {line + 1 for code in codes for line in range(code[3], code[4])}


def _misspelt(text: str, changed: set[int], rng: Random) -> str | None:
    """One letter of a used name left out; the rest of the file is untouched."""
    try:
        nodes = list(ast.walk(syntax_tree(text)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    taken = {*re.findall(r"\w+", text), *dir(builtins)}
    uses = [n for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)]
    uses = [n for n in uses if len(n.id) >= 4 and n.id.isascii() and n.id not in dir(builtins)]
    near = [n for n in uses if n.lineno in changed] or uses
    for node in rng.sample(near, len(near)):
        cut = rng.randrange(1, len(node.id))
        wrong = node.id[:cut] + node.id[cut + 1 :]
        if wrong not in taken:
            return _at(text, node, wrong)
    return None


def _at(text: str, node: ast.Name, new: str) -> str:
    lines = text.split("\n")
    raw = lines[node.lineno - 1].encode()  # columns are counted in bytes
    end = node.col_offset + len(node.id)
    lines[node.lineno - 1] = (raw[: node.col_offset] + new.encode() + raw[end:]).decode()
    return "\n".join(lines)


def _unclosed(text: str, changed: set[int], rng: Random) -> str | None:
    """The last closing bracket of a line left out, so that the file does not compile."""
    lines = text.split("\n")
    places = [at for at, line in enumerate(lines) if re.search(r"[)\]}]", line)]
    near = [at for at in places if at + 1 in changed]
    for at in [*rng.sample(near, len(near)), *rng.sample(places, len(places))]:
        cut = max(lines[at].rfind(bracket) for bracket in ")]}")
        line = lines[at][:cut] + lines[at][cut + 1 :]
        broken = "\n".join([*lines[:at], line, *lines[at + 1 :]])
        if syntax_error({"m.py": broken}):
            return broken
    return None
