"""Python text as named units of comparable statements: what two code states are compared by.

A unit is a function, a method, a class without its methods, or the code of a module outside all of
them. Docstrings, comments and annotations are gone, so that what is left is what runs. Only blocks
of text that were not seen before are parsed: two steps of a run share nearly all of them. Not here:
what a difference means (rules), and files that are not Python (settings).
"""

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache

from fml_hydra.analysis.behaviour.constants import without_constants
from fml_hydra.edits import syntax_tree

Function = ast.FunctionDef | ast.AsyncFunctionDef
MODULE = ""
"""Name of the unit of a module's own code."""
BLOCKS = ("body", "handlers", "orelse", "finalbody")
"""What compound statements are made of, beside their header."""
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_GO_ON = (" ", "\t", "\r", "#", ")", "]", "}", "else:", "elif ", "except", "finally:")
"""How lines begin that go on with the statement before."""
_QUOTES = ('"""', "'''")


@dataclass(frozen=True)
class Statement:
    """One statement; of a compound one (`if`, `for`, `def`, ...) the header only."""

    key: str
    """Equal for statements that do the same."""
    node: ast.AST
    """Its syntax tree, without a body."""

    @cached_property
    def without_constants(self) -> str:
        """Equal for statements that differ in constants only."""
        return without_constants(self.node)

    @cached_property
    def names(self) -> frozenset[str]:
        """What it mentions: names, attributes, texts that could be names, what `as` renames."""
        return frozenset(_mentioned(self.node))


@dataclass(frozen=True)
class Unit:
    """A named piece of a module."""

    name: str
    """`function`, `Class`, `Class.method`, or MODULE."""
    statements: tuple[Statement, ...]
    """Its statements in order, nested ones after their header."""
    node: Function | None = None
    """The whole function, for a function or method."""

    @cached_property
    def key(self) -> tuple[str, ...]:
        """Equal for units that do the same."""
        return tuple(statement.key for statement in self.statements)

    @cached_property
    def names(self) -> frozenset[str]:
        """Everything its statements mention."""
        return frozenset().union(*(statement.names for statement in self.statements))

    @cached_property
    def imports(self) -> frozenset[str]:
        """Names of the modules it imports, and of what it imports from them."""
        return frozenset(word for s in self.statements for word in _imported(s.node))


Units = Mapping[str, Unit]


@lru_cache(maxsize=2048)
def units_of(text: str) -> Units:
    """The units of a Python file by name; raises SyntaxError when it is none."""
    try:
        found = [unit for block in _blocks(text) for unit in _parsed(block)]
    except SyntaxError:  # a block that only looked like one
        found = list(_parsed(text))
    code = tuple(s for unit in found if unit.name == MODULE for s in unit.statements)
    return {unit.name: unit for unit in found} | {MODULE: Unit(MODULE, code)}


def _blocks(text: str) -> Iterator[str]:
    """The text in pieces of whole top-level statements, decorators with what they decorate."""
    block, quote = list[str](), ""
    marks = [mark for mark in _QUOTES if mark in text]
    for line in text.split("\n"):
        begins = bool(line) and not quote and not line.startswith(_GO_ON)
        if begins and block and not block[-1].startswith("@"):
            yield "\n".join(block)
            block = []
        block.append(line)
        for mark in [quote] if quote else marks:
            if line.count(mark) % 2:
                quote = "" if quote else mark
                break
    yield "\n".join(block)


@lru_cache(maxsize=8192)
def _parsed(block: str) -> tuple[Unit, ...]:
    try:
        module = _Stripped().visit(syntax_tree(block.removeprefix("\ufeff")))
        return tuple(_units(module.body, prefix=""))
    except (ValueError, RecursionError, MemoryError) as error:
        raise SyntaxError(str(error)) from error


def _units(body: Iterable[ast.stmt], prefix: str) -> Iterator[Unit]:
    code: list[ast.stmt] = []
    for node in body:
        if isinstance(node, _FUNCTIONS):
            yield Unit(prefix + node.name, tuple(_flat([node])), node)
        elif isinstance(node, ast.ClassDef) and not prefix:
            methods = [n for n in node.body if isinstance(n, _FUNCTIONS)]
            others = [n for n in node.body if not isinstance(n, _FUNCTIONS)]
            yield Unit(node.name, (_header(node), *_flat(others)))
            yield from _units(methods, f"{node.name}.")
        else:
            code.append(node)
    if code:
        yield Unit(MODULE, tuple(_flat(code)))


def _flat(body: Iterable[ast.AST]) -> Iterator[Statement]:
    for node in body:
        yield _header(node)
        for part in BLOCKS:
            nested = getattr(node, part, None)
            if isinstance(nested, list) and isinstance(node, (ast.stmt, ast.excepthandler)):
                if nested and part in ("orelse", "finalbody"):
                    yield Statement(part, ast.Pass())
                yield from _flat(nested)


def _header(node: ast.AST) -> Statement:
    if not hasattr(node, "body"):
        return Statement(ast.dump(node), node)
    parts: dict[str, object] = dict(ast.iter_fields(node))
    emptied: dict[str, object] = {part: [] for part in BLOCKS if part in parts}
    stub = type(node)(**{**parts, **emptied})
    return Statement(ast.dump(stub), stub)


def _imported(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.ImportFrom):
        yield from (node.module or "").split(".")
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.Import):
        yield from (part for alias in node.names for part in alias.name.split("."))


def _mentioned(node: ast.AST) -> Iterator[str]:
    for part in ast.walk(node):
        if isinstance(part, ast.Name):
            yield part.id
        elif isinstance(part, ast.Attribute):
            yield part.attr
        elif isinstance(part, ast.alias) and part.asname:
            yield part.name.rpartition(".")[2]
        elif isinstance(part, ast.Constant) and str(part.value).isidentifier():
            yield str(part.value)


class _Stripped(ast.NodeTransformer):
    """Without docstrings and annotations."""

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        """A text that stands alone does nothing."""
        alone = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        return None if alone else self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        """A parameter's name only."""
        return ast.arg(node.arg)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """Without what it returns."""
        node.returns = None
        return self.generic_visit(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        """Without what it returns."""
        node.returns = None
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        """A plain assignment, or the bare field of a class."""
        target, value = self.visit(node.target), node.value
        if value is None:
            return ast.Expr(target)
        return ast.Assign([target], self.visit(value), lineno=node.lineno)
