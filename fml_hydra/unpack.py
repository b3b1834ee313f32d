"""Archives into folders, and nowhere else.

A member with an absolute path, one that climbs out, a link that leads out, a device: the archive is
refused before anything of it is used. Not here: whether it is the right archive (origins).
"""

import gzip
import shutil
import tarfile
import zipfile
from pathlib import Path, PurePosixPath
from typing import Literal

from fml_hydra.errors import DataError

Format = Literal["zip", "tar"]
_DAMAGE = (EOFError, OSError, RuntimeError, ValueError, tarfile.TarError, zipfile.BadZipFile)
"""What a damaged, encrypted or truncated archive is reported with."""


def unpack(archive: Path, form: Format, folder: Path) -> None:
    """Write all of `archive` below `folder`; `tar` with whatever compression it has.

    Raises DataError, naming archive and member, when it is damaged, unsafe, or too large.
    """
    folder.mkdir(parents=True, exist_ok=True)
    try:
        if form == "zip":
            _zip(archive, folder)
        else:
            _tar(archive, folder)
    except _DAMAGE as error:
        said = (str(error).splitlines() or [type(error).__name__])[0]
        raise DataError(f"{archive.name}: {said.rstrip(':')}") from error


def gunzip(packed: Path, file: Path) -> None:
    """Write what is in a gzip file; raises DataError when it is damaged."""
    try:
        with gzip.open(packed) as source, file.open("wb") as target:
            shutil.copyfileobj(source, target, 1 << 20)
    except (EOFError, OSError) as error:
        raise DataError(f"{packed.name}: {error}") from error


def _zip(archive: Path, folder: Path) -> None:
    with zipfile.ZipFile(archive) as opened:
        members = opened.infolist()
        for member in members:
            _check(archive, member.filename)
        needed = sum(member.file_size for member in members)
        free = shutil.disk_usage(folder).free
        if needed > free:
            raise DataError(f"{archive.name}: unpacks to {needed} bytes, {free} are free")
        opened.extractall(folder)  # links in a zip come out as small plain files


def _tar(archive: Path, folder: Path) -> None:
    if not hasattr(tarfile, "data_filter"):
        raise DataError(f"{archive.name}: unpacking it safely needs Python 3.11.4 or newer")
    with tarfile.open(archive) as opened:
        for member in opened:
            _check(archive, member.name)
            opened.extract(member, folder, filter="data")


def _check(archive: Path, name: str) -> None:
    """tarfile would strip a leading slash, zipfile the dots: neither belongs into a data set."""
    pure = PurePosixPath(name.replace("\\", "/"))
    if pure.is_absolute() or ".." in pure.parts:
        raise DataError(
            f"{archive.name}: {name!r} would lie outside the folder; it is not unpacked"
        )
