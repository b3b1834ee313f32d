"""What was computed from a run's journal, kept beside the runs: the second load only looks it up.

A key names the run, when it ended, and what computes the tables, so that nothing here grows old:
a run that was gone on with has another end. Delete the folder at any time.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from fml_hydra import __version__
from fml_hydra.analysis.rows import RunRow, StepRow
from fml_hydra.files import replace_json
from fml_hydra.hashing import value_hash

FORMAT = 1
"""Raised when a formula changes; other columns are noticed by themselves."""
_MAKER = value_hash(
    [FORMAT, __version__, [f.name for kind in (RunRow, StepRow) for f in fields(kind)]]
)[:8]


@dataclass(frozen=True)
class Entry:
    """The cached tables of one run as it was at one time."""

    folder: Path
    """Where they are, or will be."""

    @classmethod
    def of(cls, root: Path, run_id: str, ended: int) -> "Entry":
        """The place for a run that ended at `ended` (milliseconds since the epoch)."""
        return cls(root / "analysis" / f"{run_id}-{ended}-{_MAKER}")

    def run(self) -> RunRow | None:
        """The run's row; None if it is not there."""
        try:
            return RunRow(**json.loads((self.folder / "run.json").read_text()))
        except (OSError, ValueError, TypeError):
            return None

    def steps(self) -> list[dict[str, Any]] | None:
        """The fields of its steps' rows; None if they are not there."""
        try:
            return list(json.loads((self.folder / "steps.json").read_text()))
        except (OSError, ValueError):
            return None

    def keep(self, run: RunRow, steps: Sequence[StepRow]) -> None:
        """Keep both; the run's row comes last, so that whoever finds it finds the steps."""
        replace_json(self.folder / "steps.json", [vars(step) for step in steps])
        replace_json(self.folder / "run.json", vars(run))
