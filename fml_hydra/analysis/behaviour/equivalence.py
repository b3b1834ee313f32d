"""Which functions were only written otherwise: temporaries and small helpers are written out first.

Two functions do the same when, after that, they have the same effects in the same order, up to the
names of their variables. Equal algebra is not seen, and that arrays may be changed in place through
another name is not considered. Not here: definitions that only moved (change).
"""

import ast
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import cast

from fml_hydra.analysis.behaviour.change import Delta
from fml_hydra.analysis.behaviour.constants import Tree, copied
from fml_hydra.analysis.behaviour.source import BLOCKS, Function

_FANCY = frozenset({ast.Match, ast.NamedExpr, ast.Global, ast.Nonlocal})
"""What sets variables in ways that are not followed."""
_SCOPES = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Lambda)


def rewritten(found: Sequence[Delta]) -> list[Delta]:
    """The deltas that change how something is written, not what it does; helpers included."""
    gone = {d.short: d.old.node for d in found if d.old and d.old.node and not d.new}
    come = {d.short: d.new.node for d in found if d.new and d.new.node and not d.old}
    same, used = [], set[str]()
    for delta in found:
        if delta.old and delta.old.node and delta.new and delta.new.node:
            if not _may_be_equal(delta.old.node, gone, delta.new.node, come):
                continue
            old, new = _Meaning(gone), _Meaning(come)
            if old.of(delta.old.node) == new.of(delta.new.node):
                same.append(delta)
                used |= old.used | new.used
    return [d for d in found if d in same or (d.short in used and not (d.old and d.new))]


def _may_be_equal(
    old: Function, gone: Mapping[str, Function], new: Function, come: Mapping[str, Function]
) -> bool:
    """A cheap look first: both sides do the same sorts of things, none of them too fancy."""
    before, after = _ingredients(old), _ingredients(new)
    if not _FANCY.isdisjoint(before | after):
        return False
    more = frozenset().union(*map(_ingredients, (*gone.values(), *come.values())))
    return before ^ after <= more | gone.keys() | come.keys()


@lru_cache(maxsize=4096)
def _ingredients(node: ast.AST) -> frozenset[object]:
    """Operators, attributes, numbers and called names."""
    found = set[object]()
    for part in ast.walk(node):
        if isinstance(part, (ast.operator, ast.unaryop, ast.cmpop, *_FANCY)):
            found.add(type(part))
        elif isinstance(part, ast.Attribute):
            found.add(part.attr)
        elif isinstance(part, ast.Constant) and isinstance(part.value, (int, float)):
            found.add(part.value)
        elif isinstance(part, ast.Call) and isinstance(part.func, ast.Name):
            found.add(part.func.id)
    return frozenset(found)


@dataclass(frozen=True)
class _Value:
    """What a variable stands for."""

    expression: ast.expr
    """With everything written out."""
    at: int
    """Effects there were before."""


@dataclass
class _Meaning:
    """Collects the effects of one function."""

    helpers: Mapping[str, Function]
    """Functions that are written out where they are called."""
    used: set[str] = field(default_factory=set)
    """Those that were."""
    effects: list[ast.AST] = field(default_factory=list)
    """What happens, in order."""
    values: dict[str, _Value] = field(default_factory=dict)
    """Variables that are written out where they are read."""
    loads: Counter[str] = field(default_factory=Counter)
    """How often the function reads each variable."""

    def of(self, function: Function) -> str:
        """The effects as a text, with numbered variables."""
        self.loads = _loads(function)
        self._run(function.body)
        effects = [function.args, *self.effects]
        everything = copied(ast.List(effects))  # type: ignore[arg-type]
        return ast.dump(_Numbered(frozenset(_stored(everything))).visit(everything))

    def result(self, function: Function, given: Mapping[str, ast.expr]) -> ast.expr | None:
        """What a helper returns for these arguments; None when it does more than that."""
        self.loads = _loads(function)
        self.values = {name: _Value(value, 0) for name, value in given.items()}
        self._run(function.body)
        only = self.effects[0] if len(self.effects) == 1 else None
        return only.value if isinstance(only, ast.Return) else None

    def _run(self, body: Iterable[ast.AST]) -> None:
        for node in body:
            if hasattr(node, "body"):
                self._block(node)
            elif isinstance(node, ast.Assign) and len(node.targets) == 1:
                self._assign(node.targets[0], self._written_out(node.value))
            elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
                before = ast.Name(node.target.id, ast.Load())
                operation = ast.BinOp(before, node.op, node.value)
                self._set(node.target.id, self._written_out(operation))
            else:
                self.effects.append(self._written_out(node))

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self._set(target.id, value)
        elif isinstance(target, ast.Tuple) and all(isinstance(t, ast.Name) for t in target.elts):
            parts: Sequence[ast.expr] = value.elts if isinstance(value, ast.Tuple) else ()
            for i, name in enumerate(t.id for t in target.elts if isinstance(t, ast.Name)):
                item = ast.Subscript(value, ast.Constant(i), ast.Load())
                self._set(name, parts[i] if len(parts) == len(target.elts) else item)
        else:
            self.effects.append(ast.Assign([self._written_out(target)], value))

    def _set(self, name: str, value: ast.expr) -> None:
        self.values[name] = _Value(value, len(self.effects))

    def _block(self, node: ast.AST) -> None:
        """It may run never or often: what variables are before and after it are effects."""
        changed = list(dict.fromkeys(_stored(node)))
        self._hand_over(name for name in changed if name in self.values)
        parts = dict(ast.iter_fields(node))
        bodies = [(part, parts.pop(part)) for part in BLOCKS if part in parts]
        header = {name: self._anything(value) for name, value in parts.items()}
        self.effects.append(type(node)(**header))
        before = dict(self.values)
        for part, body in bodies:
            self.effects.append(ast.Constant(part))
            self._run(body)
            kept = [n for n in changed if n in self.values and not self._serves_only(n, node)]
            self._hand_over(kept)
            self.values = dict(before)

    def _hand_over(self, names: Iterable[str]) -> None:
        for name in list(names):
            value = self.values.pop(name).expression
            self.effects.append(ast.Assign([ast.Name(name, ast.Store())], value))

    def _serves_only(self, name: str, block: ast.AST) -> bool:
        """Whether a variable is set before it is read in a block, and not read elsewhere."""
        first = next((n for n in _in_order(block) if n.id == name), None)
        set_first = first is not None and isinstance(first.ctx, ast.Store)
        return set_first and _loads(block)[name] == self.loads[name]

    def _anything(self, value: object) -> object:
        if isinstance(value, list):
            return [self._anything(item) for item in value]
        return self._written_out(value) if isinstance(value, ast.AST) else value

    def _written_out(self, node: Tree) -> Tree:
        return cast(Tree, _WrittenOut(self).visit(copied(node)))


