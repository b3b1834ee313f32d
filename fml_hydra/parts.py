"""One file of a data set: had, verified, and laid where it belongs in the data set's folder.

Not here: places a file can come from (origins), data sets as a whole (datasets).
"""

import os
import shutil
from dataclasses import asdict
from dataclasses import dataclass as plain_dataclass
from pathlib import Path
from typing import Any, Literal

from filelock import FileLock
from pydantic.dataclasses import dataclass

from fml_hydra.errors import DataError
from fml_hydra.hashing import value_hash
from fml_hydra.knobs import STRICT
from fml_hydra.origins import Mirror, Origin, Report, Road, fetch, verify
from fml_hydra.unpack import unpack


@dataclass(frozen=True, config=STRICT)
class Part:
    """One file of a data set; its key is its name in `data_dir` and on a mirror."""

    origins: tuple[Origin, ...] = ()
    """Places to try, in order."""
    sha256: str = ""
    """Checksum of the file; empty: not known."""
    md5: str = ""
    """The same, where only this one is published."""
    mb: float = 0.0
    """Size of the download."""
    unpack: Literal["", "zip", "tar"] = ""
    """How it is unpacked; empty: the file itself is part of the data set."""
    to: str = ""
    """Folder of the data set it goes to; empty: the data set's own."""

    def identity(self) -> list[Any]:
        """What determines its bytes and where they go: checksums, or for want of them addresses."""
        known = [self.sha256, self.md5]
        what = known if any(known) else [asdict(origin) for origin in self.origins]
        return [*what, self.unpack, self.to]


@plain_dataclass(frozen=True)
class Roads:
    """How this machine's user wants files to come."""

    data_dir: Path | None = None
    """A folder in which files are looked for by name, before any address is asked."""
    mirror: Mirror = None
    """What stands for addresses."""


def lay(name: str, part: Part, folder: Path, cache: Path, roads: Roads, report: Report) -> str:
    """Put a part where it belongs below `folder`; returns where it came from.

    Raises DataError, with the remedy, when it cannot be had, verified or unpacked.
    """
    target = folder / part.to
    target.mkdir(parents=True, exist_ok=True)
    own = roads.data_dir / name if roads.data_dir else None
    if own and own.is_file():
        verify(own, part.sha256, part.md5, f"{own}: ")
        if part.unpack:
            unpack(own, part.unpack, target)
        else:
            shutil.copyfile(own, target / name)
        return f"file {own}"
    kept = cache / "raw" / f"{value_hash(part.identity())[:16]}-{name}"
    road = Road(cache / "downloads", roads.mirror, report)
    road.partials.mkdir(parents=True, exist_ok=True)
    with FileLock(road.partials / f"{kept.name}.use"):  # another data set may want it as well
        try:
            provenance = fetch(name, _origins(part, own), kept, road, part.sha256, part.md5)
        except DataError as error:
            remedy = f"put {name} into a folder and name that with data_dir=FOLDER"
            raise DataError(f"{error}; {remedy}") from error
        if part.unpack:
            report(f"unpacking {name}")
            unpack(kept, part.unpack, target)
            kept.unlink()  # what was in it is kept
        elif not _linked(kept, target / name):
            shutil.copyfile(kept, target / name)
    return provenance


def _origins(part: Part, own: Path | None) -> list[Origin]:
    packed = own.with_name(f"{own.name}.gz") if own else None
    if packed is None or not packed.is_file():
        return list(part.origins)
    return [Origin("file", file=str(packed), gz=True), *part.origins]


def _linked(path: Path, link: Path) -> bool:
    try:
        os.link(path, link)
    except OSError:  # not every file system knows hard links
        return False
    return True
