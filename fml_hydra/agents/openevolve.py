"""OpenEvolve: MAP-Elites on islands that take turns and pass on their best.

After Sharma, "OpenEvolve", an open implementation of AlphaEvolve (arXiv 2506.13131). The grid's
features are the length of the code and its difference from the latest programs. Every island starts
with the baseline; a generation is one step on each island. An island's population are the elites
of its cells, and a child stays on the island whose turn it was.
"""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass as plain_dataclass
from dataclasses import field
from functools import lru_cache
from statistics import fmean

from pydantic import NonNegativeInt, PositiveInt
from pydantic.dataclasses import dataclass

from fml_hydra.agents.base import Advisor, Share
from fml_hydra.journal import Action, History, Node
from fml_hydra.knobs import STRICT

SEED = -1
"""The baseline in place of a node's id."""
REFERENCES = 20
"""Latest programs from which a new one's difference is measured."""
Cell = tuple[int, int]


@plain_dataclass(frozen=True)
class Program:
    """A working program in a cell."""

    id: int
    """Its node's, or SEED."""
    utility: float
    """Its fitness."""
    cell: Cell
    """Bins of its length and of its difference from others."""


@plain_dataclass
class Archive:
    """The islands, as the nodes fill them one after the other."""

    bins: int
    """Bins per feature."""
    islands: list[dict[Cell, Program]]
    """For each island the elite of each cell."""
    migrated: set[int] = field(default_factory=set)
    """Ids of programs that have migrated once."""
    texts: list[str] = field(default_factory=list)
    """All programs so far, oldest first."""
    features: list[tuple[float, float]] = field(default_factory=list)
    """Length and difference of each."""

    def place(self, islands: Iterable[int], node_id: int, utility: float, text: str) -> None:
        """Put a program on islands; it becomes the elite of its cell if it is better."""
        others = self.texts[-REFERENCES:]
        different = fmean(difference(text, other) for other in others) if others else 0.0
        self.texts.append(text)
        self.features.append((float(len(text)), different))
        program = Program(node_id, utility, (self._bin(0), self._bin(1)))
        for island in islands:
            self.settle(island, program)

    def settle(self, island: int, program: Program) -> None:
        """Let a program compete for its cell on an island."""
        elite = self.islands[island].get(program.cell)
        if elite is None or program.utility > elite.utility:
            self.islands[island][program.cell] = program

    def migrate(self, share: float) -> None:
        """Copy the best of each island, which never migrated before, to both its neighbours."""
        count = len(self.islands)
        leaving = [self._emigrants(island, share) for island in self.islands]
        for at, programs in enumerate(leaving):
            for program in programs:
                self.migrated.add(program.id)
                for neighbour in sorted({(at - 1) % count, (at + 1) % count} - {at}):
                    self.settle(neighbour, program)

    def best(self, size: int) -> set[int]:
        """Ids of the best programs of all islands."""
        elites = {p.id: p for island in self.islands for p in island.values()}
        return {p.id for p in ranked(elites.values())[:size]}

    def _emigrants(self, island: dict[Cell, Program], share: float) -> list[Program]:
        stay = {SEED, *self.migrated}
        movable = [p for p in ranked(island.values()) if p.id not in stay]
        return movable[: max(1, int(len(island) * share))]

    def _bin(self, feature: int) -> int:
        """Bin of the newest program, in the range of all so far."""
        values = [features[feature] for features in self.features]
        low, high = min(values), max(values)
        if high == low:
            return 0
        return min(self.bins - 1, int((values[-1] - low) / (high - low) * self.bins))


@dataclass(frozen=True, config=STRICT)
class OpenEvolve:
    """Quality and diversity: a grid of elites per island."""

    islands: PositiveInt
    """Populations; they take turns."""
    bins: PositiveInt
    """Bins per feature."""
    archive_size: PositiveInt
    """How many of the best programs count as the archive."""
    exploration: Share
    """Chance that the parent is drawn from the whole island."""
    exploitation: Share
    """Chance that it is drawn from the archive's members on the island; else by fitness."""
    migration_interval: PositiveInt
    """Generations between migrations."""
    migration_share: Share
    """Share of an island's programs that migrate; at least one does."""
    top: NonNegativeInt
    """Best programs of the island shown beside the parent."""
    diverse: NonNegativeInt
    """Further programs of the island shown."""
    debug_prob: Share
    """Chance of debugging when the island has something to debug."""
    max_debug_depth: NonNegativeInt
    """Debug steps in a row before a program is given up."""

    def propose(
        self, history: History, k: int, rng: random.Random, advisor: Advisor
    ) -> list[Action]:
        """One action for each of the islands whose turn is next."""
        archive = self.archive(history, advisor)
        actions: list[Action] = []
        for turn in range(len(history), len(history) + k):
            actions.append(self._next(history, archive, turn % self.islands, rng, actions))
        return actions

    def archive(self, history: History, advisor: Advisor) -> Archive:
        """What the nodes so far have made of the islands."""
        archive = Archive(self.bins, [{} for _ in range(self.islands)])
        baseline = history.baseline if history.baseline is not None else float("-inf")
        archive.place(range(self.islands), SEED, baseline, _text(advisor))
        for node in history:
            if node.utility is not None and node.ok:
                text = _text(advisor, node)
                archive.place([node.meta["island"]], node.id, node.utility, text)
            if (node.id + 1) % (self.islands * self.migration_interval) == 0:
                archive.migrate(self.migration_share)
        return archive

    def _next(
        self,
        history: History,
        archive: Archive,
        island: int,
        rng: random.Random,
        taken: Sequence[Action],
    ) -> Action:
        busy = {parent for action in taken for parent in action.parents}
        broken = [
            node
            for node in history.debuggable(self.max_debug_depth - 1)
            if node.meta["island"] == island and node.id not in busy
        ]
        if rng.random() < self.debug_prob and broken:
            return Action("debug", (rng.choice(broken).id,), {"island": island})
        programs = list(archive.islands[island].values())
        parent = self._parent(history, programs, archive.best(self.archive_size), rng)
        others = [p.id for p in ranked(programs) if p.id not in (parent.id, SEED)]
        top, rest = others[: self.top], others[self.top :]
        shown = top + rng.sample(rest, min(self.diverse, len(rest)))
        meta = {"island": island, "inspirations": shown}
        return (
            Action("draft", (), meta)
            if parent.id == SEED
            else Action("improve", (parent.id,), meta)
        )

    def _parent(
        self, history: History, programs: list[Program], best: set[int], rng: random.Random
    ) -> Program:
        drawn = rng.random()
        excellent = [p for p in programs if p.id in best]
        if drawn < self.exploration or not excellent:
            return rng.choice(programs)
        if drawn < self.exploration + self.exploitation:
            return rng.choice(excellent)
        weights = [0.01 + history.scaled(p.utility) for p in programs]
        return rng.choices(programs, weights)[0]


def ranked(programs: Iterable[Program]) -> list[Program]:
    """The best first, the earliest on ties."""
    return sorted(programs, key=lambda p: (-p.utility, p.id))


@lru_cache(maxsize=8192)
def difference(text: str, other: str) -> float:
    """Share of the lines of two texts that only one of them has."""
    lines, others = set(text.split("\n")), set(other.split("\n"))
    return len(lines ^ others) / len(lines | others)


def _text(advisor: Advisor, node: Node | None = None) -> str:
    return "\n".join(text for _, text in sorted(advisor.files(node).items()))
