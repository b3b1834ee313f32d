"""The search tree of a run as a self-contained SVG: one row per step, in the order of the steps.

Branches stand side by side on the left, words on the right, so that a hundred steps stay readable
whatever the shape of the tree. Not for finished runs alone: any history can be drawn.
"""

import html
from collections.abc import Mapping
from dataclasses import dataclass

from fml_hydra.journal import REFUSED, Folded, History, Node
from fml_hydra.metric import Metric
from fml_hydra.summary import metric_of
from fml_hydra.tracking.content import origin, result

ROW, RADIUS, LEFT, TOP = 24, 7, 24, 64
"""Pixels: height of a row, of half a circle, space around the drawing."""
COLUMN, TREE_WIDTH, TEXT_WIDTH = 26.0, 380.0, 680
"""Pixels: widest column, widest tree (columns of a broad tree move together), the words."""
PLAN_CHARS = 64
_STYLE = """
svg{background:#fff}text{font:12px system-ui,sans-serif;fill:#222}.dim{fill:#767676}
.edge{stroke:#b5b5b5;stroke-width:1.2;fill:none}.second{stroke-dasharray:3 3}
.edge.best{stroke:#009e73;stroke-width:3.5}circle.best{stroke:#009e73;stroke-width:3}
.ok{fill:#0072b2}.refused{fill:#999}.failed{fill:#d55e00}.root{fill:#222}
.winner{fill:#e2f4ee}.bold{font-weight:700}
"""  # colours that colour-blind people can tell apart


@dataclass(frozen=True)
class Canvas:
    """Where things are drawn."""

    columns: Mapping[int, float]
    """Column of every node; -1 is the baseline."""
    scale: float
    """Pixels between columns."""
    words: float
    """Where the words begin."""

    def x(self, node_id: int) -> float:
        """Horizontal centre of a node."""
        return LEFT + self.columns[node_id] * self.scale

    @staticmethod
    def y(node_id: int) -> int:
        """Vertical centre of a node."""
        return TOP + (node_id + 1) * ROW


def tree_svg(state: Folded) -> str:
    """Draw the tree; equal histories give equal pictures."""
    history, metric = state.history(), metric_of(state)
    best = history.best()
    path = history.way_to_best()
    canvas = _canvas(history)
    last = max((n.id for n in history), default=-1)
    width, height = canvas.words + TEXT_WIDTH, canvas.y(last) + ROW
    title = _title(state, metric)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{width:.0f}" '
        f'height="{height}" viewBox="0 0 {width:.0f} {height}">',
        f"<title>{_text(title)}</title><style>{_STYLE}</style>",
        f'<text class="bold" x="10" y="22">{_text(title)}</text>',
        _legend(),
        _winner(canvas, best.id, width) if best else "",
        *(_edge(canvas, p, n, i, path) for n in history for i, p in enumerate(n.parents or (-1,))),
        _baseline(canvas, state, metric),
        *(_row(canvas, n, metric, n.id in path) for n in history),
        "</svg>",
    ]
    return "\n".join(part for part in parts if part)


def layout(history: History) -> dict[int, float]:
    """Column of every node; -1 is the baseline. Leaves take columns from left to right."""
    below: dict[int, list[int]] = {-1: []}
    for node in history:
        below.setdefault(node.parents[0] if node.parents else -1, []).append(node.id)
    columns: dict[int, float] = {}
    free = 0
    for node_id in _bottom_up(below):
        children = below.get(node_id)
        if children:
            columns[node_id] = columns[children[0]]  # the first branch goes straight down
        else:
            columns[node_id] = free
            free += 1
    return columns


def _bottom_up(below: dict[int, list[int]]) -> list[int]:
    """All nodes, children before their parents, siblings in order; without recursion."""
    order, stack = [], [-1]
    while stack:
        node_id = stack.pop()
        order.append(node_id)
        stack += below.get(node_id, [])
    return order[::-1]


