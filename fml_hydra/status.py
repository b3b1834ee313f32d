"""What a run is doing now, as a small file others can look at: the progress display reads it.

Written by the run, whichever process it is in; the truth remains the journal.
"""

import json
import os
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from fml_hydra.files import replace_json


@dataclass
class CellStatus:
    """One cell of a sweep as people see it."""

    task: str
    agent: str
    llm: str
    seed: int
    state: str = "running"
    """running, finished, skipped, interrupted, infra or failed."""
    doing: str = "starting"
    """What takes time now."""
    message: str = ""
    """Why it failed, or a notice; one line."""
    folder: str = ""
    """The run's folder."""
    row: dict[str, Any] = field(default_factory=dict)
    """The run's summary as far as it is known."""
    began: float = field(default_factory=time.time)
    """When the cell began, seconds since the epoch."""
    pid: int = field(default_factory=os.getpid)
    """Process that works on it."""


def write_status(path: Path, status: CellStatus) -> None:
    """Replace the status file at once, so that a reader never sees half of it."""
    replace_json(path, asdict(status))


def read_statuses(folder: Path) -> list[CellStatus]:
    """All cells of a sweep, in the order of their numbers."""
    paths = sorted(folder.glob("*.json"), key=lambda p: (len(p.name), p.name))
    return [CellStatus(**json.loads(p.read_text())) for p in paths]
