"""An append-only file of JSON lines that survives a kill and a full disk.

Each record is one line, on disk before `append` returns. A torn last line (the process died while
writing) is dropped on opening; any other damage is an error that names the line. Knows nothing of
what the records mean.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fml_hydra.errors import InfraError, JournalError

Record = dict[str, Any]


class JsonLines:
    """One append-only file; a single writer at a time (the run's lock sees to that)."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.records, intact = read_records(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        os.ftruncate(self._fd, intact)

    def append(self, record: Mapping[str, Any]) -> None:
        """Write one record and wait until it is on disk; raises InfraError when it cannot be."""
        line = json.dumps(record, allow_nan=False).encode() + b"\n"
        size = os.fstat(self._fd).st_size
        try:
            _write_all(self._fd, line)
            os.fdatasync(self._fd) if hasattr(os, "fdatasync") else os.fsync(self._fd)
        except OSError as error:
            os.ftruncate(self._fd, size)
            raise InfraError(f"{self.path}: cannot be written ({error.strerror})") from error
        self.records.append(dict(record))

    def close(self) -> None:
        """Close the file; appending is over."""
        fd, self._fd = self._fd, -1  # a late writer must not hit another file that got its number
        os.close(fd)


def read_records(path: Path) -> tuple[list[Record], int]:
    """All intact records of `path` and the number of bytes they fill; a missing file has none."""
    data = path.read_bytes() if path.exists() else b""
    records: list[Record] = []
    intact = 0
    lines = data.split(b"\n")
    for number, line in enumerate(lines[:-1], start=1):
        record = _decoded(line)
        if record is None and data[intact + len(line) + 1 :].strip():
            raise JournalError(f"{path}:{number}: not a JSON object; restore the file from a copy")
        if record is None:
            break
        records.append(record)
        intact += len(line) + 1
    return records, intact


def _decoded(line: bytes) -> Record | None:
    try:
        value = json.loads(line)
    except (ValueError, UnicodeDecodeError):
        return None
    return value if isinstance(value, dict) else None


def _write_all(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]
