"""One picture per agent: how its score rises over the steps, and the tree of a typical run. Pure.

Self-contained SVG; equal runs give equal pictures. Not for real runs: their trees come with words
(tracking).
"""

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, quantiles

from fml_hydra.journal import REFUSED, History, Node

WIDTH, HEIGHT, HEAD = 1000, 300, 44
"""Pixels: the picture's width, height of a row, height of the title."""
PLOT, TREE = (60, 36, 360, 210), (470, 36, 500, 230)
"""Left, top, width and height of the two drawings within a row."""
_STYLE = """
svg{background:#fff}text{font:12px system-ui,sans-serif;fill:#222}.dim{fill:#767676}
.bold{font-weight:700}.axis{stroke:#999;fill:none}.grid{stroke:#e6e6e6}
.band{fill:#0072b2;opacity:.15}.mean{stroke:#0072b2;stroke-width:2;fill:none}
.edge{stroke:#b5b5b5;fill:none}.edge.best{stroke:#009e73;stroke-width:2.5}
.ok{fill:#0072b2}.failed{fill:#d55e00}.refused{fill:#999}.root{fill:#222}
"""  # colours that colour-blind people can tell apart


@dataclass(frozen=True)
class Row:
    """What an agent did on one kind of landscape."""

    title: str
    """Which one."""
    curves: Sequence[Sequence[float]]
    """True score of the best step so far, one list per seed, all of the same length."""
    tree: Sequence[Node]
    """Steps of the run to be drawn."""


def picture(title: str, rows: Sequence[Row]) -> str:
    """Draw an agent's rows one below the other."""
    height = HEAD + HEIGHT * len(rows)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}"><title>{html.escape(title)}</title>'
        f"<style>{_STYLE}</style>",
        f'<text class="bold" x="16" y="24">{html.escape(title)}</text>',
        _legend(),
    ]
    for number, row in enumerate(rows):
        body = _plot(row) + _tree(row.tree)
        parts.append(f'<g transform="translate(0 {HEAD + number * HEIGHT})">{body}</g>')
    return "\n".join([*parts, "</svg>\n"])


def layout(nodes: Sequence[Node]) -> dict[int, tuple[float, int]]:
    """(column, depth) by id; the baseline is -1. Leaves get columns of their own, in order."""
    children: dict[int, list[int]] = {-1: [], **{node.id: [] for node in nodes}}
    depth = {-1: 0}
    for node in nodes:
        parent = node.parents[0] if node.parents else -1
        children[parent].append(node.id)
        depth[node.id] = depth[parent] + 1
    column: dict[int, float] = {}
    for leaf in _leaves(children):
        column[leaf] = float(len(column))
    for node_id in sorted(children, reverse=True):
        if children[node_id]:
            column[node_id] = mean(column[child] for child in children[node_id])
    return {node_id: (column[node_id], depth[node_id]) for node_id in children}


def _leaves(children: Mapping[int, Sequence[int]]) -> list[int]:
    """Nodes without children, from left to right."""
    found, stack = [], [-1]
    while stack:
        node_id = stack.pop()
        if not children[node_id]:
            found.append(node_id)
        stack += reversed(children[node_id])
    return found


def _plot(row: Row) -> str:
    """Mean and middle half over the seeds."""
    left, top, width, height = PLOT
    steps = max((len(curve) for curve in row.curves), default=0)
    columns = [[0.0] * len(row.curves), *(list(c) for c in zip(*row.curves, strict=True))]

    halves = [quantiles(c, n=4) if len(c) > 1 else [c[0]] * 3 for c in columns]
    low: float = min(0.0, *(q[0] for q in halves), *(mean(c) for c in columns))

    def x(step: int) -> float:
        return left + width * step / max(1, steps)

    def y(score: float) -> float:
        return top + height * (1 - (score - low) / (1 - low))

    def line(values: Sequence[float]) -> str:
        return " ".join(f"{x(i):.1f},{y(v):.1f}" for i, v in enumerate(values))

    upper = [q[2] for q in halves]
    lower = " ".join(reversed(line([q[0] for q in halves]).split(" ")))
    grid = "".join(
        f'<path class="grid" d="M{left} {y(v):.1f}h{width}"/>'
        f'<text class="dim" x="{left - 32}" y="{y(v) + 4:.1f}">{v:.1f}</text>'
        for v in (0.0, 0.5, 1.0)
    )
    end = f'<text class="dim" x="{left + width - 50}" y="{top + height + 18}">step {steps}</text>'
    what = f"score of the best step so far: mean and middle half of {len(row.curves)} runs"
    return (
        f'<text class="bold" x="16" y="16">{html.escape(row.title)}</text>'
        f'<text class="dim" x="{left}" y="{top - 4}">{what}</text>{grid}'
        f'<polygon class="band" points="{line(upper)} {lower}"/>'
        f'<polyline class="mean" points="{line([mean(c) for c in columns])}"/>'
        f'<path class="axis" d="M{left} {top}v{height}h{width}"/>{end}'
    )


def _tree(nodes: Sequence[Node]) -> str:
    left, top, width, height = TREE
    places = layout(nodes)
    wide = max(1.0, *(column for column, _ in places.values()))
    deep = max(1, *(depth for _, depth in places.values()))
    radius = max(1.5, min(5.0, width / wide / 2.5, height / deep / 2.5))

    def at(node_id: int) -> tuple[float, float]:
        column, depth = places[node_id]
        return left + width * column / wide, top + height * depth / deep

    way = History(nodes, None, {}).way_to_best()
    edges, dots = [], []
    for node in nodes:
        (x1, y1), (x2, y2) = at(node.parents[0] if node.parents else -1), at(node.id)
        kind = "edge best" if node.id in way else "edge"
        edges.append(f'<path class="{kind}" d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}"/>')
        css = "ok" if node.ok else "refused" if node.status in REFUSED else "failed"
        hint = html.escape(f"step {node.id}: {node.op}, {node.status}")
        dots.append(
            f'<circle class="{css}" cx="{x2:.1f}" cy="{y2:.1f}" r="{radius:.1f}">'
            f"<title>{hint}</title></circle>"
        )
    x, y = at(-1)
    root = f'<rect class="root" x="{x - 4:.1f}" y="{y - 4:.1f}" width="8" height="8"/>'
    what = (
        f'<text class="dim" x="{left}" y="{top - 16}">steps of the run with the median score</text>'
    )
    return "".join([what, *edges, *dots, root])


def _legend() -> str:
    parts, x = [], TREE[0]
    for kind, text in (("ok", "ran"), ("failed", "failed"), ("refused", "refused untrained")):
        parts.append(f'<circle class="{kind}" cx="{x}" cy="20" r="5"/>')
        parts.append(f'<text class="dim" x="{x + 10}" y="24">{text}</text>')
        x += 34 + 7 * len(text)
    parts.append(f'<path class="edge best" d="M{x} 20h16"/>')
    parts.append(f'<text class="dim" x="{x + 22}" y="24">way to the best step</text>')
    return "".join(parts)
