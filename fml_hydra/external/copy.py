"""The working copy an external program edits, read and mended while the program runs.

The program may swap any file for a link at any moment, so every path is walked folder by folder
with descriptors that follow no link. Not here: what an edit may touch is decided by the session.
"""

import os
import shutil
import stat
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path, PurePosixPath

from fml_hydra.errors import InfraError
from fml_hydra.trees import remove_tree

TARGET_BYTES = 2 << 20
"""Largest target file that is taken."""
NEW_NAMES = 1000
"""How many new files are looked for at most."""
_SKIPPED = shutil.ignore_patterns(".git", "__pycache__")
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


@dataclass(frozen=True)
class Found:
    """What a look at the working copy found."""

    files: dict[str, str]
    """Target files that differ from the pristine ones, whole."""
    unreadable: dict[str, str] = field(default_factory=dict)
    """Target files that are not plain UTF-8 files, with the reason."""
    touched: tuple[str, ...] = ()
    """Other files that were changed or deleted; restored now where that was possible."""
    new: tuple[str, ...] = ()
    """Files that are not in the repository; no evaluation sees them."""


@dataclass(frozen=True)
class WorkingCopy:
    """A writable copy of a task's repository."""

    folder: Path
    """Where it lies."""
    pristine: Path
    """The repository as the task has it."""
    targets: Collection[str]
    """The files that may be edited."""

    def make(self, files: Mapping[str, str]) -> None:
        """Make it anew with `files` written over it; nobody may be working in it."""
        try:
            remove_tree(self.folder)
            shutil.copytree(self.pristine, self.folder, ignore=_SKIPPED)
            for name, text in files.items():
                (self.folder / name).write_text(text, encoding="utf-8", newline="")
        except OSError as error:
            raise InfraError(f"{self.folder}: no working copy can be made ({error})") from error

    def look(self) -> Found:
        """Read the targets, restore what else was changed."""
        files, unreadable = self._read_targets()
        touched = tuple(sorted(name for name in self._others() if not self._intact(name)))
        for name in touched:
            self._restore(name)
        return Found(files, unreadable, touched, tuple(islice(self._new(), NEW_NAMES)))

    def _read_targets(self) -> tuple[dict[str, str], dict[str, str]]:
        files, unreadable = {}, {}
        for name in self.targets:
            try:
                content = _read(self.folder, name, TARGET_BYTES)
                if content == (self.pristine / name).read_bytes():
                    continue
                files[name] = content.decode("utf-8")
            except UnicodeDecodeError:
                unreadable[name] = "not UTF-8 text"
            except FileNotFoundError:
                unreadable[name] = "missing"
            except (OSError, ValueError) as error:
                unreadable[name] = f"not a plain file ({getattr(error, 'strerror', '') or error})"
        return files, unreadable

    def _others(self) -> list[str]:
        return [name for name in _names(self.pristine) if name not in self.targets]

    def _intact(self, name: str) -> bool:
        source = self.pristine / name
        size = source.stat().st_size
        try:
            return _read(self.folder, name, size) == source.read_bytes()
        except (OSError, ValueError):
            return False

    def _restore(self, name: str) -> None:
        """Put the pristine file back; what cannot be put back is found touched again next time."""
        source = self.pristine / name
        mode = stat.S_IMODE(source.stat().st_mode) | stat.S_IWUSR
        with suppress(OSError), _parent(self.folder, name, make=True) as (folder, last):
            fresh = f".{last}.restored"
            with suppress(FileNotFoundError):
                os.unlink(fresh, dir_fd=folder)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
            with os.fdopen(os.open(fresh, flags, mode, dir_fd=folder), "wb") as file:
                file.write(source.read_bytes())
            with suppress(OSError):  # a folder in its place is moved aside
                if stat.S_ISDIR(os.stat(last, dir_fd=folder, follow_symlinks=False).st_mode):
                    os.rename(last, f".{last}.aside", src_dir_fd=folder, dst_dir_fd=folder)
            os.replace(fresh, last, src_dir_fd=folder, dst_dir_fd=folder)

    def _new(self) -> Iterator[str]:
        known = set(_names(self.pristine)) | set(self.targets)
        return (name for name in _names(self.folder) if name not in known)


def _names(root: Path) -> Iterator[str]:
    """Files below `root`, links not followed, without compiled Python and hidden entries."""
    for folder, inner, files in os.walk(root):
        inner[:] = sorted(n for n in inner if n != "__pycache__" and not n.startswith("."))
        below = Path(folder).relative_to(root)
        yield from ((below / name).as_posix() for name in sorted(files) if not _hidden(name))


def _hidden(name: str) -> bool:
    return name.startswith(".") or name.endswith(".pyc")


@contextmanager
def _parent(root: Path, name: str, make: bool = False) -> Iterator[tuple[int, str]]:
    """The open folder that `name` lies in, and its last part; `make` mends what is no folder."""
    *folders, last = PurePosixPath(name).parts
    here = os.open(root, _FOLDER)
    try:
        for part in folders:
            if make:
                _as_folder(here, part)
            there = os.open(part, _FOLDER, dir_fd=here)
            os.close(here)
            here = there
        yield here, last
    finally:
        os.close(here)


def _as_folder(here: int, part: str) -> None:
    with suppress(FileNotFoundError):
        if stat.S_ISDIR(os.stat(part, dir_fd=here, follow_symlinks=False).st_mode):
            return
        os.unlink(part, dir_fd=here)
    os.mkdir(part, 0o755, dir_fd=here)


def _read(root: Path, name: str, most: int) -> bytes:
    """The bytes of a plain file; raises OSError, or ValueError when it is larger than `most`."""
    with _parent(root, name) as (folder, last):
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK  # a pipe must not hold us up
        with os.fdopen(os.open(last, flags, dir_fd=folder), "rb") as file:
            info = os.fstat(file.fileno())
            if not stat.S_ISREG(info.st_mode):
                raise ValueError("neither file nor link")
            if info.st_size > most:
                raise ValueError(f"{info.st_size} bytes, more than {most}")
            return file.read(most + 1)
