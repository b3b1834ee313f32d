"""A task's public data sets: downloaded, checked, unpacked, built, and kept for all tasks.

A data set is a folder or file in the cache (or the user's own) that commands see read-only at its
place. Two tasks that name the same files share it. Not here: how a file comes to this machine
(origins), what a place means to a sandbox (evaluation), splits with hidden labels (data).
"""

import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass as plain_dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock
from pydantic import Field
from pydantic.dataclasses import dataclass

from fml_hydra.building import Workshop, build
from fml_hydra.download import size
from fml_hydra.errors import DataError
from fml_hydra.files import replace_json
from fml_hydra.hashing import file_hash, tree_hash, value_hash
from fml_hydra.knobs import STRICT, Folder
from fml_hydra.origins import Report
from fml_hydra.parts import Part, Roads, lay

_DONE = "done.json"
_OWN = re.compile(r"\{task\}/([\w./-]+)")


@dataclass(frozen=True, config=STRICT)
class Dataset:
    """What has to lie at one place before a task's commands can run."""

    place: str
    """Where commands find it: `data/raw` (in the repository), `~/...` (HOME), `../data/...`."""
    source: str = ""
    """Who publishes it."""
    licence: str = ""
    """What is known of its licence."""
    parts: dict[str, Part] = Field(default_factory=dict)
    """Its files by name."""
    build: str = ""
    """Command that makes the data set in {out} from the parts in {raw}, with the task's {python}
    and the files of {task}, in a copy of the repository with the data sets above it in place."""
    inner: str = ""
    """File or folder of all that which is put at the place; empty: everything."""
    mb: float = 0.0
    """Size on disk."""
    folder: Folder | None = None
    """A folder or file of this machine to be used instead, as it is."""


@plain_dataclass(frozen=True)
class Shelf:
    """Where data sets are kept, and what built ones depend on."""

    cache: Path
    """The cache folder."""
    task_dir: Path
    """Folder of the task's own files: {task} in `build`."""
    pinned: str = ""
    """The repository's address and commit."""


@plain_dataclass(frozen=True)
class Planned:
    """What preparing a data set would do, or has done."""

    name: str
    """The data set."""
    place: str
    """Where commands find it."""
    download_mb: float
    """Size of its downloads; 0 where nobody says."""
    disk_mb: float
    """Size on disk; 0 where nobody says."""
    source: str
    """Who publishes it."""
    licence: str
    """What is known of its licence."""
    ready: bool
    """Whether it is there."""


def is_ready(datasets: Mapping[str, Dataset], shelf: Shelf) -> bool:
    """Whether everything is there; asks no network."""
    return all(plan.ready for plan in planned(datasets, shelf))


def planned(datasets: Mapping[str, Dataset], shelf: Shelf) -> list[Planned]:
    """What preparing would fetch and keep, in order."""
    homes = _homes(datasets, shelf)
    return [
        Planned(
            name=name,
            place=dataset.place,
            download_mb=sum(part.mb for part in dataset.parts.values()),
            disk_mb=dataset.mb,
            source=dataset.source,
            licence=dataset.licence,
            ready=dataset.folder is not None or (homes[name] / _DONE).exists(),
        )
        for name, dataset in datasets.items()
    ]


def found(datasets: Mapping[str, Dataset], shelf: Shelf) -> dict[str, Path]:
    """The folder or file for each place; raises DataError, with the remedy, if one is missing."""
    homes = _homes(datasets, shelf)
    return {d.place: _at(name, d, homes[name]) for name, d in datasets.items()}


def records(datasets: Mapping[str, Dataset], shelf: Shelf) -> dict[str, Any]:
    """For each data set that is there: the hash of its files, and where they came from."""
    kept = {}
    for name, home in _homes(datasets, shelf).items():
        if folder := datasets[name].folder:
            kept[name] = {"folder": str(folder)}
        elif (home / _DONE).exists():
            kept[name] = json.loads((home / _DONE).read_text())
    return kept


