"""What a statement does, as far as its names tell: what it calls, assigns, multiplies, draws.

Functions of one syntax tree each; several rules ask the same, so answers are kept. Not here: what
follows from it (rules).
"""

import ast
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import TypeGuard

from fml_hydra.analysis.behaviour import vocabulary as vocab
from fml_hydra.analysis.behaviour.vocabulary import words

KEPT = 8192
"""Syntax trees whose answers are kept."""


@lru_cache(maxsize=KEPT)
def calls(node: ast.AST) -> tuple[str, ...]:
    """Names of the functions it calls, without what they are attributes of."""
    return tuple(_last(part.func) for part in ast.walk(node) if isinstance(part, ast.Call))


def draws(node: ast.AST) -> bool:
    """Whether it draws random numbers."""
    return any(name in vocab.RANDOM for name in calls(node))


def layers(node: ast.AST) -> Iterator[str]:
    """Classes of layers of which it makes one."""
    for part in ast.walk(node):
        if not isinstance(part, ast.Call):
            continue
        name, function = _last(part.func), part.func
        owner = _last(function.value) if isinstance(function, ast.Attribute) else ""
        known = vocab.LAYERS.fullmatch(name) or (owner in vocab.LIBRARIES and name[:1].isupper())
        if known and not words(name) & vocab.LOSS:
            yield name


@lru_cache(maxsize=KEPT)
def variables(node: ast.AST) -> frozenset[str]:
    """Plain names in it."""
    return frozenset(part.id for part in ast.walk(node) if isinstance(part, ast.Name))


@lru_cache(maxsize=KEPT)
def bound(node: ast.AST) -> frozenset[str]:
    """Plain names it gives a value, those of comprehensions included."""
    names = (part for part in ast.walk(node) if isinstance(part, ast.Name))
    return frozenset(name.id for name in names if isinstance(name.ctx, ast.Store))


def assigned(node: ast.AST) -> Iterator[str]:
    """Names of what it assigns, changes in place or loops over; of `a.b[0] = 1` it is `b`."""
    if isinstance(node, ast.Assign):
        found: Iterable[ast.AST] = node.targets
    elif isinstance(node, (ast.AugAssign, ast.For)):
        found = [node.target]
    else:
        found = ()
    for target in found:
        for one in target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]:
            while isinstance(one, (ast.Subscript, ast.Starred)) or _is_tensor_part(one):
                one = one.value
            if isinstance(one, (ast.Name, ast.Attribute)):
                yield _last(one)


@lru_cache(maxsize=KEPT)
def operations(node: ast.AST, kind: type[ast.operator] = ast.operator) -> tuple[ast.BinOp, ...]:
    """Operations with two operands in it, such as products of matrices (`ast.MatMult`)."""
    found = (part for part in ast.walk(node) if isinstance(part, ast.BinOp))
    return tuple(operation for operation in found if isinstance(operation.op, kind))


def any_word(names: Iterable[str], vocabulary: frozenset[str]) -> bool:
    """Whether one of the names has a word of the vocabulary in it."""
    return any(words(name) & vocabulary for name in names)


def _is_tensor_part(node: ast.AST) -> TypeGuard[ast.Attribute]:
    """Whether it is `weight.data`, which means `weight`."""
    return isinstance(node, ast.Attribute) and node.attr in ("data", "grad")


def _last(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""
