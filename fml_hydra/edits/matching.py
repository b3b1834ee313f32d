"""Finds the one place in a text that quoted lines mean, and puts other lines there.

An exact match of whole lines wins; then trailing white space is ignored; then a common shift of
the indentation. Not here: the format of replies (parse).
"""

import difflib
import os
from collections import Counter
from collections.abc import Callable

from fml_hydra.errors import EditError

_WIDTH = 200
"""Characters of a line that count when close lines are looked for; keeps difflib from freezing."""


def line_end(text: str) -> str:
    """The line end most lines of `text` have."""
    return "\r\n" if 2 * text.count("\r\n") > text.count("\n") else "\n"


def replace_once(text: str, search: str, replace: str, path: str) -> str:
    """`text` (of `path`) with the only occurrence of the lines `search` replaced by `replace`.

    Untouched lines keep their bytes. Raises EditError unless there is exactly one place.
    """
    want, put = _lines(search), _lines(replace) if replace else []
    if not search.strip():
        raise EditError(f"a SEARCH of {path} is empty: quote the lines to replace")
    final = "\n" if text.endswith("\n") else ""
    raw = text.removesuffix("\n").split("\n")
    have = [line.removesuffix("\r") for line in raw]
    at, shifted = _place(have, want, path)
    if shifted:
        put = _reindented(put, _margin(want), _margin(have[at : at + len(want)]))
    ending = line_end(text).removesuffix("\n")
    lines = [*raw[:at], *(line + ending for line in put), *raw[at + len(want) :]]
    joined = "\n".join(lines)
    return joined + final if final else joined.removesuffix("\r")


def _lines(text: str) -> list[str]:
    return text.replace("\r\n", "\n").split("\n")


def _place(have: list[str], want: list[str], path: str) -> tuple[int, bool]:
    """(index of the only match, whether its indentation is shifted)."""
    for fold in (list[str], _trimmed, _dedented):
        found = _matches(have, want, fold)
        if len(found) > 1:
            lines = ", ".join(str(at + 1) for at in found[:5]) + (", ..." if found[5:] else "")
            raise EditError(
                f"SEARCH matches {len(found)} places of {path} (lines {lines}); "
                "quote more lines around it, so that it matches once:\n" + "\n".join(want[:10])
            )
        if found:
            return found[0], fold is _dedented
    raise EditError(f"SEARCH matches no lines of {path}. {_closest(have, want)}")


def _matches(have: list[str], want: list[str], fold: Callable[[list[str]], list[str]]) -> list[int]:
    size, key = len(want), fold(want)
    count = Counter(line.strip() for line in have)
    anchor = min((i for i in range(size) if want[i].strip()), key=lambda i: count[want[i].strip()])
    rarest = want[anchor].strip()
    return [
        at
        for at in range(len(have) - size + 1)
        if have[at + anchor].strip() == rarest and fold(have[at : at + size]) == key
    ]


def _trimmed(lines: list[str]) -> list[str]:
    return [line.rstrip() for line in lines]


def _dedented(lines: list[str]) -> list[str]:
    margin = len(_margin(lines))
    return [line[margin:].rstrip() for line in lines]


def _margin(lines: list[str]) -> str:
    """The white space that every line with text begins with."""
    return os.path.commonprefix([ln[: len(ln) - len(ln.lstrip())] for ln in lines if ln.strip()])


def _reindented(lines: list[str], old: str, new: str) -> list[str]:
    """`lines`, which were written for margin `old`, moved to margin `new`."""
    moved = []
    for line in lines:
        body = line.lstrip()
        own = line[: len(line) - len(body)]
        if own.startswith(old):
            own = new + own[len(old) :]
        else:  # further left than the quoted lines: shifted by the same number of columns
            own = (new + own)[: max(0, len(own) + len(new) - len(old))]
        moved.append(own + body if body else line)
    return moved


def _closest(have: list[str], want: list[str]) -> str:
    """The lines that resemble `want` most, found by its most telling line."""
    anchor = max(range(len(want)), key=lambda i: len(want[i].strip()[:_WIDTH]))
    short = [line.strip()[:_WIDTH] for line in have]
    close = difflib.get_close_matches(want[anchor].strip()[:_WIDTH], set(short) - {""}, 1, 0.5)
    if not close:
        return f"No line there resembles `{want[anchor].strip()[:_WIDTH]}`."
    at = short.index(close[0]) - anchor
    window = range(max(0, at - 1), min(len(have), at + min(len(want), 20) + 1))
    shown = "\n".join(f"{i + 1:5d} | {have[i][:_WIDTH]}" for i in window)
    return f"The closest lines there are:\n{shown}"