def prepare_datasets(
    datasets: Mapping[str, Dataset],
    shelf: Shelf,
    roads: Roads,
    repository: Path | None = None,
    python: Path | None = None,
    report: Report = lambda _: None,
) -> dict[str, Path]:
    """Fetch and build what is not there yet; returns the folder or file for each place.

    Safe to call from several processes. Raises DataError with the reason when a file cannot be had
    or verified, does not fit on the disk, or cannot be built.
    """
    _check_room(datasets, shelf)
    homes = _homes(datasets, shelf)
    places: dict[str, Path] = {}
    for name, dataset in datasets.items():
        home = homes[name]
        if dataset.folder is None and not (home / _DONE).exists():
            home.parent.mkdir(parents=True, exist_ok=True)
            workshop = Workshop(shelf.task_dir, repository, python, dict(places))
            with FileLock(f"{home}.lock"):
                if not (home / _DONE).exists():
                    _make(name, dataset, home, _Means(shelf.cache, roads, report, workshop))
        places[dataset.place] = _at(name, dataset, home)
    return places


@plain_dataclass(frozen=True)
class _Means:
    """What making a data set takes."""

    cache: Path
    roads: Roads
    report: Report
    workshop: Workshop


def _homes(datasets: Mapping[str, Dataset], shelf: Shelf) -> dict[str, Path]:
    """Where each is kept: named by what determines its files, whichever task they are for.

    Two places of one built data set, which differ in `inner` alone, share it.
    """
    keys: dict[str, str] = {}
    homes: dict[str, Path] = {}
    for name, dataset in datasets.items():
        own: list[Any] = [{n: part.identity() for n, part in dataset.parts.items()}]
        if dataset.build:
            scripts = [shelf.task_dir / script for script in _OWN.findall(dataset.build)]
            hashes = [file_hash(script) for script in scripts if script.is_file()]
            own += [dataset.build, hashes, shelf.pinned]
        same = value_hash(own)
        keys.setdefault(same, value_hash([*own, *keys.values()] if dataset.build else own)[:16])
        homes[name] = shelf.cache / "datasets" / keys[same]
    return homes


def _at(name: str, dataset: Dataset, home: Path) -> Path:
    if dataset.folder is not None:
        if not dataset.folder.exists():
            raise DataError(
                f"datasets.{name}.folder: {dataset.folder} does not exist; correct the path"
            )
        return dataset.folder
    if not (home / _DONE).exists():
        raise DataError(f"data set {name!r} is not there; run `python -m fml_hydra tasks prepare`")
    path = home / "content" / dataset.inner
    if not path.exists():
        raise DataError(f"data set {name!r}: there is no {dataset.inner} in it; correct `inner`")
    return path


def _check_room(datasets: Mapping[str, Dataset], shelf: Shelf) -> None:
    homes = _homes(datasets, shelf)
    missing = {homes[p.name]: p for p in planned(datasets, shelf) if not p.ready}.values()
    needed = sum(plan.download_mb + plan.disk_mb for plan in missing) * 1e6
    there = next(path for path in (shelf.cache, *shelf.cache.absolute().parents) if path.exists())
    free = shutil.disk_usage(there).free
    if needed > free:
        names = ", ".join(plan.name for plan in missing)
        raise DataError(
            f"the data sets {names} need {size(needed)}, {size(free)} are free in {there}; make "
            "room, or choose another disk with cache_dir=FOLDER"
        )


def _make(name: str, dataset: Dataset, home: Path, means: _Means) -> None:
    scratch = home.with_suffix(".part")
    for folder in (home, scratch):  # left over from a kill
        shutil.rmtree(folder, ignore_errors=True)
    raw, out = scratch / "raw", scratch / "content"
    raw.mkdir(parents=True)
    try:
        if dataset.source or dataset.licence:
            means.report(f"{name}: {_about(dataset)}")
        came = {
            file: lay(file, part, raw, means.cache, means.roads, means.report)
            for file, part in sorted(dataset.parts.items())
        }
        if dataset.build:
            out.mkdir()
            means.report(f"building {name}")
            build(dataset.build, raw, out, means.workshop, home.with_suffix(".log"))
            shutil.rmtree(raw)
        else:
            raw.rename(out)
        for path in out.rglob("*"):
            if path.is_file() and not path.is_symlink():
                path.chmod(path.stat().st_mode & 0o555)  # where nothing mounts it read-only
        replace_json(scratch / _DONE, {"name": name, "sha256": tree_hash(out), "from": came})
        scratch.rename(home)  # all of it at once
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _about(dataset: Dataset) -> str:
    """Size, publisher and licence in one line, before anything is fetched."""
    mb = sum(part.mb for part in dataset.parts.values())
    facts = (f"{mb:g} MB to fetch" if mb else "size not known", dataset.source)
    return ", ".join([*filter(None, facts), f"licence: {dataset.licence or 'not known'}"])
