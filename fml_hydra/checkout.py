"""A repository from elsewhere: cloned at a commit, files of a benchmark put in, ready in the cache.

What is assembled is a plain folder, without git. Not here: environments, data, and what a task does
with the repository.
"""

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass as plain_dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from filelock import FileLock
from pydantic import Field
from pydantic.dataclasses import dataclass

from fml_hydra.errors import ConfigError, TaskError
from fml_hydra.files import replace_json
from fml_hydra.hashing import file_hash, value_hash
from fml_hydra.knobs import STRICT
from fml_hydra.repository import repository_files, repository_hash

Report = Callable[[str], None]
_DONE = "done.json"
_QUIET = {"GIT_TERMINAL_PROMPT": "0", "GIT_LFS_SKIP_SMUDGE": "1"}  # a question would wait for ever


@dataclass(frozen=True, config=STRICT)
class Checkout:
    """Where a task's repository comes from."""

    url: str
    """What git clones; or a folder of this machine, which is taken as it stands."""
    commit: str = ""
    """Commit, tag or branch; empty: the default branch, or whatever the folder is at."""
    folder: str = ""
    """Folder of the clone that is the task's repository; empty: all of it."""
    licence: str = ""
    """What is known of its licence."""
    files: dict[str, str] = Field(default_factory=dict)
    """Files put in, by their place in the repository: paths in a checkout of FML-bench, or absolute
    ones."""

    @property
    def name(self) -> str:
        """The repository's own name, such as `AIF360`."""
        return PurePosixPath(self.url.rstrip("/")).name.removesuffix(".git")

    def home(self, cache: Path) -> Path:
        """Folder of what is made of it in the cache."""
        return (
            cache
            / "checkouts"
            / f"{self.name}-{value_hash([self.url, self.commit, self.folder, self.files])[:16]}"
        )

    def repo(self, cache: Path) -> Path:
        """The assembled repository."""
        return self.home(cache) / "repo"

    def is_ready(self, cache: Path) -> bool:
        """Whether the repository is there."""
        return (self.home(cache) / _DONE).exists()


FML_BENCH = Checkout(
    url="https://github.com/qrzou/FML-bench.git",
    commit="d336651ebea50c622c256f02ded82b68b4451fdc",
)
"""The benchmark of arXiv 2510.10472 (Apache-2.0), whose scripts are put in."""


@plain_dataclass(frozen=True)
class StandIns:
    """What the user has already, so that nothing is cloned."""

    repositories: Path | None = None
    """A folder of repositories, named as the last part of their addresses."""
    bench: Path | None = None
    """A checkout of FML-bench."""


def ready_checkout(
    origin: Checkout,
    cache: Path,
    own: StandIns = StandIns(),  # noqa: B008  # frozen
    report: Report = lambda _: None,
) -> Path:
    """The assembled repository, made if it is not there yet, or if a stand-in has changed.

    Safe to call from several processes. Raises TaskError with the remedy when it cannot be had.
    """
    home = origin.home(cache)
    home.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{home}.lock"):
        there = json.loads((home / _DONE).read_text()) if origin.is_ready(cache) else None
        if there is not None and _unchanged(origin, there, own):
            return origin.repo(cache)
        inputs = _inputs(origin, cache, own, report)
        scratch = home.with_name(f"{home.name}.part")
        shutil.rmtree(scratch, ignore_errors=True)  # left over from a kill
        scratch.mkdir()
        try:
            facts = _obtain(origin, scratch / "repo", own, report)
            for place, source in inputs.items():
                _put(source, scratch / "repo" / place)
            hashes = {place: file_hash(source) for place, source in inputs.items()}
            replace_json(scratch / _DONE, {**facts, "files": hashes})
            shutil.rmtree(home, ignore_errors=True)
            scratch.rename(home)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    return origin.repo(cache)


def provenance(origin: Checkout, cache: Path) -> dict[str, Any]:
    """Where an assembled repository came from: `source`, `commit`, and hashes of `files`."""
    facts: dict[str, Any] = json.loads((origin.home(cache) / _DONE).read_text())
    return facts


def _unchanged(origin: Checkout, there: Mapping[str, Any], own: StandIns) -> bool:
    """Whether what was assembled earlier is what the stand-ins, if any are named, would give."""
    folder = _stand_in(origin, own)
    if folder is not None and there.get("hash") != repository_hash(folder):
        return False
    sources = {p: (own.bench / s if own.bench else Path(s)) for p, s in origin.files.items()}
    known = {p: s for p, s in sources.items() if s.is_absolute()}
    return all(s.is_file() and file_hash(s) == there["files"].get(p) for p, s in known.items())


