"""Which definitions a run can execute: a static call graph by names, from the entry points.

Careful on the side of "reached": a definition counts as reached as soon as anything reached
mentions its name, be it as an attribute or as a text. Not here: whether what it computes matters.
"""

import posixpath
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePosixPath

from fml_hydra.analysis.behaviour.source import MODULE, Unit, Units

Key = tuple[str, str]
"""Path of a file and name of a unit in it."""
CALLED_BY_LIBRARIES = frozenset(
    {"forward", "backward", "call", "step", "fit", "transform", "predict", "configure_optimizers"}
    | {"training_step", "validation_step", "setup"}
)
"""Methods that frameworks call without our code mentioning them."""


@dataclass(frozen=True, eq=False)
class Repository:
    """What is known of a task's repository beside the files a step changes."""

    others: Mapping[str, Units] = field(default_factory=dict)
    """Python files that no step changes, by path."""
    commands: tuple[str, ...] = ()
    """What an evaluation runs."""

    def entries(self, paths: Iterable[str]) -> list[str]:
        """The files that are started; none when the commands do not tell."""
        modules = {f"{word.replace('.', '/')}.py" for word in self.words}
        return [path for path in paths if path in self.words or path in modules]

    @cached_property
    def words(self) -> frozenset[str]:
        """Everything that is said on the command lines."""
        return frozenset(posixpath.normpath(w) for line in self.commands for w in _split(line))


def _split(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:  # quotes that do not match
        return command.split()


def reached(
    repository: Repository, files: Mapping[str, Units], assumed: Iterable[Key] = ()
) -> set[Key]:
    """The units that may be executed; `files` are the changeable ones by path.

    `assumed` are taken as reached when the entry points are not known.
    """
    everything = {**repository.others, **files}
    entries = repository.entries(everything)
    loaded = _imported(everything, entries) if entries else set(everything)
    graph = _Graph({(p, name): u for p in loaded for name, u in everything[p].items()})
    start = [key for key in graph.units if key[1] == MODULE]
    if not entries:
        start += [key for key in assumed if key in graph.units]
    graph.follow(start, repository.words)
    return graph.found


class _Graph:
    """Definitions, and which of them were found to be reached."""

    def __init__(self, units: Mapping[Key, Unit]) -> None:
        self.units, self.found, self._names = units, set[Key](), set[str]()
        self._by_name: dict[str, list[Key]] = {}
        self._by_owner: dict[Key | None, list[Key]] = {}
        for key in units:
            self._by_name.setdefault(_short(key), []).append(key)
            self._by_owner.setdefault(_owner(key), []).append(key)

    def follow(self, start: Iterable[Key], names: Iterable[str]) -> None:
        """Everything that is reached from `start` and from the mention of `names`."""
        left = [*start, *self._mentioned(names)]
        while left:
            key = left.pop()
            if key in self.found:
                continue
            self.found.add(key)
            left += self._mentioned(self.units[key].names)
            left += self._methods(key)

    def _mentioned(self, names: Iterable[str]) -> list[Key]:
        new = set(names) - self._names
        self._names |= new
        keys = [key for name in new for key in self._by_name.get(name, ())]
        return [key for key in keys if (owner := _owner(key)) is None or owner in self.found]

    def _methods(self, owner: Key) -> list[Key]:
        """Those of a class that is reached, as far as anything calls them."""
        names = self._names | CALLED_BY_LIBRARIES if owner in self._by_owner else frozenset()
        methods = self._by_owner.get(owner, ())
        return [key for key in methods if _short(key) in names or _short(key).startswith("__")]


def _short(key: Key) -> str:
    return key[1].rpartition(".")[2]


def _owner(key: Key) -> Key | None:
    """The class of a method."""
    path, name = key
    return (path, name.partition(".")[0]) if "." in name else None


def _imported(files: Mapping[str, Units], entries: Iterable[str]) -> set[str]:
    """The entries and all files they import, directly or not."""
    loaded, left = set[str](), list(entries)
    while left:
        path = left.pop()
        loaded.add(path)
        words = frozenset().union(*(unit.imports for unit in files[path].values()))
        left += [p for p in files if p not in loaded and _module(p) in words]
    return loaded


def _module(path: str) -> str:
    pure = PurePosixPath(path)
    return pure.parent.name if pure.stem == "__init__" else pure.stem
