"""The constants in a Python syntax tree that look like knobs, with the names they go by. Pure.

Left out: docstrings, f-strings, indices, exponents, integers in comparisons.
Not here: what a constant may become (mutate).
"""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate


@dataclass(frozen=True)
class Site:
    """One constant."""

    value: bool | int | float | str
    """What it evaluates to."""
    written: str
    """As it stands in the file."""
    start: int
    """Offset of its first character."""
    name: str
    """Variable, key, parameter or function it belongs to; may be empty."""
    direct: bool
    """Whether it is the whole value of that name, rather than a part of an expression."""
    negative: bool
    """Whether a minus stands before it."""


@dataclass(frozen=True)
class _Context:
    name: str = ""
    direct: bool = False
    negative: bool = False


def sites(tree: ast.AST, text: str) -> Iterator[Site]:
    """The constants of `tree`, which was parsed from `text`."""
    lines = text.split("\n")
    starts = [0, *accumulate(len(line) + 1 for line in lines)]
    for node, context in _walk(tree, _Context()):
        value, row = node.value, node.lineno - 1
        if not isinstance(value, bool | int | float | str) or node.end_lineno != node.lineno:
            continue
        raw = lines[row].encode() if row < len(lines) else b""  # columns are counted in bytes
        written = raw[node.col_offset : node.end_col_offset].decode(errors="replace")
        start = starts[row] + len(raw[: node.col_offset].decode(errors="replace"))
        if written and text.startswith(written, start):
            yield Site(value, written, start, context.name, context.direct, context.negative)


def _walk(node: ast.AST, context: _Context) -> Iterator[tuple[ast.Constant, _Context]]:
    if isinstance(node, ast.Constant):
        yield node, context
        return
    for child, inner in _children(node, context):
        yield from _walk(child, inner)


def _children(node: ast.AST, context: _Context) -> Iterator[tuple[ast.AST, _Context]]:
    """The children worth looking into, each with the name it goes by."""
    part = _Context(context.name)
    match node:
        case ast.JoinedStr() | ast.Expr(value=ast.Constant()):
            pass
        case ast.Subscript():
            yield node.value, part
        case ast.Compare():
            sides = (node.left, *node.comparators)
            yield from ((side, part) for side in sides if not _is_integer(side))
        case ast.BinOp(op=ast.Pow()):
            yield node.left, part
        case ast.UnaryOp(op=ast.USub()):
            yield node.operand, _Context(context.name, context.direct, negative=True)
        case _:
            yield from _named_children(node, part)


def _named_children(node: ast.AST, part: _Context) -> Iterator[tuple[ast.AST, _Context]]:
    match node:
        case ast.Assign():
            yield node.value, _Context(name_of(node.targets[0]), direct=True)
        case ast.AnnAssign(value=ast.expr() as value):
            yield value, _Context(name_of(node.target), direct=True)
        case ast.keyword():
            yield node.value, _Context(node.arg or "", direct=True)
        case ast.Dict():
            for key, value in zip(node.keys, node.values, strict=True):
                yield value, _Context(name_of(key) or part.name, direct=bool(name_of(key)))
        case ast.Call():
            yield node.func, part
            yield from ((child, _Context(name_of(node.func))) for child in node.args)
            yield from ((child, part) for child in node.keywords)
        case ast.FunctionDef() | ast.ClassDef():
            inside = (c for c in ast.iter_child_nodes(node) if c not in node.decorator_list)
            yield from ((child, _Context(node.name)) for child in inside)
        case ast.arguments():
            yield from _defaults(node)
        case _:
            yield from ((child, part) for child in ast.iter_child_nodes(node))


def _defaults(node: ast.arguments) -> Iterator[tuple[ast.AST, _Context]]:
    positional = [*node.posonlyargs, *node.args]
    having = positional[len(positional) - len(node.defaults) :]
    pairs = [*zip(having, node.defaults, strict=True)]
    pairs += [(a, d) for a, d in zip(node.kwonlyargs, node.kw_defaults, strict=True) if d]
    yield from ((default, _Context(arg.arg, direct=True)) for arg, default in pairs)


def _is_integer(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int)


def name_of(node: ast.AST | None) -> str:
    """The last part of what an expression is called: `a.b["lr"]` is `lr`."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Subscript(slice=ast.Constant(value=str(name))) | ast.Constant(value=str(name)):
            return name
        case ast.Call(func=ast.Attribute(attr="get"), args=[ast.Constant(value=str(name)), *_]):
            return name
    return ""


def choices(tree: ast.AST) -> dict[str, tuple[str, ...]]:
    """For each name, the strings the file compares it with or looks up by it."""
    seen: dict[str, dict[str, None]] = {}
    tables = {
        name_of(node.targets[0]): _strings(node.value.keys)
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict)
    }
    for node in ast.walk(tree):
        name, values = "", []
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Eq | ast.In | ast.NotIn):
            name, right = name_of(node.left), node.comparators[0]
            group = right.elts if isinstance(right, ast.Tuple | ast.List | ast.Set) else [right]
            values = _strings(group)
        elif isinstance(node, ast.Subscript) and not isinstance(node.slice, ast.Constant):
            name, table = name_of(node.slice), node.value
            named = tables.get(name_of(table), [])
            values = _strings(table.keys) if isinstance(table, ast.Dict) else named
        if name:
            seen.setdefault(name, {}).update(dict.fromkeys(values))
    return {name: tuple(values) for name, values in seen.items() if len(values) > 1}


def _strings(nodes: Sequence[ast.expr | None]) -> list[str]:
    return [n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)]
