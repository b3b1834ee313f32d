"""A task's repository at its pinned commit, and fresh slots of it to evaluate in.

Every slot is an export of one commit without history, remotes or `.git`, which shares its blocks
with the pinned files where the file system can (Btrfs, XFS, ...) and is a copy elsewhere: no
links, since a candidate may write to everything it finds. Not here: running anything in a slot
(execution), or what an edit may touch (session).
"""

import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from filelock import FileLock

from fml_hydra.errors import ConfigError, InfraError
from fml_hydra.hashing import file_hash
from fml_hydra.repository import repository_files, repository_hash
from fml_hydra.trees import behind_link, copy_file, remove_tree

try:
    import git
except ImportError as error:  # GitPython looks for the git program when it is imported
    raise ConfigError("git is not on PATH; install git and start again") from error

_CLEAN = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_TERMINAL_PROMPT": "0"}
_WHEN = "946684800 +0000"  # a fixed date makes the same files the same commit everywhere
_WHO = git.Actor("fml_hydra", "fml_hydra@localhost")
Facts = tuple[str, int]
"""Hash and permissions of a plain file."""


@dataclass(frozen=True)
class Slot:
    """A fresh place for one evaluation."""

    root: Path
    """Holds the rest; its name is random."""
    own: Mapping[str, Facts | None] = field(default_factory=dict)
    """What protected files are in this slot where we put others in ourselves."""

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
        self._home = Path(repository.working_dir)
        self._files = _tracked(repository)
        self.commit: str = repository.head.commit.hexsha
        """The pinned commit."""
        with tempfile.TemporaryDirectory() as scratch:
            _copy(self._home, [n for n in protected if n in self._files], Path(scratch))
            self._pristine = {name: _facts(Path(scratch), name) for name in protected}

    @classmethod
    def open(cls, folder: Path, protected: tuple[str, ...], cache: Path) -> "Workspace":
        """Pin the files of `folder` as one commit, made once and kept in `cache`."""
        name = folder.parent.name if folder.name == "repo" else folder.name
        home = cache / "workspaces" / f"{name}-{repository_hash(folder)[:16]}"
        home.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{home}.lock"):
            if not _is_whole(home):
                shutil.rmtree(home, ignore_errors=True)
                _pin(folder, home)
        return cls(git.Repo(home), protected)

    def read(self, name: str) -> str:
        """The text of a pinned file."""
        return (self._home / name).read_text(encoding="utf-8")

    @contextmanager
    def slot(
        self, parent: Path, files: Mapping[str, str], ours: Mapping[str, str] | None = None
    ) -> Iterator[Slot]:
        """A fresh slot: the pinned commit with `files` written over it; removed afterwards.

        `ours` are further files to write, which may be protected ones: for this slot they are what
        must not be touched.
        """
        try:
            parent.mkdir(parents=True, exist_ok=True)
            root = Path(tempfile.mkdtemp(prefix="slot-", dir=parent))
        except OSError as error:
            raise InfraError(f"no slot can be made in {parent}: {error.strerror}") from error
        try:
            slot = Slot(root)
            for folder in (slot.repo, slot.out, slot.home, slot.data, slot.graded):
                folder.mkdir()
            _copy(self._home, self._files, slot.repo)
            for name, text in {**(ours or {}), **files}.items():
                (slot.repo / name).write_text(text, encoding="utf-8", newline="")
            yield Slot(root, {n: _facts(slot.repo, n) for n in ours or () if n in self._pristine})
        except OSError as error:
            raise InfraError(f"slot {root}: {error.strerror or error}") from error
        finally:
            remove_tree(root)

    def touched(self, slot: Slot) -> list[str]:
        """Protected files that are not plain files with the commit's very bytes and permissions."""
        expected = self._pristine | dict(slot.own)
        return [name for name, facts in expected.items() if _facts(slot.repo, name) != facts]


def _facts(repo: Path, name: str) -> Facts | None:
    """Hash and permissions of a plain file; None if it is anything else, or behind a link."""
    path = repo / name
    try:
        if behind_link(repo, name):
            return None
        return (file_hash(path), stat.S_IMODE(path.stat().st_mode)) if path.is_file() else None
    except PermissionError:  # closed by the candidate
        return None


def _tracked(repository: git.Repo) -> list[str]:
    names: str = repository.git.ls_files("-z")
    return [name for name in names.split("\0") if name]


def _is_whole(home: Path) -> bool:
    """Whether the pinned files are there and nobody has changed them since."""
    if not (home / ".git" / "pinned").exists():
        return False
    repository = git.Repo(home)
    repository.git.update_environment(**_CLEAN)
    return not repository.is_dirty()


def _copy(source: Path, names: Sequence[str], destination: Path) -> None:
    for folder in sorted({str(Path(name).parent) for name in names}):
        (destination / folder).mkdir(parents=True, exist_ok=True)
    for name in names:
        copy_file(source / name, destination / name)


def _pin(folder: Path, home: Path) -> None:
    home.mkdir()
    for name in repository_files(folder):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(folder / name, home / name)
    repository = git.Repo.init(home)
    repository.git.update_environment(**_CLEAN)
    # its objects are never read and can be made again: no time for packing and syncing them
    for key, value in (("autocrlf", "false"), ("looseCompression", "0"), ("fsync", "none")):
        repository.git.execute(["git", "config", f"core.{key}", value])
    repository.git.add("--all", "--force")
    repository.index.commit(
        "pinned", author=_WHO, committer=_WHO, author_date=_WHEN, commit_date=_WHEN
    )
    (home / ".git" / "pinned").touch()
