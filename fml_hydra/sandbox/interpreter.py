"""What of this machine a Python interpreter needs, and which packages it does not use.

Not for mounting: `layout` decides that.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

_PACKAGES = ("lib/python*/site-packages", "lib/python*/dist-packages")
_CONDA = ("envs", "pkgs")
_SYSTEM = (Path("/usr"), Path("/usr/local"))


@dataclass(frozen=True)
class Interpreter:
    """Paths that belong to one interpreter, as they are spelled."""

    prefixes: tuple[Path, ...]
    """Its own prefix and its base's."""
    links: tuple[Path, ...]
    """Symbolic links that lead to it and lie outside any prefix."""
    unused: tuple[Path, ...]
    """Folders with packages it does not import, in the prefixes and in /usr."""


@lru_cache(maxsize=32)
def interpreter(python: Path) -> Interpreter:
    """Read off the folders of `python`, which may belong to a virtual environment."""
    home = python.absolute().parent.parent
    config = _config(home / "pyvenv.cfg")
    chain = [*_links(python.absolute())]
    if "home" in config:
        chain += _links(Path(config["home"]) / python.name)
    real = [path for path in chain if _is_prefix(path.parent.parent)]
    prefixes = tuple(dict.fromkeys([path.parent.parent for path in real]))
    links = tuple(path for path in dict.fromkeys(chain) if path not in real and path.is_symlink())
    return Interpreter(prefixes, links, tuple(dict.fromkeys(_unused(home, prefixes, config))))


def _unused(home: Path, prefixes: tuple[Path, ...], config: dict[str, str]) -> Iterator[Path]:
    used = {home}
    if not config or config.get("include-system-site-packages", "").lower() == "true":
        used.update(prefixes)
    if used.intersection(_SYSTEM):  # Debian's Python looks into both
        used.update(_SYSTEM)
    for prefix in [*prefixes, *_SYSTEM]:
        if prefix not in used:
            for pattern in _PACKAGES:
                yield from prefix.glob(pattern)
        if (prefix / "conda-meta").is_dir():
            yield from (prefix / name for name in _CONDA)


def _is_prefix(folder: Path) -> bool:
    return (folder / "pyvenv.cfg").is_file() or any(folder.glob("lib*/python*/os.py"))


def _config(path: Path) -> dict[str, str]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    pairs = (line.partition("=") for line in lines if "=" in line)
    return {key.strip().lower(): value.strip() for key, _, value in pairs}


def _links(path: Path) -> Iterator[Path]:
    """`path` and every symbolic link it leads to, file by file."""
    yield path
    for _ in range(40):  # what the kernel follows
        if not path.is_symlink():
            return
        path = path.parent / path.readlink()
        yield path
