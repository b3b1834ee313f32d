"""The search tree of a run as a self-contained SVG: operators, statuses, values, the best path."""

from html import escape

from fml_hydra.journal import Folded, History, Node
from fml_hydra.summary import metric_of

ROW, COLUMN, RADIUS, MARGIN = 74, 92, 15, 46
_COLOURS = {"ok": "#0072b2", "refused": "#999999", "failed": "#d55e00"}  # colour-blind safe
_REFUSED = {"noop", "edit_failed", "syntax", "protected"}
_STYLE = """
text{font:11px system-ui,sans-serif;fill:#222;text-anchor:middle}
.op{fill:#fff;font-weight:600}.edge{stroke:#bbb;stroke-width:1.5;fill:none}
.best{stroke:#009e73;stroke-width:4}.second{stroke-dasharray:4 3}
svg{background:#fff}
"""


def tree_svg(state: Folded) -> str:
    """Draw the tree: one node per step, its operator's initial inside, its value below."""
    history = state.history()
    places = layout(history)
    metric = metric_of(state)
    best = history.best()
    path = {best.id, *(n.id for n in history.ancestors(best))} if best else set()
    width = MARGIN * 2 + COLUMN * max((x for x, _ in places.values()), default=0)
    height = MARGIN * 2 + ROW * max((y for _, y in places.values()), default=0) + 20
    edges = [
        _edge(p, n, i, places, path) for n in history for i, p in enumerate(n.parents or (-1,))
    ]
    circles = [_circle(n, places[n.id], metric.name, n.id in path) for n in history]
    base = state.header["baseline"]["val"][metric.name]
    x, y = _xy(places[-1])
    root = (
        f'<circle cx="{x}" cy="{y}" r="9" fill="#222"/>'
        f'<text x="{x}" y="{y - 14}">baseline {base:.4g}</text>'
    )
    title = " · ".join(str(state.header[k]) for k in ("task", "agent", "llm"))
    title += f" · seed {state.header['seed']} · {metric.name} ({metric.direction} is better)"
    return "\n".join(
        [
            '<svg xmlns="http://www.w3.org/2000/svg" role="img" '
            f'viewBox="0 0 {max(width, 420):.0f} {height:.0f}">',
            f"<title>{escape(title)}</title><style>{_STYLE}</style>",
            f'<text x="10" y="16" style="text-anchor:start">{escape(title)}</text>',
            *edges,
            root,
            *circles,
            "</svg>",
        ]
    )


def layout(history: History) -> dict[int, tuple[float, int]]:
    """Column and row of every node; -1 is the baseline. Leaves take columns from left to right."""
    below: dict[int, list[int]] = {}
    rows = {-1: 0}
    for node in history:
        parent = node.parents[0] if node.parents else -1
        below.setdefault(parent, []).append(node.id)
        rows[node.id] = rows[parent] + 1
    columns: dict[int, float] = {}
    free = 0
    for node_id in _bottom_up(below):
        children = below.get(node_id)
        if children:
            columns[node_id] = (columns[children[0]] + columns[children[-1]]) / 2
        else:
            columns[node_id] = free
            free += 1
    return {i: (columns[i], rows[i]) for i in rows}


def _bottom_up(below: dict[int, list[int]]) -> list[int]:
    """All nodes, children before their parents, siblings in order; without recursion."""
    order, stack = [], [-1]
    while stack:
        node_id = stack.pop()
        order.append(node_id)
        stack += below.get(node_id, [])
    return order[::-1]


def _xy(place: tuple[float, int]) -> tuple[float, float]:
    return MARGIN + place[0] * COLUMN, MARGIN + 10 + place[1] * ROW


def _edge(
    parent: int, node: Node, rank: int, places: dict[int, tuple[float, int]], path: set[int]
) -> str:
    (x1, y1), (x2, y2) = _xy(places[parent]), _xy(places[node.id])
    on_path = node.id in path and rank == 0
    kind = "edge" + (" best" if on_path else "") + (" second" if rank else "")
    middle = (y1 + y2) / 2
    curve = f"M{x1:.1f},{y1} C{x1:.1f},{middle} {x2:.1f},{middle} {x2:.1f},{y2}"
    return f'<path class="{kind}" d="{curve}"/>'


def _circle(node: Node, place: tuple[float, int], metric: str, on_path: bool) -> str:
    x, y = _xy(place)
    kind = "ok" if node.ok else "refused" if node.status in _REFUSED else "failed"
    value = f"{node.metrics[metric]:.4g}" if node.ok else node.status
    ring = ' stroke="#009e73" stroke-width="3"' if on_path else ""
    hint = escape(f"step {node.id}: {node.op}, {node.status}. {node.plan}"[:400])
    return (
        f'<g><title>{hint}</title><circle cx="{x:.1f}" cy="{y}" r="{RADIUS}" '
        f'fill="{_COLOURS[kind]}"{ring}/>'
        f'<text class="op" x="{x:.1f}" y="{y + 4}">{node.op[:2]}</text>'
        f'<text x="{x:.1f}" y="{y + RADIUS + 12}">{node.id}: {escape(value)}</text></g>'
    )
