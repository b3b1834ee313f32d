"""From the text of a reply to an Edit.

What cannot be understood without guessing raises EditError with a text a model can act on.
Not here: whether SEARCH lines exist (apply), asking for a repair (operators).
"""

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass

from fml_hydra.edits.form import (
    BARE_HEADER,
    CLOSE,
    DECORATED,
    DIVIDE,
    FENCE,
    OPEN,
    Edit,
    FileEdit,
    Replace,
)
from fml_hydra.edits.syntax import syntax_error
from fml_hydra.errors import EditError

PLAN_LIMIT = 2_000
"""Characters of prose kept as the plan."""

_THOUGHTS = 50
"""Thoughts dropped at most; more than a model has, few enough for a hostile reply."""
_FORMAT = "answer with `### FILE: path` and one fenced code block, or SEARCH/REPLACE blocks"


@dataclass(frozen=True)
class _Fence:
    at: int
    indent: int
    length: int
    bare: bool


# --- reading a reply ------------------------------------------------------------------------------


def parse_edit(reply: str, targets: Sequence[str]) -> Edit:
    """The edit `reply` asks for; raises EditError (`protected` for a path that is no target)."""
    lines = _without_thinking(reply.replace("\r\n", "\n")).split("\n")
    headers = _headers(lines)
    if not headers:
        return _parse_headless(lines, targets)
    first = headers[0][0]
    if any(OPEN.match(line) for line in lines[:first]):
        raise EditError("a SEARCH block stands before the first `### FILE: path`: name its file")
    parsed: dict[str, FileEdit] = {}
    ends = [at for at, _ in headers[1:]] + [len(lines)]
    for (at, name), end in zip(headers, ends, strict=True):
        path = _target(name, targets)
        section = _parse_section(lines[at + 1 : end], path)
        parsed[path] = _merged(parsed[path], section) if path in parsed else section
    return Edit(tuple(parsed.values()), _plan(lines[:first]))


def _parse_headless(lines: list[str], targets: Sequence[str]) -> Edit:
    start = next((i for i, line in enumerate(lines) if _starts_code(line)), None)
    if start is None:
        raise EditError(f"the reply holds no code: {_FORMAT}")
    if len(targets) != 1:
        raise EditError(
            f"the reply does not say which file it changes ({', '.join(targets)}): {_FORMAT}"
        )
    return Edit((_parse_section(lines, targets[0]),), _plan(lines[:start]))


def _without_thinking(text: str) -> str:
    """`text` without thinking before its first code; some servers swallow the opening tag."""
    for _ in range(_THOUGHTS):
        head, opened, rest = text.partition("<think>")
        if not opened or _has_code(head):
            break
        text = head + rest.partition("</think>")[2]
    head, closed, rest = text.partition("</think>")
    return rest if closed and not _has_code(head) else text


def _has_code(text: str) -> bool:
    return any(_starts_code(line) for line in text.split("\n"))


def _starts_code(line: str) -> bool:
    return bool(FENCE.match(line) or OPEN.match(line))


def _next_text(lines: list[str], start: int) -> str:
    """The first line from `start` on that is not blank."""
    return next((lines[at] for at in range(start, len(lines)) if lines[at].strip()), "")


def _plan(lines: list[str]) -> str:
    return "\n".join(lines).strip()[:PLAN_LIMIT].strip()


def _headers(lines: list[str]) -> list[tuple[int, str]]:
    """(line, path as written) of each file header that is not part of some code."""
    found: list[tuple[int, str]] = []
    fence, in_block = 0, False
    for at, line in enumerate(lines):
        mark = FENCE.match(line)
        if in_block:
            in_block = not CLOSE.match(line)
        elif OPEN.match(line) and fence <= 3:
            in_block = True
        elif mark and (not fence or (len(mark[2]) >= fence and not mark[3].strip())):
            fence = 0 if fence else len(mark[2])
        elif name := _header(lines, at, fence):
            found.append((at, name))
            fence = 0
    return found


def _header(lines: list[str], at: int, fence: int) -> str:
    """The path if line `at` is a header; inside an open fence only when code follows at once."""
    decorated, bare = DECORATED.match(lines[at]), BARE_HEADER.match(lines[at])
    name = decorated or bare
    if not name:
        return ""
    following = _next_text(lines, at + 1)
    mark = FENCE.match(following)
    if mark:  # a bare fence after an open one closes it
        code_follows = not fence or (len(mark[2]) >= fence and bool(mark[3].strip()))
    else:
        code_follows = bool(OPEN.match(following)) and fence <= 3
    return name[1] if code_follows or (decorated and not fence) else ""