def _canvas(history: History) -> Canvas:
    columns = layout(history)
    breadth = max(columns.values())
    scale = min(COLUMN, TREE_WIDTH / breadth) if breadth else COLUMN
    return Canvas(columns, scale, LEFT + breadth * scale + 2 * LEFT)


def _text(words: str) -> str:
    """As XML takes it: a control character in what a model said would spoil the picture."""
    return html.escape("".join(c if c.isprintable() else " " for c in words))


def _title(state: Folded, metric: Metric) -> str:
    header = state.header
    names = [header["task"], header["agent"], header["llm"], f"seed {header['seed']}"]
    return " · ".join([*names, f"{metric.name}, {metric.direction} is better"])


def _legend() -> str:
    parts, x = [], 16
    for kind, text in (("ok", "ran"), ("failed", "failed"), ("refused", "refused untrained")):
        parts.append(f'<rect class="{kind}" x="{x - 5}" y="33" width="10" height="10" rx="5"/>')
        parts.append(f'<text class="dim" x="{x + 9}" y="42">{text}</text>')
        x += 30 + 7 * len(text)
    parts.append(f'<path class="edge best" d="M{x} 38h16"/>')
    parts.append(f'<text class="dim" x="{x + 22}" y="42">way to the best step</text>')
    return "".join(parts)


def _winner(canvas: Canvas, node_id: int, width: float) -> str:
    y = canvas.y(node_id) - ROW // 2
    return f'<rect class="winner" x="0" y="{y}" width="{width:.0f}" height="{ROW}"/>'


def _edge(canvas: Canvas, parent: int, node: Node, rank: int, path: set[int]) -> str:
    x1, y1, x2, y2 = canvas.x(parent), canvas.y(parent), canvas.x(node.id), canvas.y(node.id)
    best = " best" if node.id in path and rank == 0 else ""
    kind = f"edge{best}{' second' if rank else ''}"
    # along the parent's row first, then down: no line runs through another branch's circles
    way = f"C{x2:.1f} {y1} {x2:.1f} {y1} {x2:.1f} {min(y1 + ROW, y2)}V{y2}"
    d = f"M{x1:.1f} {y1}" + (f"L{x2:.1f} {y2}" if rank else way)
    return f'<path class="{kind}" d="{d}"/>'


def _baseline(canvas: Canvas, state: Folded, metric: Metric) -> str:
    x, y = canvas.x(-1), canvas.y(-1)
    value = state.header["baseline"]["val"][metric.name]
    return (
        f'<rect class="root" x="{x - 6:.1f}" y="{y - 6}" width="12" height="12"/>'
        f'<text x="{canvas.words + 30:.0f}" y="{y + 4}">baseline</text>'
        f'<text x="{canvas.words + 180:.0f}" y="{y + 4}">{value:.4g}</text>'
    )


def _row(canvas: Canvas, node: Node, metric: Metric, on_path: bool) -> str:
    x, y = canvas.x(node.id), canvas.y(node.id)
    kind = "ok" if node.ok else "refused" if node.status in REFUSED else "failed"
    plan = " ".join(node.plan.split())
    short = plan if len(plan) <= PLAN_CHARS else plan[: PLAN_CHARS - 1] + "…"
    cells = [
        (0, "dim", str(node.id)),
        (30, "", origin(node)),
        (180, "" if node.ok else "dim", result(node, metric).removeprefix(f"{metric.name} ")),
        (265, "dim", short),
    ]
    words = "".join(
        f'<text class="{css}" x="{canvas.words + dx:.0f}" y="{y + 4}">{_text(text)}</text>'
        for dx, css, text in cells
    )
    hint = _text(f"step {node.id}: {origin(node)}, {result(node, metric)}. {plan}"[:400])
    ring = " best" if on_path else ""
    circle = f'<circle class="{kind}{ring}" cx="{x:.1f}" cy="{y}" r="{RADIUS}"/>'
    return f"<g><title>{hint}</title>{circle}{words}</g>"
