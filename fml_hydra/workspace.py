"""A task's repository at its pinned commit, and fresh slots of it to evaluate in.

Every slot is an export of one commit without history, remotes or `.git`. Not here: running anything
in a slot (evaluation), or what an edit may touch (session).
"""

import logging
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from fml_hydra.errors import ConfigError, InfraError
from fml_hydra.hashing import file_hash
from fml_hydra.repository import repository_files, repository_hash

try:
    import git
except ImportError as error:  # GitPython looks for the git program when it is imported
    raise ConfigError("git is not on PATH; install git and start again") from error

log = logging.getLogger(__name__)
_CLEAN = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_TERMINAL_PROMPT": "0"}
_WHEN = "946684800 +0000"  # a fixed date makes the same files the same commit everywhere
_WHO = git.Actor("fml_hydra", "fml_hydra@localhost")


@dataclass(frozen=True)
class Slot:
    """A fresh place for one evaluation."""

    root: Path
    """Holds the rest; its name is random."""

    @property
    def repo(self) -> Path:
        """The repository with the candidate's files."""
        return self.root / "repo"

    @property
    def out(self) -> Path:
        """Where the commands write."""
        return self.root / "out"

    @property
    def home(self) -> Path:
        """HOME and TMPDIR of the commands."""
        return self.root / "home"

    @property
    def data(self) -> Path:
        """Links to the data parts a command may see."""
        return self.root / "data"

    @property
    def graded(self) -> Path:
        """The outputs as handed in: what is hashed here is what is graded."""
        return self.root / "graded"


class Workspace:
    """A repository pinned at one commit."""

    def __init__(self, repository: git.Repo, protected: tuple[str, ...]) -> None:
        self._git = repository.git
        self._git.update_environment(**_CLEAN)
        self.commit: str = repository.head.commit.hexsha
        """The pinned commit."""
        with tempfile.TemporaryDirectory() as scratch:
            self.export(Path(scratch))
            self._pristine = {name: _facts(Path(scratch), name) for name in protected}

    @classmethod
    def open(cls, folder: Path, protected: tuple[str, ...], cache: Path) -> "Workspace":
        """Pin the files of `folder` as one commit, made once and kept in `cache`."""
        name = folder.parent.name if folder.name == "repo" else folder.name
        home = cache / "workspaces" / f"{name}-{repository_hash(folder)[:16]}"
        home.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{home}.lock"):
            if not (home / ".git" / "pinned").exists():
                shutil.rmtree(home, ignore_errors=True)
                _pin(folder, home)
        return cls(git.Repo(home), protected)

    def export(self, destination: Path) -> None:
        """Write the pinned files below `destination`; nothing of git goes with them."""
        try:
            self._git.checkout_index("--all", "--force", f"--prefix={destination.absolute()}/")
        except git.GitCommandError as error:
            raise InfraError(
                f"cannot write a workspace to {destination}: {error.stderr}"
            ) from error

    @contextmanager
    def slot(self, parent: Path, files: Mapping[str, str]) -> Iterator[Slot]:
        """A fresh slot: the pinned commit with `files` written over it; removed afterwards."""
        try:
            parent.mkdir(parents=True, exist_ok=True)
            slot = Slot(Path(tempfile.mkdtemp(prefix="slot-", dir=parent)))
        except OSError as error:
            raise InfraError(f"no slot can be made in {parent}: {error.strerror}") from error
        try:
            for folder in (slot.repo, slot.out, slot.home, slot.data, slot.graded):
                folder.mkdir()
            self.export(slot.repo)
            for name, text in files.items():
                (slot.repo / name).write_text(text, encoding="utf-8", newline="")
            yield slot
        except OSError as error:
            raise InfraError(f"slot {slot.root}: {error.strerror or error}") from error
        finally:
            remove_tree(slot.root)

    def touched(self, slot: Slot) -> list[str]:
        """Protected files that are not plain files with the commit's very bytes and permissions."""
        return [name for name, facts in self._pristine.items() if _facts(slot.repo, name) != facts]


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


def _facts(repo: Path, name: str) -> tuple[str, int] | None:
    """Hash and permissions of a plain file; None if it is anything else, or behind a link."""
    path = repo / name
    try:
        if any(p.is_symlink() for p in (path, *path.parents) if p.is_relative_to(repo)):
            return None
        return (file_hash(path), stat.S_IMODE(path.stat().st_mode)) if path.is_file() else None
    except PermissionError:  # closed by the candidate
        return None


def _pin(folder: Path, home: Path) -> None:
    home.mkdir()
    for name in repository_files(folder):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(folder / name, home / name)
    repository = git.Repo.init(home)
    repository.git.update_environment(**_CLEAN)
    repository.git.execute(["git", "config", "core.autocrlf", "false"])
    repository.git.add("--all", "--force")
    repository.index.commit(
        "pinned", author=_WHO, committer=_WHO, author_date=_WHEN, commit_date=_WHEN
    )
    (home / ".git" / "pinned").touch()
