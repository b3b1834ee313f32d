"""New file contents from an Edit. Not here: writing to disk, finding SEARCH lines (matching)."""

import re
from collections.abc import Mapping

from fml_hydra.edits.form import Edit, FileEdit
from fml_hydra.edits.matching import line_end, replace_once
from fml_hydra.errors import EditError

SIZE_LIMIT = 1_000_000
"""Bytes a target file may have after an edit."""

_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f]")


def apply_edit(edit: Edit, files: Mapping[str, str]) -> dict[str, str]:
    """All of `files` as they are after `edit`; raises EditError, never changes its arguments.

    A file keeps its own line ends, its byte order mark and whether it ends with a newline.
    """
    result = dict(files)
    for change in edit.files:
        if change.path not in result:
            raise EditError(
                f"{change.path} may not be edited or created; the files are: " + ", ".join(files),
                status="protected",
            )
        result[change.path] = _checked(_applied(change, result[change.path]), change.path)
    return result


def _applied(change: FileEdit, before: str) -> str:
    mark = "\ufeff" if before.startswith("\ufeff") else ""
    text = before[len(mark) :]
    if change.whole is None:
        for block in change.blocks:
            text = replace_once(text, block.search, block.replace, change.path)
        return mark + text
    whole = change.whole.removeprefix("\ufeff").replace("\r\n", "\n")
    if text and not text.endswith("\n"):
        whole = whole.removesuffix("\n")
    return (
        before
        if whole == text.replace("\r\n", "\n")
        else mark + whole.replace("\n", line_end(text))
    )


def _checked(text: str, path: str) -> str:
    if not text.replace("\ufeff", "").strip():
        raise EditError(
            f"the edit would leave {path} empty; files can be neither emptied nor deleted"
        )
    if _CONTROL.search(text):
        raise EditError(f"the edit would put binary data (control characters) into {path}")
    try:
        size = len(text.encode("utf-8"))
    except UnicodeEncodeError as error:
        raise EditError(
            f"the edit would put text into {path} that is not UTF-8: {error}"
        ) from error
    if size > SIZE_LIMIT:
        raise EditError(f"{path} would have {size:,} bytes; the limit is {SIZE_LIMIT:,}")
    return text
