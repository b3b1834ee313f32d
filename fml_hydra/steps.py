"""The files people look at for each step: `steps/0003/` with prompt, reply, code, diff and outputs.

They are copies for reading and for MLflow; the journal alone decides what happened.
"""

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fml_hydra.edits import diff
from fml_hydra.errors import InfraError
from fml_hydra.evaluation import Outcome
from fml_hydra.journal import Node


@dataclass(frozen=True)
class StepFiles:
    """Writes the folders of one run's steps."""

    folder: Path
    """Where `steps/` lies."""
    pristine: Mapping[str, str]
    """The target files of the pinned commit."""

    def of(self, node_id: int) -> Path:
        """Folder of one step."""
        return step_folder(self.folder, node_id)

    def write(self, node: Node, prompt: str, reply: str, outcome: Outcome) -> None:
        """Write one step's folder anew; raises InfraError when the disk refuses."""
        folder = self.of(node.id)
        try:
            shutil.rmtree(folder, ignore_errors=True)
            write_code(folder, node.snapshot, self.pristine)
            texts = {
                "prompt.md": prompt,
                "reply.md": reply,
                "stdout.txt": outcome.stdout,
                "stderr.txt": outcome.stderr,
                "metrics.json": json.dumps(node.metrics, indent=2),
            }
            for name, text in texts.items():
                (folder / name).write_text(text)
        except OSError as error:
            raise InfraError(f"{folder}: cannot be written ({error.strerror})") from error


def step_folder(run: Path, node_id: int) -> Path:
    """Where the files of a step lie below a run's folder."""
    return run / "steps" / f"{node_id:04d}"


def write_code(folder: Path, snapshot: Mapping[str, str], pristine: Mapping[str, str]) -> None:
    """Write `code/` (the files that differ) and `patch.diff` below `folder`."""
    code = folder / "code"
    code.mkdir(parents=True, exist_ok=True)
    for name, text in snapshot.items():
        (code / name).parent.mkdir(parents=True, exist_ok=True)
        (code / name).write_text(text, newline="")
    before = {name: pristine.get(name, "") for name in snapshot}
    (folder / "patch.diff").write_text(diff(before, snapshot))