@dataclass
class _WrittenOut(ast.NodeTransformer):
    """Puts values in the place of variables, and results in the place of calls of helpers."""

    meaning: _Meaning
    hidden: frozenset[str] = frozenset()
    """Variables of comprehensions around."""

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """A value from before other effects is marked: reading later could give another one."""
        value = self.meaning.values.get(node.id)
        if value is None or node.id in self.hidden or not isinstance(node.ctx, ast.Load):
            return node
        if value.at == len(self.meaning.effects) or isinstance(value.expression, ast.Constant):
            return value.expression
        return ast.Call(ast.Name(f"@{value.at}", ast.Load()), [value.expression], [])

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Written out if it is a helper that only returns something."""
        call = self.generic_visit(node)
        helpers = self.meaning.helpers
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            return call
        function = helpers.get(call.func.id)
        given = _arguments(function, call) if function else None
        if function is None or given is None:
            return call
        others = {name: f for name, f in helpers.items() if f is not function}
        inner = _Meaning(others)
        result = inner.result(function, given)
        if result is None:
            return call
        self.meaning.used |= {call.func.id, *inner.used}
        return result

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        """An entry of a dict that is written down right there."""
        found = self.generic_visit(node)
        if isinstance(found, ast.Subscript) and isinstance(found.value, ast.Dict):
            wanted = ast.dump(found.slice)
            for key, value in zip(found.value.keys, found.value.values, strict=True):
                if key is not None and ast.dump(key) == wanted:
                    return value
        return found

    def visit(self, node: ast.AST) -> ast.AST:
        """Variables of a comprehension are its own."""
        if isinstance(node, _SCOPES):
            own = {arg.arg for arg in ast.walk(node) if isinstance(arg, ast.arg)}
            inside = _WrittenOut(self.meaning, self.hidden | own | {*_stored(node)})
            return inside.generic_visit(node)
        return super().visit(node)  # type: ignore[no-any-return]


class _Numbered(ast.NodeTransformer):
    """Variables and parameters get numbers in the order in which they occur."""

    def __init__(self, own: frozenset[str]) -> None:
        self._own = own
        self._numbers: dict[str, str] = {}

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """A variable."""
        node.id = self._number(node.id)
        return node

    def visit_arg(self, node: ast.arg) -> ast.AST:
        """A parameter."""
        node.arg = self._number(node.arg)
        return node

    def _number(self, name: str) -> str:
        own = name in self._own
        return self._numbers.setdefault(name, f"#{len(self._numbers)}") if own else name


def _arguments(function: Function, call: ast.Call) -> dict[str, ast.expr] | None:
    """The arguments by parameter; None unless each parameter is given one in a plain way."""
    names = [arg.arg for arg in (*function.args.posonlyargs, *function.args.args)]
    by_name = {word.arg: word.value for word in call.keywords if word.arg}
    given = {**dict(zip(names, call.args, strict=False)), **by_name}
    plain = len(given) == len(call.args) + len(call.keywords) == len(names)
    starred = any(isinstance(arg, ast.Starred) for arg in call.args)
    return given if plain and given.keys() == set(names) and not starred else None


def _in_order(node: ast.AST) -> Iterator[ast.Name]:
    """Names in the order of running: what a statement reads before what it sets."""
    if isinstance(node, ast.Name):
        yield node
        return
    children = list(ast.iter_child_nodes(node))
    if isinstance(node, (ast.Assign, ast.AugAssign)):
        children.sort(key=lambda child: child is not node.value)
    elif isinstance(node, (ast.For, ast.comprehension)):
        children.sort(key=lambda child: child is not node.iter)
    for child in children:
        yield from _in_order(child)


def _stored(node: ast.AST) -> Iterator[str]:
    for part in ast.walk(node):
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
            yield part.id
        elif isinstance(part, ast.arg):
            yield part.arg


def _loads(node: ast.AST) -> Counter[str]:
    augmented = (n.target for n in ast.walk(node) if isinstance(n, ast.AugAssign))
    names = [n for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)]
    return Counter(n.id for n in [*names, *augmented] if isinstance(n, ast.Name))
