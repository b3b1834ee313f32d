"""Folders and files that a candidate could write: copied, taken, put back, deleted, without trust.

No link is followed, whatever a path has been made into; so all that a candidate started must have
ended before. Not here: the output files that are graded (handed_in).
"""

import logging
import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from fml_hydra.errors import InvalidOutput

log = logging.getLogger(__name__)
_ENTRY_BYTES = 4096
"""What a file or folder counts at least."""


def copy_file(source: Path, destination: Path) -> None:
    """Copy a plain file; the two share blocks until one is written, where the file system can.

    As in git, the copy is executable or not, whatever else the permissions were.
    """
    with source.open("rb") as old, destination.open("wb") as new:
        info = os.fstat(old.fileno())
        left = info.st_size
        with suppress(OSError, AttributeError):  # older kernels, other systems, two file systems
            while left and (done := os.copy_file_range(old.fileno(), new.fileno(), left)):
                left -= done
        if left:
            shutil.copyfileobj(old, new, 2**20)
        os.fchmod(new.fileno(), 0o755 if info.st_mode & stat.S_IXUSR else 0o644)


def behind_link(folder: Path, name: str) -> bool:
    """Whether a link lies at `name` or on the way there from `folder`."""
    path = folder / name
    return any(p.is_symlink() for p in (path, *path.parents) if p.is_relative_to(folder))


def clear(folder: Path, name: str) -> None:
    """Let nothing be at `name` below `folder`; a link on the way goes itself. Raises OSError."""
    path = folder
    for part in Path(name).parts:
        if path.is_dir():
            path.chmod(path.stat().st_mode | stat.S_IRWXU)  # closed, perhaps
        path = path / part
        if path.is_symlink():
            break
    if path.is_dir() and not path.is_symlink():
        remove_tree(path)
    elif os.path.lexists(path):
        path.unlink()


def take(folder: Path, names: Sequence[str], into: Path, most: int) -> None:
    """Move the files and folders `names` of `folder` to the same places in the new folder `into`.

    It is fine if one is not there. Raises InvalidOutput, and moves nothing, when something in them
    is neither file nor folder, cannot be read, or when they have more than `most` bytes.
    """
    there = [name for name in names if os.path.lexists(folder / name)]
    try:
        size = 0
        for path in (path for name in there for path in _checked(folder, name)):
            size += max(path.lstat().st_size, _ENTRY_BYTES)
            if size > most:
                raise InvalidOutput(f"{', '.join(there)}: more than {most} bytes")
    except OSError as error:
        raise InvalidOutput(f"{', '.join(there)}: {error.strerror}") from error
    into.mkdir()
    for name in there:
        (into / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).rename(into / name)


def put(kept: Path, names: Sequence[str], folder: Path) -> None:
    """Copy what `take` took to its places in another folder, instead of what is there."""
    for name in names:
        clear(folder, name)
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if (kept / name).is_dir():
            shutil.copytree(kept / name, folder / name, copy_function=_copy)
        elif (kept / name).exists():
            copy_file(kept / name, folder / name)


def _copy(source: str, destination: str) -> None:
    copy_file(Path(source), Path(destination))


def _checked(folder: Path, name: str) -> Iterator[Path]:
    """Everything at `name`, which must be files and folders only."""
    if behind_link(folder, name):
        raise InvalidOutput(f"{name}: a symbolic link")
    top = folder / name
    yield _plain(top, folder)
    for here, folders, files in os.walk(top, onerror=_fail) if top.is_dir() else ():
        for inside in (*folders, *files):
            yield _plain(Path(here, inside), folder)


def _plain(path: Path, folder: Path) -> Path:
    mode = path.lstat().st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise InvalidOutput(f"{path.relative_to(folder)}: neither a file nor a folder")
    return path


def _fail(error: OSError) -> None:
    raise error


def remove_tree(folder: Path) -> None:
    """Delete a folder whatever a candidate made of it: closed, or deeper than a path can be long.

    What cannot be deleted all the same is left behind with a warning.
    """
    try:
        if folder.exists():
            _delete(folder)
    except OSError as error:
        log.warning("%s could not be deleted: %s", folder, error.strerror or error)


def _delete(folder: Path) -> None:
    """Delete with one open folder at a time: no recursion, and no path longer than a name."""
    folder.chmod(0o700)
    here = os.open(folder, os.O_RDONLY)
    try:
        trail = [_cleared(here)]
        while trail:
            if trail[-1]:
                here = _entered(here, trail[-1][-1])
                trail.append(_cleared(here))
            else:
                trail.pop()
                here = _entered(here, "..")
                os.rmdir((trail[-1].pop() if trail else folder.name), dir_fd=here)
    finally:
        os.close(here)


def _cleared(here: int) -> list[str]:
    """Delete the files of an open folder; returns its folders, opened up."""
    entries = list(os.scandir(here))
    folders = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    for name in {entry.name for entry in entries}.difference(folders):
        os.unlink(name, dir_fd=here)
    for name in folders:
        os.chmod(name, 0o700, dir_fd=here)  # noqa: PTH101  # pathlib knows no dir_fd
    return folders


def _entered(here: int, name: str) -> int:
    """Go on to another folder, closing `here`."""
    there = os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=here)
    os.close(here)
    return there
