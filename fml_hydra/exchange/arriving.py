"""Runs that come from elsewhere get their folder below `root`/runs: journal first, all at once.

The same result never arrives twice, wherever it lies. Not here: sending it on to MLflow (delivery).
"""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from omegaconf import OmegaConf

from fml_hydra.errors import InfraError, TaskError
from fml_hydra.exchange.layout import OWN, SUMMARY, Json, Result
from fml_hydra.exchange.reading import (
    Place,
    identity_of,
    instance_of,
    journal_of,
    model_of,
)
from fml_hydra.exchange.tasks import ScoredTask
from fml_hydra.exchange.writing import OWN_FILES
from fml_hydra.hashing import file_hash
from fml_hydra.journal import Folded
from fml_hydra.steps import step_folder, write_code

JOURNAL = "journal.jsonl"
"""A run's history, in its folder."""
Cell = tuple[str, str, str]
"""Task, agent, language model."""


@dataclass
class Arrivals:
    """What is below `root` already, and what comes."""

    root: Path
    """Where runs lie."""
    first_seed: int = 0
    """The first round's number."""
    _there: dict[str, Path] = field(default_factory=dict)
    _seeds: dict[Cell, set[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for journal in self.root.glob(f"runs/*/{JOURNAL}"):
            if header := _header(journal):
                self._note(header, journal.parent)

    def result(self, result: Result, task: ScoredTask, sweep: str) -> Path:
        """The folder of a run of FML-bench; made if it is not there.

        Raises TaskError when the baseline is not known, or FML-bench would not write it so.
        """
        instance = instance_of(result)
        if instance in self._there:
            return self._there[instance]
        cell = (result.summary["benchmark"], result.summary["agent"], model_of(result))
        taken = self._seeds.get(cell, set())
        seed = next(n for n in range(self.first_seed, 2 << 30) if n not in taken)
        try:
            events = journal_of(result, task, Place(seed, sweep))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise TaskError(f"{result.folder}: not as FML-bench writes it ({error!r})") from error
        folder = self.root / "runs" / identity_of(result, seed)
        with _made(folder) as partial:
            _write_run(partial, result, events)
        self._note(events[0], folder)
        return folder

    def own(self, exported: Path) -> Path:
        """The folder of a run of ours that an export kept; copied if it is not there.

        One that is there but has fewer events is replaced: the run went on between two exports.
        Raises JournalError when it is damaged, TaskError when it has not begun.
        """
        header = Folded.read(exported / OWN / JOURNAL).header
        if not header:
            raise TaskError(f"{exported / OWN}: the run has not begun")
        instance, name = str(header["instance"]), Path(str(header["identity"])).name
        folder = self.root / "runs" / name
        if instance in self._there:
            folder = self._there[instance]
            if not _went_on(folder / JOURNAL, exported / OWN / JOURNAL):
                return folder
            _copy_own(exported / OWN, folder)
        else:
            if folder.exists():  # the same experiment was run here too
                folder = folder.with_name(f"{name}.{instance[:8]}")
            with _made(folder) as partial:
                _copy_own(exported / OWN, partial)
        self._note(header, folder)
        return folder

    def _note(self, header: Json, folder: Path) -> None:
        self._there[str(header["instance"])] = folder
        cell = (str(header["task"]), str(header["agent"]), str(header["llm"]))
        self._seeds.setdefault(cell, set()).add(int(header["seed"]))


def kept_whole(exported: Path) -> bool:
    """Whether our own files lie in a run's folder, and its summary is still what was exported."""
    if not (exported / OWN / JOURNAL).is_file():
        return False
    if not (exported / SUMMARY).is_file():
        return True
    try:
        known = json.loads((exported / OWN / "export.json").read_text())
    except (OSError, ValueError):
        return False
    return bool(known.get(SUMMARY) == file_hash(exported / SUMMARY))


def _went_on(there: Path, coming: Path) -> bool:
    """Whether the journal that comes is the one that is there, with more events."""
    known, new = there.read_bytes(), coming.read_bytes()
    return len(new) > len(known) and new.startswith(known)


def _copy_own(source: Path, folder: Path) -> None:
    if (source / "steps").is_dir():
        shutil.copytree(source / "steps", folder / "steps", dirs_exist_ok=True)
    for name in reversed(OWN_FILES):  # the journal comes last: it says what there is
        if (source / name).is_file():
            shutil.copyfile(source / name, folder / name)


def _header(journal: Path) -> Json:
    """The first event; empty if there is none to read."""
    try:
        with journal.open() as file:
            header: Json = json.loads(file.readline())
            return header if {"instance", "task", "agent", "llm", "seed"} <= header.keys() else {}
    except (OSError, ValueError, AttributeError):
        return {}


@contextmanager
def _made(folder: Path) -> Iterator[Path]:
    """A folder that is at its place only when everything in it has been written."""
    partial = folder.parent.parent / "arriving" / folder.name
    try:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        yield partial
        folder.parent.mkdir(parents=True, exist_ok=True)
        partial.rename(folder)
    except OSError as error:
        raise InfraError(f"{folder}: cannot be written ({error})") from error


def _write_run(folder: Path, result: Result, events: list[Json]) -> None:
    lines = (json.dumps(event, allow_nan=False) + "\n" for event in events)
    (folder / JOURNAL).write_text("".join(lines))
    header, summary = events[0], result.summary
    config = {
        "imported": {"from": "fml-bench", "folder": result.folder.name},
        "task": {"name": header["task"]},
        "agent": {**(summary.get("agent_params") or {}), "name": header["agent"]},
        "llm": {"name": header["llm"], "provider": summary.get("provider") or ""},
        "seed": header["seed"],
        "budget": {"steps": header["steps"]},
        "sweep": header["sweep"],
    }
    (folder / "config.yaml").write_text(OmegaConf.to_yaml(OmegaConf.create(config)))
    for event in events:
        if event["e"] == "node":
            place = step_folder(folder, event["id"])
            write_code(place, event["snapshot"], header["pristine"])
            (place / "stderr.txt").write_text(event["feedback"])
