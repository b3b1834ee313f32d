"""From two code states to the kind of change between them, and what there is to say about it.

Changed statements that can run have a say each (rules). The kind is

    shallow      when only definitions came that nothing reaches
    refactoring  when what runs does the same (comments, names, parts moved into a function)
    parameter    when only settings, constants and arguments differ
    structural, data, objective   the most frequent of these, if a third of the statements are of it
    algorithmic  else

Not here: how a step ended (steps), which of the papers' categories a kind belongs to (categories).
"""

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache

from fml_hydra.analysis.behaviour.change import Delta, deltas, moved
from fml_hydra.analysis.behaviour.equivalence import rewritten
from fml_hydra.analysis.behaviour.reach import Key, Repository, reached
from fml_hydra.analysis.behaviour.rules import rules_of
from fml_hydra.analysis.behaviour.settings import SUFFIXES, changed_keys
from fml_hydra.analysis.behaviour.source import Units, units_of
from fml_hydra.analysis.behaviour.telling import told
from fml_hydra.ideas import Category

SPECIFIC: tuple[Category, ...] = ("structural", "data", "objective")
"""Kinds that name a part of the method; of equally frequent ones the first counts."""
SHARE = 3
"""One in so many statements is enough to name the change after them."""


@dataclass(frozen=True)
class Finding:
    """What kind of change lies between two code states."""

    kind: Category | None
    """The kind; None when nothing changed, or when it cannot be said."""
    rule: str
    """What decided."""
    changes: str
    """What changed, in a few words."""
    unreached: tuple[str, ...] = ()
    """Definitions that came and that nothing reaches."""


def classify(
    before: Mapping[str, str], after: Mapping[str, str], repository: Repository
) -> Finding:
    """The change from `before` to `after`, texts of the target files by path."""
    differing = [path for path in sorted({*before, *after}) if before.get(path) != after.get(path)]
    if not differing:
        return Finding(None, "nothing changed", "")
    try:
        return _compared(before, after, differing, repository)
    except (SyntaxError, RecursionError):
        return Finding(None, "does not parse", "does not parse")


def _compared(
    before: Mapping[str, str],
    after: Mapping[str, str],
    differing: Sequence[str],
    repository: Repository,
) -> Finding:
    old, new = (_python(files) for files in (before, after))
    found = [d for path in differing for d in deltas(path, old.get(path, {}), new.get(path, {}))]
    keys = [key for p in differing if p.endswith(SUFFIXES) for key in _keys(p, before, after)]
    texts = [p for p in differing if not p.endswith((*SUFFIXES, ".py"))]
    wanted = {(delta.path, delta.name) for delta in found}
    return _judged(found, keys, texts, _alive(before, after, repository, wanted))


def _python(files: Mapping[str, str]) -> dict[str, Units]:
    return {path: units_of(text) for path, text in files.items() if path.endswith(".py")}


def _keys(path: str, before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    keys = changed_keys(path, before.get(path, ""), after.get(path, ""))
    return [path] if keys is None else keys


def _alive(
    before: Mapping[str, str],
    after: Mapping[str, str],
    repository: Repository,
    wanted: Set[Key],
) -> frozenset[Key]:
    """Units that could run before, or can now, as far as they are `wanted`.

    Where it is not known what is started, everything that was there before is taken to run.
    """
    states = [tuple(sorted(files.items())) for files in (before, after)]
    found = frozenset[Key]()
    known = frozenset[Key]()
    if not repository.commands:
        known = frozenset((p, name) for p, units in _python(before).items() for name in units)
    for state in states:
        if not wanted <= found:
            found |= _reached(repository, state, known)
    return found


@lru_cache(maxsize=512)
def _reached(
    repository: Repository, files: tuple[tuple[str, str], ...], assumed: frozenset[Key]
) -> frozenset[Key]:
    """Kept, since a step's code is the next one's beginning."""
    return frozenset(reached(repository, _python(dict(files)), assumed))


def _judged(
    found: list[Delta], keys: list[str], texts: list[str], alive: frozenset[Key]
) -> Finding:
    come = [d for d in found if d.came_or_went and d.new]
    unreached = tuple(d.name for d in come if (d.path, d.name) not in alive)
    running = [d for d in found if (d.path, d.name) in alive]
    same = [*moved(running), *rewritten(running)]
    rules = [rule for delta in running if delta not in same for rule in rules_of(delta)]
    kinds = Counter(rule.kind for rule in rules if rule.kind)
    changes = told(found, keys, texts, unreached, kinds)
    if keys or kinds:
        kind = _elected(kinds)
        names = [rule.name for rule in rules if rule.kind == kind] or ["settings"]
        return Finding(kind, Counter(names).most_common(1)[0][0], changes, unreached)
    if unreached:
        return Finding("shallow", "only definitions nothing reaches", changes, unreached)
    if texts and not found:
        return Finding(None, "only text", changes)
    return Finding("refactoring", "the same, written otherwise", changes)


def _elected(kinds: Counter[Category]) -> Category:
    """The kind of the whole change from how often each kind of statement occurs."""
    code = kinds.total() - kinds["parameter"]
    if not code:
        return "parameter"
    best = max(SPECIFIC, key=lambda kind: kinds[kind])
    return best if kinds[best] * SHARE >= code else "algorithmic"