def _target(name: str, targets: Sequence[str]) -> str:
    """The target `name` means, by its exact normalised path; never by its last component."""
    written = name.strip("*`'\": ").replace("\\", "/")
    path = posixpath.normpath(written) if written else ""
    known = {posixpath.normpath(target): target for target in targets}
    inside = ".." not in written.split("/") and not posixpath.isabs(written)
    for candidate in (path, path[2:] if path[:2] in ("a/", "b/") else path):
        if inside and candidate in known:
            return known[candidate]
    raise EditError(
        f"{written or 'a file without a name'} may not be edited; the files to edit are: "
        + ", ".join(targets),
        status="protected",
    )


def _parse_section(lines: list[str], path: str) -> FileEdit:
    """The edit in the lines that follow a header."""
    start = next((i for i, line in enumerate(lines) if _starts_code(line)), None)
    if start is None:
        raise EditError(f"no code follows the header of {path}: {_FORMAT}")
    after = _next_text(lines, start + 1)
    if OPEN.match(lines[start]) or OPEN.match(after):
        return FileEdit(path, None, _parse_blocks(lines, path))
    return FileEdit(path, _parse_whole(lines, path), ())


def _merged(first: FileEdit, second: FileEdit) -> FileEdit:
    if first.whole is not None or second.whole is not None:
        raise EditError(
            f"{first.path} is given more than once; give it one whole file or only blocks"
        )
    return FileEdit(first.path, None, first.blocks + second.blocks)


# --- whole files ----------------------------------------------------------------------------------


def _parse_whole(lines: list[str], path: str) -> str:
    fences = _fences(lines)
    first = fences[0]
    inner = [fence for fence in fences[1:] if fence.indent <= first.indent]
    closing = [f for f in inner if f.bare and f.length >= first.length]
    if not closing or inner[-1].at > closing[-1].at:
        raise EditError(f"the code block of {path} is not closed: the reply may have been cut off")
    last = closing[-1].at
    if any(OPEN.match(line) for line in lines[last + 1 :]):
        raise EditError(f"{path} has both a whole file and SEARCH/REPLACE blocks: choose one")
    text = "\n".join([*lines[first.at + 1 : last], ""])
    longer = [f for f in inner if f.length >= first.length]
    if _closes_early(longer) and not (path.endswith(".py") and not syntax_error({path: text})):
        raise EditError(f"several code blocks for {path}: give exactly one with the whole file")
    return text


def _closes_early(fences: list[_Fence]) -> bool:
    """Whether the block that is open before `fences` can end before the last of them."""
    depth = 1
    for fence in fences[:-1]:
        depth += -1 if fence.bare else 1
        if depth == 0:
            return True
    return False


def _fences(lines: list[str]) -> list[_Fence]:
    marks = ((at, FENCE.match(line)) for at, line in enumerate(lines))
    return [_Fence(at, len(m[1]), len(m[2]), not m[3].strip()) for at, m in marks if m]


# --- SEARCH/REPLACE blocks ------------------------------------------------------------------------


def _parse_blocks(lines: list[str], path: str) -> tuple[Replace, ...]:
    blocks: list[Replace] = []
    fence, at = 0, 0
    while at < len(lines):
        mark = FENCE.match(lines[at])
        if opened := OPEN.match(lines[at]):
            end = _block_end(lines, at, len(opened[1]), path)
            blocks.append(_block(lines[at + 1 : end], len(opened[1]), path))
            at = end
        elif mark and (not fence or (len(mark[2]) >= fence and not mark[3].strip())):
            fence = 0 if fence else len(mark[2])
        elif DIVIDE.match(lines[at]) or CLOSE.match(lines[at]):
            raise EditError(f"a SEARCH/REPLACE block of {path} has no `<<<<<<< SEARCH` line")
        elif fence and lines[at].strip():
            raise EditError(f"{path} has code outside its SEARCH/REPLACE blocks: choose one form")
        at += 1
    if fence:
        raise EditError(f"a code block of {path} is not closed: the reply may have been cut off")
    return tuple(blocks)


def _block_end(lines: list[str], start: int, length: int, path: str) -> int:
    """The closing line: the next one as long as the opening line, else the next of any length."""
    others: list[int] = []
    for at in range(start + 1, len(lines)):
        opened, closed = OPEN.match(lines[at]), CLOSE.match(lines[at])
        if opened and (others or len(opened[1]) == length):
            break
        if closed and len(closed[1]) == length:
            return at
        if closed:
            others.append(at)
    if not others:
        raise EditError(f"a SEARCH/REPLACE block of {path} is not finished by `>>>>>>> REPLACE`")
    return others[0]


def _block(body: list[str], length: int, path: str) -> Replace:
    dividers = [(at, len(m[1])) for at, line in enumerate(body) if (m := DIVIDE.match(line))]
    same = [at for at, size in dividers if size == length] or [at for at, _ in dividers]
    if len(same) != 1:
        raise EditError(
            f"a SEARCH/REPLACE block of {path} has {len(same)} `=======` lines instead of one"
            + (
                "; use longer marks, nine of each, if the code itself has such a line"
                if same
                else ""
            )
        )
    return Replace("\n".join(body[: same[0]]), "\n".join(body[same[0] + 1 :]))
