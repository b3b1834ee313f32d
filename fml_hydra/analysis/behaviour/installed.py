"""The tasks of this installation as far as behaviour needs them: repository, commands, ideas.

Not the whole definition (task): a task whose data or environment is not here is read all the same.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from fml_hydra.analysis.behaviour.reach import Repository
from fml_hydra.analysis.behaviour.source import Units, units_of
from fml_hydra.ideas import Idea, load_ideas
from fml_hydra.resources import conf_dir, tasks_dir

_NO_TASK = (OmegaConfBaseException, OSError, KeyError, TypeError, AttributeError)
"""What reading a YAML file that defines no task, or not in the usual way, raises."""


@dataclass(frozen=True)
class InstalledTask:
    """A task whose files are on this machine."""

    name: str
    """Name in tables."""
    repo: Path
    """The repository as an agent gets it."""
    targets: tuple[str, ...]
    """Files that a step may change."""
    commands: tuple[str, ...]
    """What an evaluation runs."""
    ideas_dir: Path
    """Its catalogue of ideas, if there is one."""

    def baseline(self) -> dict[str, str]:
        """The target files' text by path."""
        return {path: (self.repo / path).read_text(encoding="utf-8") for path in self.targets}

    def repository(self) -> Repository:
        """What the call graph needs."""
        paths = {p.relative_to(self.repo).as_posix(): p for p in self.repo.rglob("*.py")}
        others = {name: p for name, p in paths.items() if name not in self.targets}
        return Repository({n: u for n, p in others.items() if (u := _units(p))}, self.commands)

    def ideas(self) -> tuple[Idea, ...]:
        """Its ideas, sorted by id; raises TaskError when one cannot be read."""
        return load_ideas(self.ideas_dir, self.targets)


def installed_tasks(conf: Path | None = None, files: Path | None = None) -> list[InstalledTask]:
    """The tasks of `conf` (None: the shipped ones) whose files are there, by name."""
    folder, root = conf or conf_dir() / "task", files or tasks_dir()
    found = (_task(path, root) for path in sorted(folder.rglob("*.yaml")))
    return [task for task in found if task and task.repo.is_dir()]


@cache
def repository_of(task: str) -> Repository:
    """The repository of a task; an empty one for a task unknown to this installation.

    A shipped task has the name of its YAML file, so that the others need not be read.
    """
    known = _task(conf_dir() / "task" / f"{task}.yaml", tasks_dir())
    there = known is not None and known.name == task and known.repo.is_dir()
    return known.repository() if known and there else Repository()


def _task(path: Path, root: Path) -> InstalledTask | None:
    try:
        raw: Any = OmegaConf.to_container(OmegaConf.load(path))
        folder = Path(raw["dir"].replace("${tasks_dir}", str(root)))
        return InstalledTask(
            name=str(raw["name"]),
            repo=Path(str(raw.get("repository") or folder / "repo")).expanduser(),
            targets=tuple(raw["targets"]),
            commands=tuple(str(command["run"]) for command in raw["commands"]),
            ideas_dir=folder / "ideas",
        )
    except _NO_TASK:
        return None


def _units(path: Path) -> Units | None:
    """None for a file that is not Python of this version."""
    try:
        return units_of(path.read_text(encoding="utf-8"))
    except (SyntaxError, UnicodeDecodeError):
        return None
