"""Statements without their constants: what two that differ in nothing else have in common.

Not here: which constants differ (telling).
"""

import ast
from typing import TypeVar

Tree = TypeVar("Tree", bound=ast.AST)
_OPAQUE = ("Name", "Attribute", "Subscript", "Call", "Starred")


def constant(node: ast.AST) -> bool:
    """Whether an expression is made of numbers and texts only."""
    return not any(type(part).__name__ in _OPAQUE for part in ast.walk(node))


def without_constants(node: ast.AST) -> str:
    """A statement as a text without constants, and without arguments and entries that are one."""
    return ast.dump(_Masked().visit(copied(node)))


def copied(node: Tree) -> Tree:
    """A copy of a tree whose nodes may be changed."""
    return type(node)(**{name: _copied(value) for name, value in ast.iter_fields(node)})


def _copied(value: object) -> object:
    if isinstance(value, list):
        return [_copied(item) for item in value]
    return copied(value) if isinstance(value, ast.AST) else value


class _Masked(ast.NodeTransformer):
    """Constants become one and the same, but where they choose: keys of subscripts and dicts."""

    def visit(self, node: ast.AST) -> ast.AST:
        """Any expression of constants counts as one."""
        if isinstance(node, ast.expr) and constant(node):
            return ast.Constant(0)
        return super().visit(node)  # type: ignore[no-any-return]

    def expression(self, node: ast.expr) -> ast.expr:
        """An expression stays one."""
        found = self.visit(node)
        assert isinstance(found, ast.expr)
        return found

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        """`settings["epochs"]` is not `settings["width"]`."""
        if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
            return ast.Subscript(self.expression(node.value), node.slice, node.ctx)
        return self.generic_visit(node)

    def visit_Dict(self, node: ast.Dict) -> ast.AST:
        """Entries with a constant value are left out."""
        kept = [(k, v) for k, v in zip(node.keys, node.values, strict=True) if not constant(v)]
        return ast.Dict([k for k, _ in kept], [self.expression(v) for _, v in kept])

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Named arguments with a constant value are left out."""
        node.keywords = [word for word in node.keywords if not constant(word.value)]
        return self.generic_visit(node)
