"""Files, edits and differences as text. What is written here, `parse` reads.

Not here: prompts (conf/prompt).
"""

import difflib
import posixpath
import re
from collections.abc import Mapping

from fml_hydra.edits.form import BARE_HEADER, CLOSE, DECORATED, DIVIDE, OPEN, Edit, Replace

_LANGUAGES = {".py": "python", ".yaml": "yaml", ".yml": "yaml", ".json": "json"}


def render_files(files: Mapping[str, str], whole_limit: int = 500) -> str:
    """`files` as a prompt shows them; with a note if one has over `whole_limit` lines."""
    parts = []
    for path, text in files.items():
        count = text.count("\n") + (not text.endswith("\n"))
        note = (
            f"({count} lines: change it with SEARCH/REPLACE blocks)\n"
            if count > whole_limit
            else ""
        )
        parts.append(f"### FILE: {path}\n{note}{_fenced(path, text)}")
    return "\n".join(parts)


def render_edit(edit: Edit) -> str:
    """A reply that `parse_edit` reads as `edit` again."""
    parts = [edit.plan] if edit.plan else []
    for change in edit.files:
        if change.whole is None:
            blocks = "\n".join(_rendered_block(block) for block in change.blocks)
            body = f"```\n{blocks}\n```\n"
        else:
            body = _fenced(change.path, change.whole)
        parts.append(f"### FILE: {change.path}\n{body}")
    return "\n\n".join(parts)


def _rendered_block(block: Replace) -> str:
    body = f"{block.search}\n{block.replace}".split("\n")
    marks = [m for line in body for m in (OPEN.match(line), DIVIDE.match(line), CLOSE.match(line))]
    taken = {len(m[1]) for m in marks if m}
    size = next((size for size in (7, 8, 9, 6, 5) if size not in taken), 7)
    put = [block.replace] if block.replace else []
    lines = [f"{'<' * size} SEARCH", block.search, "=" * size, *put, f"{'>' * size} REPLACE"]
    return "\n".join(lines)


def _fenced(path: str, text: str) -> str:
    """`text` in a fence longer than any fence inside, and longer still if it looks like a reply."""
    lines = text.split("\n")
    inside = [len(found[1]) for line in lines if (found := re.match(r"\s*(`{3,})", line))]
    marks = any(mark.match(line) for line in lines for mark in (DECORATED, BARE_HEADER, OPEN))
    fence = "`" * max([4 if marks else 3, *(size + 1 for size in inside)])
    language = _LANGUAGES.get(posixpath.splitext(path)[1], "")
    body = text.removesuffix("\n")
    return f"{fence}{language}\n{body}\n{fence}\n"


def diff(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """Unified diff of two sets of files, in the form `git apply` reads."""
    parts: list[str] = []
    for path in sorted({*before, *after}):
        old, new = _kept_lines(before.get(path, "")), _kept_lines(after.get(path, ""))
        names = (
            f"a/{path}" if path in before else "/dev/null",
            f"b/{path}" if path in after else "/dev/null",
        )
        for line in difflib.unified_diff(old, new, *names):
            parts.append(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n")
    return "".join(parts)


def _kept_lines(text: str) -> list[str]:
    return re.findall(r"[^\n]*\n|[^\n]+", text)
