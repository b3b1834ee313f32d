"""Content hashes of files, folders and plain values, equal on every machine."""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def file_hash(path: Path) -> str:
    """SHA-256 of a file's bytes, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def tree_hash(folder: Path, leave_out: Iterable[str] = ()) -> str:
    """SHA-256 over relative paths and contents of a folder, in hex.

    `leave_out` are names of top-level entries; compiled Python files never count.
    """
    skip = {*leave_out, "__pycache__"}
    lines = [
        f"{path.relative_to(folder).as_posix()} {file_hash(path)}"
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        and path.relative_to(folder).parts[0] not in skip
        and "__pycache__" not in path.parts
    ]
    return text_hash("\n".join(lines))


def text_hash(text: str) -> str:
    """SHA-256 of a text, in hex."""
    return hashlib.sha256(text.encode()).hexdigest()


def value_hash(value: Any) -> str:
    """SHA-256 of a plain value (dicts, lists, numbers, strings), independent of key order."""
    return text_hash(json.dumps(value, sort_keys=True, ensure_ascii=False, default=str))
