"""The command that makes a data set out of raw files, run in a copy of the task's repository.

It is the task author's or the repository's own, and trusted: it runs outside the sandbox and may
use the network. Not here: what becomes of the data set (datasets).
"""

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fml_hydra.errors import DataError

_WORDS = ("python", "raw", "out", "task")


@dataclass(frozen=True)
class Workshop:
    """Where and with what a build command runs."""

    task_dir: Path
    """Folder of the task's own files."""
    repository: Path | None
    """Copied for the command; None: it starts in an empty folder."""
    python: Path | None
    """The task's interpreter; None: the suite's."""
    places: Mapping[str, Path]
    """Data sets that are there already, by their place."""


def build(command: str, raw: Path, out: Path, workshop: Workshop, log: Path) -> None:
    """Run `command`, which leaves a data set in `out`; what it prints is kept in `log`.

    Raises DataError with its last line when it fails or leaves nothing.
    """
    python = workshop.python or Path(sys.executable)
    found = {"python": python, "raw": raw, "out": out, "task": workshop.task_dir}
    argv = _argv(command, {name: str(path) for name, path in found.items()})
    with tempfile.TemporaryDirectory(dir=out.parent, prefix="build-") as folder:
        place = Path(folder)
        _furnish(place, workshop)
        env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
        env |= {"HOME": str(place / "home"), "PYTHONDONTWRITEBYTECODE": "1"}
        env["PATH"] = f"{python.parent}{os.pathsep}{env.get('PATH', '')}"
        with log.open("w") as told:
            try:
                done = subprocess.run(
                    argv, cwd=place / "repo", env=env, stdout=told, stderr=told, check=False
                )
            except OSError as error:
                raise DataError(f"build: {argv[0]} cannot be run: {error.strerror}") from error
    if done.returncode or not any(out.iterdir()):
        last = (log.read_text(errors="replace").strip().splitlines() or ["it printed nothing"])[-1]
        what = f"exit code {done.returncode}" if done.returncode else "it left nothing in {out}"
        raise DataError(f"build: {shlex.join(argv)[:120]}: {what}: {last} (all of it: {log})")


def _argv(command: str, words: Mapping[str, str]) -> list[str]:
    try:
        return [word.format(**words) for word in shlex.split(command)]
    except (KeyError, IndexError, ValueError) as error:
        known = ", ".join(f"{{{name}}}" for name in _WORDS)
        raise DataError(
            f"build: {command!r} cannot be read ({error}); it may hold {known}"
        ) from error


def _furnish(place: Path, workshop: Workshop) -> None:
    """Repository and HOME, with the data sets that are there in their places."""
    (place / "home").mkdir()
    if workshop.repository is None:
        (place / "repo").mkdir()
    else:
        leave_out = shutil.ignore_patterns(".git", "__pycache__")
        shutil.copytree(workshop.repository, place / "repo", symlinks=True, ignore=leave_out)
    for name, data in workshop.places.items():
        inside = name.removeprefix("~/")
        link = place / ("home" if inside != name else "repo") / inside
        link = Path(os.path.normpath(link))
        link.parent.mkdir(parents=True, exist_ok=True)
        if link.is_dir() and not link.is_symlink():
            shutil.rmtree(link)
        link.unlink(missing_ok=True)
        link.symlink_to(data)
