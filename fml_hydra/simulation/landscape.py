"""The function behind the made-up method: settings -> score, 0 as given and 1 at the best. Pure.

Each approach has effects of its own for every value of every part, so that a tuned solution loses
most of its gains when its approach is changed: approaches are basins, and the first one that pays
need not be the best. Parts interact in pairs: two good values that hurt together, and two useless
ones that are good together. Some values crash. What is given up for this: parts of different
pairs do not interact within an approach, so that the optimum can be computed.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from random import Random
from typing import Literal

from fml_hydra.simulation.method import APPROACH, Settings, Space

DENSITIES: Mapping[str, float] = {"sparse": 0.03, "dense": 0.3}
"""Share of single changes of a part that improve, by name."""
CRASHES = 0.08
"""Share of the values that crash."""
NEUTRAL = 0.4
"""Share of the values that do nothing among those that neither improve nor crash."""
CEILINGS = 0.5
"""Standard deviation, in logarithms, of how much there is to gain in an approach."""
TRAP = 1.25
"""What two good values lose together, in units of the smaller of their gains."""
LURE, LURE_LEAST, LURE_COST = 2.0, 0.5, -0.1
"""What two values win together, on average and at least, and what each costs alone; a good value
wins 1 on average."""
Failure = Literal["crash", "timeout", "invalid"]
Cell = tuple[int, str, int]


@dataclass(frozen=True)
class Pair:
    """An interaction of two parts within an approach."""

    approach: int
    """Where it is in force."""
    first: tuple[str, int]
    """A part and its value."""
    second: tuple[str, int]
    """The other part and its value."""
    effect: float
    """What is added when both are set."""


@dataclass(frozen=True)
class Landscape:
    """Effects in raw units; `score` normalises them."""

    space: Space
    """The settings."""
    density: float
    """Share of single changes of a part that improve."""
    seed: int
    """What it was drawn with."""
    offsets: tuple[float, ...]
    """Effect of each approach by itself; 0 for the first."""
    effects: Mapping[Cell, float]
    """Effect of (approach, part, value)."""
    failures: Mapping[Cell, Failure]
    """The cells that do not run, and how they end."""
    pairs: tuple[Pair, ...]
    """Interactions."""
    best: float
    """Raw value of the optimum."""

    def failure(self, settings: Settings) -> tuple[str, Failure] | None:
        """The first setting that does not run, and how it ends."""
        for name in self.space.names:
            if kind := self.failures.get((settings[APPROACH], name, settings[name])):
                return name, kind
        return None

    def score(self, settings: Settings) -> float:
        """0 as given, 1 at the optimum, negative where it is worse than given."""
        return self._raw(settings) / self.best

    def _raw(self, settings: Settings) -> float:
        approach = settings[APPROACH]
        own = sum(self.effects.get((approach, n, settings[n]), 0.0) for n in self.space.names)
        both = sum(
            pair.effect
            for pair in self.pairs
            if pair.approach == approach
            and all(settings[name] == value for name, value in (pair.first, pair.second))
        )
        return self.offsets[approach] + own + both


def make_landscape(density: float, seed: int, space: Space | None = None) -> Landscape:
    """Draw a landscape; equal arguments give equal ones."""
    space = space or Space()
    rng = Random(f"landscape:{density}:{seed}")
    best = 0.0
    while best <= 0:
        basins = [_Basin(a, space, density, rng) for a in range(space.approaches)]
        best = max(basin.best() for basin in basins)
    return Landscape(
        space=space,
        density=density,
        seed=seed,
        offsets=tuple(basin.offset for basin in basins),
        effects={cell: e for basin in basins for cell, e in basin.effects.items()},
        failures={cell: f for basin in basins for cell, f in basin.failures.items()},
        pairs=tuple(pair for basin in basins for pair in basin.pairs),
        best=best,
    )


class _Basin:
    """One approach in the making."""

    def __init__(self, approach: int, space: Space, density: float, rng: Random) -> None:
        self._approach, self._space, self._rng = approach, space, rng
        self._scale = rng.lognormvariate(0, CEILINGS)
        self.offset = rng.uniform(-0.5, 0.1) * self._scale if approach else 0.0
        self.effects: dict[Cell, float] = {}
        self.failures: dict[Cell, Failure] = {}
        for name, value in product(space.names, range(1, space.values)):
            self._draw((approach, name, value), density)
        names = rng.sample(space.names, space.parts)
        self._couples = [*zip(names[::2], names[1::2], strict=True)]
        found = (self._pair(first, second, density) for first, second in self._couples)
        self.pairs = [pair for pair in found if pair]

    def best(self) -> float:
        """The most that can be reached here: the couples' best added up."""
        return self.offset + sum(max(self._totals(*couple)) for couple in self._couples)

    def _draw(self, cell: Cell, density: float) -> None:
        luck = self._rng.random()
        if luck < density:
            self.effects[cell] = self._rng.expovariate(1) * self._scale
        elif luck < density + CRASHES:
            self.failures[cell] = self._rng.choice(("crash", "crash", "timeout", "invalid"))
        elif self._rng.random() >= NEUTRAL:
            self.effects[cell] = -self._rng.expovariate(1) * self._scale / 2

    def _pair(self, first: str, second: str, density: float) -> Pair | None:
        """A trap, where both parts can be good; else, as rarely as good values, a lure."""
        one, other = self._top(first), self._top(second)
        gains = self.effects.get(one, 0.0), self.effects.get(other, 0.0)
        if min(gains) > 0:
            trap = Pair(self._approach, one[1:], other[1:], -TRAP * min(gains))
            return trap if self._rng.random() < 0.5 else None
        fails = one in self.failures or other in self.failures
        if max(gains) > 0 or fails or self._rng.random() >= density * (self._space.values - 1):
            return None
        self.effects |= {one: LURE_COST * self._scale, other: LURE_COST * self._scale}
        effect = (LURE_LEAST + LURE * self._rng.expovariate(1)) * self._scale
        return Pair(self._approach, one[1:], other[1:], effect)

    def _top(self, name: str) -> Cell:
        cells = [(self._approach, name, value) for value in range(1, self._space.values)]
        return max(cells, key=lambda cell: self.effects.get(cell, 0.0))

    def _totals(self, first: str, second: str) -> Iterator[float]:
        """What a couple adds, for every choice of its values that runs."""
        for v, w in product(range(self._space.values), repeat=2):
            one, other = (self._approach, first, v), (self._approach, second, w)
            if one not in self.failures and other not in self.failures:
                both = (p.effect for p in self.pairs if (p.first, p.second) == (one[1:], other[1:]))
                yield self.effects.get(one, 0.0) + self.effects.get(other, 0.0) + sum(both)
