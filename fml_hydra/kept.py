"""What the best step of a run left for the held-out test: checkpoints, splits, tuned settings.

One folder in the run's own, named by its step; a step that becomes the best takes the place of the
one before. It is put there once the step is in the journal, so it is never another step's; after a
kill between the two it is missing, and the test makes it again. Not here: what is kept (the task's
`keep`), and taking it from a candidate without trust (evaluation, trees).
"""

import logging
from dataclasses import dataclass
from pathlib import Path

from fml_hydra.journal import Node
from fml_hydra.trees import remove_tree

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Kept:
    """The folder of one run."""

    folder: Path
    """Holds at most one folder, that of the best step; may not exist yet."""

    @classmethod
    def below(cls, run: Path) -> "Kept":
        """That of the run whose folder is `run`."""
        return cls(run / "kept")

    def settle(self, node: Node, left: Path | None, best: Node | None) -> None:
        """Keep what a finished step left behind if it is the best now, else delete it."""
        if best is None or node.id != best.id:
            if left:
                remove_tree(left)
            return
        place = self.folder / str(node.id)
        for old in self.folder.glob("*"):
            remove_tree(old)
        if left is None:
            return
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            left.rename(place)
        except OSError as error:
            log.warning("%s: cannot be kept for the test: %s", left, error.strerror)
            remove_tree(left)

    def of(self, node: Node) -> Path | None:
        """What is kept of a step, if it is there."""
        place = self.folder / str(node.id)
        return place if place.is_dir() else None
