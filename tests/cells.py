"""One run of a test, in this process."""

from collections.abc import Sequence
from pathlib import Path

from omegaconf import DictConfig

from fml_hydra.config import Experiment
from fml_hydra.journal import Folded, Journal
from fml_hydra.runner import run
from fml_hydra.session import Observer


class Cell:
    """One run, in this process."""

    def __init__(self, cfg: DictConfig, experiment: Experiment, folder: Path) -> None:
        self.cfg, self.experiment, self.folder = cfg, experiment, folder

    @property
    def identity(self) -> str:
        return self.experiment.identity(self.cfg)

    def run(self, observers: Sequence[Observer] = ()) -> Folded:
        """Run or resume it; the state afterwards, as read back from disk."""
        self.folder.mkdir(parents=True, exist_ok=True)
        journal = Journal(self.folder / "journal.jsonl")
        try:
            run(self.experiment, self.identity, self.folder, observers, journal)
        finally:
            journal.close()
        return self.state()

    def state(self) -> Folded:
        return Folded.read(self.folder / "journal.jsonl")