def _inputs(origin: Checkout, cache: Path, own: StandIns, report: Report) -> dict[str, Path]:
    """The files to put in, by place; clones FML-bench if one of them is there."""
    if not all(Path(source).is_absolute() for source in origin.files.values()):
        bench = own.bench or ready_checkout(FML_BENCH, cache, own, report)
    else:
        bench = Path("/")
    found = {place: bench / source for place, source in origin.files.items()}
    if missing := [str(path) for path in found.values() if not path.is_file()]:
        raise TaskError(
            f"origin.files: {missing[0]} does not exist; fml_bench_dir must name a checkout of "
            f"FML-bench at {FML_BENCH.commit[:7]}"
        )
    return found


def _put(source: Path, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, place)


def _stand_in(origin: Checkout, own: StandIns) -> Path | None:
    """A folder to be used instead of a clone: named by the user, or the origin itself."""
    named = own.repositories / origin.name if own.repositories else None
    folders = [folder for folder in (named, Path(origin.url)) if folder is not None]
    return next((folder for folder in folders if folder.is_dir()), None)


def _obtain(origin: Checkout, into: Path, own: StandIns, report: Report) -> dict[str, str]:
    """Write the repository's files to `into`; where they came from."""
    if folder := _stand_in(origin, own):
        return _copied(origin, folder, into, report)
    scratch = into.with_name("clone")
    try:
        commit = _cloned(origin, scratch, report)
        inside = scratch / origin.folder
        if not inside.is_dir():
            raise TaskError(f"origin.folder: {origin.url} has no folder {origin.folder!r}")
        shutil.rmtree(inside / ".git", ignore_errors=True)
        inside.rename(into)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return {"source": origin.url, "commit": commit}


def _copied(origin: Checkout, folder: Path, into: Path, report: Report) -> dict[str, str]:
    """Take a folder of this machine as it stands, if it is at the commit or built on it."""
    head = _head(origin, folder)
    if not head or not head.startswith(origin.commit):
        report(f"{folder} stands in for {origin.url}, at {head[:12] or 'no commit'} as it is")
    base = folder / origin.folder
    for name in repository_files(folder):
        if (folder / name).is_relative_to(base):
            _put(folder / name, into / (folder / name).relative_to(base))
    return {"source": str(folder), "commit": head, "hash": repository_hash(folder)}


def _head(origin: Checkout, folder: Path) -> str:
    """Commit of a stand-in, empty without git; raises TaskError if it is not what is wanted."""
    if not (folder / ".git").exists():
        return ""
    with _git_errors(str(folder)):
        repository = _git().Repo(folder)
        head = str(repository.head.commit.hexsha)
    try:
        repository.git.merge_base("--is-ancestor", origin.commit or head, head)
    except _git().GitCommandError:
        raise TaskError(
            f"{folder} is at {head[:12]}, which is not built on {origin.commit}; check that out: "
            f"git -C {folder} checkout {origin.commit}"
        ) from None
    return head


def _cloned(origin: Checkout, into: Path, report: Report) -> str:
    """Clone at the commit, without the contents of other commits; the commit's full hash."""
    report(f"cloning {origin.url}")
    with _git_errors(origin.url):
        repository = _git().Repo.clone_from(
            origin.url, into, multi_options=["--filter=blob:none", "--no-checkout"], env=_QUIET
        )
        repository.git.update_environment(**_QUIET)
        if origin.folder:
            repository.git.sparse_checkout("set", origin.folder)
        repository.git.checkout("--detach", origin.commit or "HEAD")
        return str(repository.head.commit.hexsha)


@contextmanager
def _git_errors(what: str) -> Iterator[None]:
    """Git's own message in one line."""
    try:
        yield
    except (_git().GitCommandError, _git().InvalidGitRepositoryError, ValueError) as error:
        lines = str(getattr(error, "stderr", "") or error).strip().splitlines()
        told = next((line for line in lines if "fatal:" in line or "error:" in line), lines[-1])
        reason = told.strip(" '").removeprefix("stderr: '")
        knob = "fml_bench_dir=CHECKOUT" if what == FML_BENCH.url else "repositories_dir=FOLDER"
        raise TaskError(
            f"{what} cannot be had: {reason}; check the network, or let what is on this machine "
            f"stand in for it with {knob}"
        ) from error


def _git() -> Any:
    try:
        import git
    except ImportError as error:  # GitPython looks for the git program when it is imported
        raise ConfigError("git is not on PATH; install git and start again") from error
    return git
