"""Which kind of change a statement is part of: an ordered table of rules, the first that fits.

A rule looks at the names of the file, class and function a statement stands in, at what it assigns,
and at what it calls. No learning, no run. Not here: how statements add up (classify).
"""

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath
from typing import NamedTuple

from fml_hydra.analysis.behaviour import vocabulary as vocab
from fml_hydra.analysis.behaviour.change import Delta, Pair
from fml_hydra.analysis.behaviour.reading import (
    any_word,
    assigned,
    bound,
    calls,
    draws,
    layers,
    operations,
    variables,
)
from fml_hydra.analysis.behaviour.vocabulary import words
from fml_hydra.ideas import Category as Kind


@dataclass(frozen=True)
class Place:
    """Where changed statements stand, and what they do together."""

    delta: Delta
    """The unit they are in."""

    @cached_property
    def named(self) -> frozenset[str]:
        """Words of its class and function."""
        return frozenset().union(*(words(part) for part in self.delta.name.split(".")))

    @cached_property
    def file(self) -> frozenset[str]:
        """Words of the file's name."""
        return words(PurePosixPath(self.delta.path).stem)

    @cached_property
    def random(self) -> frozenset[str]:
        """Variables that hold random numbers, as long as they are no inputs."""
        found = frozenset[str]()
        for node in self._nodes:
            if draws(node) or not variables(node).isdisjoint(found):
                found |= {name for name in bound(node) if not any_word([name], vocab.INPUTS)}
        return found

    @cached_property
    def multiplied(self) -> frozenset[str]:
        """Variables in products of matrices."""
        products = (p for node in self._nodes for p in operations(node, ast.MatMult))
        return frozenset(name for product in products for name in variables(product))

    @cached_property
    def disturbed(self) -> frozenset[str]:
        """Variables that hold inputs after random numbers were put into them."""
        return frozenset(n for node in self._nodes if self.disturbs(node) for n in bound(node))

    def is_random(self, node: ast.AST) -> bool:
        """Whether it draws random numbers, or reads some that were drawn."""
        return draws(node) or not variables(node).isdisjoint(self.random)

    def disturbs(self, node: ast.AST) -> bool:
        """Whether an operation in it has inputs and random numbers as operands."""
        found = operations(node)
        return any(self.is_random(o) and any_word(variables(o), vocab.INPUTS) for o in found)

    @cached_property
    def _nodes(self) -> list[ast.AST]:
        return [pair.shown.node for pair in self.delta.pairs]


class Rule(NamedTuple):
    """One line of the table."""

    name: str
    """How tables call it."""
    fits: Callable[[Pair, Place], bool]
    """Whether a changed statement is of this kind."""
    kind: Kind | None
    """The kind of change; None: the statement has no say."""


def _layers_differ(pair: Pair, place: Place) -> bool:
    old, new = (sorted(layers(s.node)) if s else [] for s in (pair.old, pair.new))
    return old != new


def _random_weights(pair: Pair, place: Place) -> bool:
    node = pair.shown.node
    if draws(node):
        return not bound(node).isdisjoint(place.multiplied)
    return any(place.is_random(product) for product in operations(node, ast.MatMult))


def _hidden_units(pair: Pair, place: Place) -> bool:
    return any_word(assigned(pair.shown.node), vocab.HIDDEN)


def _in_loss(pair: Pair, place: Place) -> bool:
    return bool((place.named | place.file) & vocab.LOSS)


def _in_data(pair: Pair, place: Place) -> bool:
    return bool((place.named | place.file) & vocab.DATA)


def _in_network(pair: Pair, place: Place) -> bool:
    return bool((place.named | place.file) & vocab.NETWORK)


def _changes_inputs(pair: Pair, place: Place) -> bool:
    node = pair.shown.node
    reads = not variables(node).isdisjoint(place.disturbed)
    return reads or place.disturbs(node) or any_word(assigned(node), vocab.INPUTS)


def _computes_loss(pair: Pair, place: Place) -> bool:
    """A changed statement that was there before counts by what it calls in addition."""
    called = set(calls(pair.shown.node))
    if pair.old:
        return any_word(called - set(calls(pair.old.node)), vocab.LOSS)
    return any_word({*called, *assigned(pair.shown.node)}, vocab.LOSS)


def _draws_for_later(pair: Pair, place: Place) -> bool:
    return isinstance(pair.shown.node, ast.Assign) and draws(pair.shown.node)


RULES: Sequence[Rule] = (
    Rule("imports", lambda pair, _: pair.is_import, None),
    Rule("constants and settings", lambda pair, _: pair.only_constants, "parameter"),
    Rule("layers come or go", _layers_differ, "structural"),
    Rule("random weights in a matrix product", _random_weights, "structural"),
    Rule("hidden units are computed", _hidden_units, "structural"),
    Rule("in a function or file of the loss", _in_loss, "objective"),
    Rule("in a function or file of the data", _in_data, "data"),
    Rule("in a function or file of the network", _in_network, "structural"),
    Rule("inputs are changed", _changes_inputs, "data"),
    Rule("a loss is computed", _computes_loss, "objective"),
    Rule("random numbers for later", _draws_for_later, None),
    Rule("other steps of the method", lambda *_: True, "algorithmic"),
)
"""In order; a statement is of the first rule that fits it."""
COMPUTED_SETTING = Rule("a setting is computed", lambda *_: True, "parameter")
"""For a whole function, before the table: schedules, scales."""


def rules_of(delta: Delta) -> list[Rule]:
    """The rules of a unit's changed statements."""
    if _computes_setting(delta):
        return [COMPUTED_SETTING]
    place = Place(delta)
    return [next(rule for rule in RULES if rule.fits(pair, place)) for pair in delta.pairs]


def _computes_setting(delta: Delta) -> bool:
    """Whether a function that only returned a setting now returns something made of it."""
    old, new = (unit.statements if unit else () for unit in (delta.old, delta.new))
    if len(old) != 2 or len(new) != 2 or old[0].key != new[0].key:
        return False
    was, now = old[1].node, new[1].node
    if not isinstance(was, ast.Return) or not isinstance(now, ast.Return):
        return False
    settings = {n for n in variables(was) if n.isupper() or words(n) & vocab.SETTINGS}
    parameters = {arg.arg for arg in ast.walk(old[0].node) if isinstance(arg, ast.arg)}
    known = settings | vocab.MODULES
    kept = bool(settings & variables(now))
    return kept and variables(was) <= known and variables(now) <= known | parameters
