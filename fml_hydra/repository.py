"""Which files a repository consists of, and their common hash.

In a git work tree: what git tracks, and what is new and not ignored, as it stands on disk. Any
other folder: everything. Not here: pinning and copying (workspace).
"""

from pathlib import Path

from fml_hydra.errors import ConfigError
from fml_hydra.hashing import file_hash, text_hash

_SKIP = {".git", "__pycache__"}


def repository_files(folder: Path) -> list[Path]:
    """Paths relative to `folder`, sorted; symbolic links count as the files they lead to."""
    names = _listed_by_git(folder) if (folder / ".git").exists() else _found(folder)
    return sorted(name for name in names if (folder / name).is_file())


def repository_hash(folder: Path) -> str:
    """SHA-256 over relative paths and contents, in hex."""
    files = repository_files(folder)
    return text_hash("\n".join(f"{n.as_posix()} {file_hash(folder / n)}" for n in files))


def _found(folder: Path) -> list[Path]:
    paths = (path.relative_to(folder) for path in folder.rglob("*"))
    return [path for path in paths if _SKIP.isdisjoint(path.parts)]


def _listed_by_git(folder: Path) -> list[Path]:
    try:
        import git
    except ImportError as error:  # GitPython looks for the git program when it is imported
        raise ConfigError("git is not on PATH; install git and start again") from error
    told = git.Repo(folder).git.ls_files("--cached", "--others", "--exclude-standard", "-z")
    names = {Path(name) for name in told.split("\0") if name}
    return [name for name in names if _SKIP.isdisjoint(name.parts)]
