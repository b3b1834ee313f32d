"""Where a program is installed, how it is started, and what of it a sandbox must show.

Not here: what it is told (one module per program).
"""

import shutil
from collections.abc import Callable
from pathlib import Path

from fml_hydra.sandbox import Mount

_SHOWN = Path("/usr")
_SHEBANG = 256


def found(name: str, remedy: str) -> Path:
    """The real file behind a command or path; raises ValueError, one line, with the remedy."""
    at = shutil.which(str(Path(name).expanduser()))
    if at is None:
        tail = f"; {remedy}" if remedy else ""
        raise ValueError(f"{name!r} is not installed (not on PATH, and no such file){tail}")
    return Path(at).resolve()


def installed(remedy: str) -> Callable[[str], str]:
    """A validator for the path of a program that `remedy` installs."""

    def check(name: str) -> str:
        found(name, f"{remedy}, or give its path")
        return name

    return check


def started(name: str) -> list[str]:
    """The words that start it without looking anything up: interpreter and script, or the file."""
    real = found(name, "")
    return [*map(str, _interpreter(real)), str(real)]


def folders_of(name: str) -> list[Mount]:
    """What must be visible for `started(name)` to work, under its own path and read-only."""
    real = found(name, "")
    paths = [*_interpreter(real), _package(real)]
    return [Mount(path, str(path)) for path in paths if not path.is_relative_to(_SHOWN)]


def _package(real: Path) -> Path:
    """The outermost `node_modules` around a file, else the file itself."""
    around = [path for path in real.parents if path.name == "node_modules"]
    return around[-1] if around else real


def _interpreter(real: Path) -> list[Path]:
    """What `#!/usr/bin/env NAME` stands for; other scripts name a file of the system."""
    with real.open("rb") as file:
        first = file.readline(_SHEBANG).split()
    if len(first) > 1 and first[0].endswith(b"/env"):
        at = shutil.which(first[-1].decode(errors="replace"))
        return [Path(at).resolve()] if at else []
    return []
