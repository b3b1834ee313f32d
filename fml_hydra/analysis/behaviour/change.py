"""What differs between two code states: units that came, went or changed, and their statements.

Not here: whether it can run (reach), which kind of change it is (rules), how it is told (telling).
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher

from fml_hydra.analysis.behaviour.source import MODULE, Statement, Unit, Units

Statements = tuple[Statement, ...]


@dataclass(frozen=True)
class Pair:
    """A statement that came, went, or took the place of another."""

    old: Statement | None
    """As it was; None when it is new."""
    new: Statement | None
    """As it is; None when it is gone."""

    @property
    def shown(self) -> Statement:
        """The statement as it is, or as it was when it is gone."""
        shown = self.new or self.old
        assert shown is not None
        return shown

    @property
    def only_constants(self) -> bool:
        """Whether nothing but numbers, texts and constant arguments or entries differs."""
        if self.old is None or self.new is None:
            return False
        return self.old.without_constants == self.new.without_constants

    @property
    def is_import(self) -> bool:
        """Whether it only imports."""
        return isinstance(self.shown.node, (ast.Import, ast.ImportFrom))


@dataclass(frozen=True)
class Delta:
    """A unit that is not as it was."""

    path: str
    """The file it is in."""
    name: str
    """The unit's name."""
    old: Unit | None
    """As it was; None when it is new."""
    new: Unit | None
    """As it is; None when it is gone."""
    pairs: tuple[Pair, ...]
    """Its statements that differ."""

    @property
    def short(self) -> str:
        """The name without that of a class."""
        return self.name.rpartition(".")[2]

    @property
    def came_or_went(self) -> bool:
        """Whether it is a definition that was not there, or is there no more."""
        return self.name != MODULE and not (self.old and self.new)


def deltas(path: str, before: Units, after: Units) -> list[Delta]:
    """The units of a file that differ, in the order of the new file, those that went at the end."""
    names = [*after, *(name for name in before if name not in after)]
    units = [(name, before.get(name), after.get(name)) for name in names]
    return [
        Delta(path, name, old, new, tuple(_pairs(old, new)))
        for name, old, new in units
        if old is None or new is None or old.key != new.key
    ]


def moved(found: list[Delta]) -> list[Delta]:
    """Definitions that only got another name or place."""
    gone = {_body(d.old) for d in found if d.came_or_went and d.old}
    come = {_body(d.new) for d in found if d.came_or_went and d.new}
    return [d for d in found if d.came_or_went and _body(d.old or d.new) in gone & come]


def _body(unit: Unit | None) -> tuple[str, ...]:
    """A unit's key without its own name."""
    if unit is None:
        return ()
    short = unit.name.rpartition(".")[2]
    return (unit.key[0].replace(f"name='{short}'", "", 1), *unit.key[1:])


def _without_ends(old: Statements, new: Statements) -> tuple[Statements, Statements]:
    """Both without what they have in common at the beginning and at the end: matching is slow."""
    start, least = 0, min(len(old), len(new))
    while start < least and old[start].key == new[start].key:
        start += 1
    end = 0
    while end < least - start and old[-1 - end].key == new[-1 - end].key:
        end += 1
    return old[start : len(old) - end], new[start : len(new) - end]


def _pairs(old: Unit | None, new: Unit | None) -> Iterator[Pair]:
    before, after = _without_ends(old.statements if old else (), new.statements if new else ())
    keys = [s.key for s in before], [s.key for s in after]
    matcher = SequenceMatcher(None, *keys, autojunk=False)
    for what, i, j, k, m in matcher.get_opcodes():
        if what == "equal":
            continue
        if j - i == m - k:
            yield from map(Pair, before[i:j], after[k:m])
        elif m > k:  # what was replaced by more or fewer statements is told by the new ones
            yield from (Pair(None, statement) for statement in after[k:m])
        else:
            yield from (Pair(statement, None) for statement in before[i:j])
