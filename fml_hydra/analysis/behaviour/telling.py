"""A change in a few words, for people: `constants 2 (epochs, width); new function 1; loss`."""

import ast
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence

from fml_hydra.analysis.behaviour.change import Delta, Pair, moved
from fml_hydra.analysis.behaviour.constants import constant
from fml_hydra.analysis.behaviour.source import Function, Statement
from fml_hydra.ideas import Category

SHOWN = 3
"""Names listed of one kind."""
_HEADERS = (ast.If, ast.For, ast.While, ast.With, ast.Try, ast.ExceptHandler)
_JUMPS = (ast.Break, ast.Continue, ast.Raise)
_AREAS: Mapping[Category, str] = {
    "structural": "network",
    "objective": "loss",
    "data": "data pipeline",
}


def told(
    found: Sequence[Delta],
    keys: Sequence[str],
    texts: Sequence[str],
    unreached: Sequence[str],
    kinds: Container[Category],
) -> str:
    """The parts of a change: settings, constants, definitions, what part of the method it is.

    `keys` of settings files, `texts` that are neither code nor settings, `unreached` definitions,
    `kinds` of what runs.
    """
    there = [delta for delta in found if not delta.came_or_went]
    pairs = [pair for delta in there for pair in delta.pairs]
    areas = [text for kind, text in _AREAS.items() if kind in kinds]
    flow = ["control flow"] if any(map(_is_flow, pairs)) else []
    others = sum(not (pair.only_constants or pair.is_import) for pair in pairs)
    parts = [
        _listed("settings", keys),
        _listed("constants", [n for d in there for p in d.pairs for n in _constants(p, d)]),
        _listed("arguments", [name for pair in pairs for name in _arguments(pair)]),
        *_definitions(found),
        _listed("unreached", unreached),
        *areas,
        *flow,
        "imports" if any(pair.is_import for pair in pairs) else "",
        f"statements {others}" if others and not (areas or flow) else "",
        _listed("texts", texts),
    ]
    return "; ".join(filter(None, parts)) or "comments, annotations or formatting"


def _definitions(found: Sequence[Delta]) -> Iterator[str]:
    elsewhere = moved(list(found))
    if elsewhere:
        yield "renames"
    others = [d for d in found if d.came_or_went and d not in elsewhere]
    for what, units in (
        ("new", [d.new for d in others if d.new]),
        ("removed", [d.old for d in others if d.old]),
    ):
        classes = [unit.name for unit in units if unit.node is None]
        functions = [u for u in units if u.node and u.name.partition(".")[0] not in classes]
        yield _listed(f"{what} class", classes)
        yield _listed(f"{what} function", [unit.name.rpartition(".")[2] for unit in functions])


def _listed(what: str, names: Sequence[str]) -> str:
    if not names:
        return ""
    known = list(dict.fromkeys(filter(None, names)))
    shown = ", ".join(known[:SHOWN]) + (", ..." if len(known) > SHOWN else "")
    return f"{what} {len(names)}" + (f" ({shown})" if shown else "")


def _constants(pair: Pair, delta: Delta) -> list[str]:
    """Names of the constants that differ, where only constants do; of nameless ones the place."""
    if not pair.only_constants or not pair.old or not pair.new:
        return []
    place = f"in {delta.short}" if delta.name else ""
    old, new = (Counter(_labelled(s.node, place)) for s in (pair.old, pair.new))
    more = max(new - old, old - new, key=Counter.total)
    return [name for name, _ in more.elements()]


def _labelled(node: ast.AST, label: str) -> Iterator[tuple[str, str]]:
    """Each constant with the name of its key, argument or variable."""
    several = isinstance(node, (ast.List, ast.Tuple, ast.Dict))
    if isinstance(node, ast.expr) and constant(node) and not several:
        yield label, ast.dump(node)
        return
    for child, name in _children(node, label):
        yield from _labelled(child, name)


def _children(node: ast.AST, label: str) -> Iterator[tuple[ast.AST, str]]:
    if isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            known = isinstance(key, ast.Constant)
            yield value, str(key.value) if known else label  # type: ignore[union-attr]
    elif isinstance(node, ast.keyword):
        yield node.value, node.arg or label
    elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        yield node.value, node.targets[0].id
    else:
        yield from ((child, label) for child in ast.iter_child_nodes(node))


def _arguments(pair: Pair) -> list[str]:
    """Functions whose parameters differ, or that are called with other arguments."""
    if not pair.old or not pair.new or pair.only_constants:
        return []
    old, new = pair.old.node, pair.new.node
    if isinstance(old, Function) and isinstance(new, Function):
        return [new.name]
    calls = [_callees(statement) for statement in (pair.old, pair.new)]
    return calls[1][:1] if calls[1] and calls[0] == calls[1] else []


def _callees(statement: Statement) -> list[str]:
    calls = [part.func for part in ast.walk(statement.node) if isinstance(part, ast.Call)]
    return [ast.unparse(function).rpartition(".")[2] for function in calls]


def _is_flow(pair: Pair) -> bool:
    return isinstance(pair.shown.node, (*_HEADERS, *_JUMPS)) and not pair.only_constants
