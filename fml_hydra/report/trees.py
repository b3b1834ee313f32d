"""Search trees from the steps' table, small enough that a page can hold hundreds. Pure.

Colours and shapes: a filled circle ran, a cross failed, a small dot was refused untrained; the way
to the best step is drawn thick. On the page colours come from its style sheet. Not here: the tree
with words beside each step that every run has in MLflow (tracking.tree).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from fml_hydra.journal import REFUSED, History, Node
from fml_hydra.simulation.picture import layout

ROW, RADIUS = 22.0, 4.0
"""Pixels between generations, and half a circle."""
WIDEST, COLUMN = 640.0, 22.0
"""Pixels: widest drawing, widest column."""
TALLEST = 900.0
"""Pixels; a longer chain is pressed together."""


@dataclass(frozen=True)
class Grid:
    """Where things are drawn."""

    places: Mapping[int, tuple[float, int]]
    """Column and generation by step; -1 is the baseline."""
    dx: float
    """Pixels between columns."""
    dy: float
    """Pixels between generations."""

    def at(self, step: int) -> tuple[float, float]:
        """Centre of a step."""
        column, depth = self.places[step]
        return 10 + column * self.dx, 10 + depth * self.dy


def nodes_of(steps: pd.DataFrame) -> list[Node]:
    """One run's steps as nodes without code; a parent that is not there is the baseline."""
    known: set[int] = set()
    nodes = []
    rows = steps[["step", "op", "parents", "status", "utility", "ok"]]
    for step, op, parents, status, utility, ok in rows.itertuples(index=False):
        wanted = tuple(int(p) for p in str(parents).split() if int(p) in known)
        value = float(utility) if ok else None
        nodes.append(Node(int(step), str(op), wanted, {}, status, value, {}, {}))
        known.add(int(step))
    return nodes


def tree(steps: pd.DataFrame, alt: str, hints: bool = False) -> str:
    """The tree of one run as an SVG for the page; empty without a step. `alt` must be escaped."""
    nodes = nodes_of(steps)
    if not nodes:
        return ""
    grid = _grid(nodes)
    width = 20 + max(column for column, _ in grid.places.values()) * grid.dx
    height = 20 + max(depth for _, depth in grid.places.values()) * grid.dy
    way = History(nodes, None, {}).way_to_best()
    x, y = grid.at(-1)
    return (
        f'<svg class="tree" role="img" aria-label="{alt}" width="{width:.0f}" '
        f'height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}">'
        f"{_edges(grid, [n for n in nodes if n.id not in way], 'e')}"
        f"{_edges(grid, [n for n in nodes if n.id in way], 'b')}"
        f'<path class="r" d="M{x - 5:.0f} {y - 5:.0f}h10v10h-10z"/>'
        f"{''.join(_mark(grid, node, hints) for node in nodes)}</svg>"
    )


def _grid(nodes: Sequence[Node]) -> Grid:
    places = layout(nodes)
    breadth = max(column for column, _ in places.values())
    depth = max(generation for _, generation in places.values())
    dx = min(COLUMN, WIDEST / breadth) if breadth else COLUMN
    return Grid(places, dx, min(ROW, TALLEST / max(1, depth)))


def _edges(grid: Grid, nodes: Sequence[Node], kind: str) -> str:
    """All edges of a kind as one path: down from the parent, then across."""
    parts = []
    for node in nodes:
        (x1, y1), (x2, y2) = grid.at(node.parents[0] if node.parents else -1), grid.at(node.id)
        parts.append(f"M{x1:.1f} {y1:.0f}C{x1:.1f} {y2:.0f} {x2:.1f} {y1:.0f} {x2:.1f} {y2:.0f}")
    return f'<path class="{kind}" d="{"".join(parts)}"/>' if parts else ""


def _mark(grid: Grid, node: Node, hints: bool) -> str:
    x, y = grid.at(node.id)
    hint = f"<title>step {node.id}: {node.op}, {node.status}</title>" if hints else ""
    if node.ok:
        return f'<circle class="o" cx="{x:.1f}" cy="{y:.0f}" r="{RADIUS:.0f}">{hint}</circle>'
    if node.status in REFUSED:
        return f'<circle class="f" cx="{x:.1f}" cy="{y:.0f}" r="2">{hint}</circle>'
    cross = f"M{x - 3:.1f} {y - 3:.0f}l6 6m0-6l-6 6"
    return f'<path class="x" d="{cross}">{hint}</path>'
