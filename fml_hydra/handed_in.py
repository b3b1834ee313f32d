"""Taking what the commands wrote out of the candidate's reach, with no trust in its form.

Not here: what the files hold (grading).
"""

import shutil
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from fml_hydra.errors import InvalidOutput, MissingOutput
from fml_hydra.hashing import file_hash, text_hash
from fml_hydra.trees import behind_link

OUTPUT_BYTES = 256 * 2**20
"""Largest output file that is taken."""


@dataclass(frozen=True)
class Wanted:
    """One file the commands are to leave behind."""

    folder: Path
    """Where they write."""
    name: str
    """Path below it."""
    copy: Path
    """Where it goes."""


def collect(files: Sequence[Wanted]) -> str:
    """Copy what was handed in out of the candidate's reach; returns the common hash.

    Raises MissingOutput for a file that is not there, InvalidOutput for one that is not plain.
    """
    hashes = []
    for file in files:
        file.copy.parent.mkdir(parents=True, exist_ok=True)
        _copy_plain(file.folder, file.name, file.copy)
        hashes.append(f"{file.name} {file_hash(file.copy)}")
    return text_hash("\n".join(hashes))


def _copy_plain(folder: Path, name: str, copy: Path) -> None:
    try:
        source = _opened(folder, name)
    except (FileNotFoundError, NotADirectoryError):
        raise MissingOutput(f"the commands ended without writing {name}") from None
    except PermissionError:
        raise InvalidOutput(f"{name}: its permissions do not let it be read") from None
    with source, copy.open("wb") as file:
        shutil.copyfileobj(source, file, 2**20)


def _opened(folder: Path, name: str) -> BinaryIO:
    path = folder / name
    if behind_link(folder, name):
        raise InvalidOutput(f"{name}: a symbolic link is not accepted as an output")
    info = path.stat(follow_symlinks=False)
    if not stat.S_ISREG(info.st_mode):
        raise InvalidOutput(f"{name}: not a regular file")
    if info.st_size > OUTPUT_BYTES:
        raise InvalidOutput(f"{name}: {info.st_size} bytes, more than {OUTPUT_BYTES}")
    return path.open("rb")
