"""A run's `calls.jsonl` as it grows: which calls each step made. Not here: how they are shown."""

import json
from pathlib import Path

from fml_hydra.calls import step_of
from fml_hydra.errors import InfraError
from fml_hydra.jsonl import Record


class Exchanges:
    """Where in the file each step's calls stand; read again only where it has grown."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._end = 0
        self._places: dict[int, list[tuple[int, int]]] = {}

    def made(self) -> dict[int, int]:
        """How many calls each step has made so far, those of its proposal included."""
        self._look()
        return {step: len(places) for step, places in self._places.items()}

    def of(self, step: int) -> list[Record]:
        """The calls of a step, in the order of their answers."""
        with self._path.open("rb") as file:
            records = []
            for start, length in self._places.get(step, []):
                file.seek(start)
                records.append(json.loads(file.read(length)))
        return records

    def _look(self) -> None:
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            file.seek(self._end)
            for line in file:
                if not line.endswith(b"\n"):
                    return  # still being written, or torn
                self._places.setdefault(self._step(line), []).append((self._end, len(line)))
                self._end += len(line)

    def _step(self, line: bytes) -> int:
        try:
            return step_of(json.loads(line)["key"])
        except (ValueError, KeyError, TypeError) as error:
            raise InfraError(f"{self._path}: byte {self._end} is not a recorded call") from error
