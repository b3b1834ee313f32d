"""How figures look, and how a drawing becomes a file or a part of the page.

Okabe and Ito's colours, with a marker and a dash of its own for each configuration: nothing is told
by colour alone. On the page text, axes and grid follow its colour scheme. The same table gives the
same bytes. matplotlib is imported when the first figure is drawn.
"""

import html
import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fml_hydra.report.parts import Figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

INK, MUTED, RULE = "#1b1f24", "#686f76", "#d9dcdf"
"""Text and axes, lesser text, grid: on the page these three are replaced by its own."""
_ON_PAGE = {INK: "currentColor", MUTED: "var(--muted)", RULE: "var(--rule)"}
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", INK)
LONG_NAME = 16
"""Characters of a name above which a legend has two columns instead of three."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "h", "*", "p")
DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2)), (0, (9, 3)))
_RC: dict[str, dict[str, Any]] = {
    "font": {"family": ["DejaVu Sans"], "size": 9},
    "axes": {
        "titlesize": 9,
        "labelsize": 9,
        "edgecolor": MUTED,
        "labelcolor": INK,
        "linewidth": 0.6,
        "grid": True,
        "axisbelow": True,
    },
    "axes.spines": {"top": False, "right": False},
    "grid": {"color": RULE, "linewidth": 0.6},
    "text": {"color": INK},
    "xtick": {"color": MUTED, "labelcolor": INK, "labelsize": 8},
    "ytick": {"color": MUTED, "labelcolor": INK, "labelsize": 8},
    "xtick.major": {"size": 0},
    "ytick.major": {"size": 0},
    "xtick.minor": {"size": 0},
    "legend": {"frameon": False, "fontsize": 8},
    "lines": {"linewidth": 1.8, "markersize": 5},
    "svg": {"fonttype": "none", "hashsalt": "fml_hydra"},
    "pdf": {"fonttype": 42},
}
"""matplotlib's settings by group."""
_METADATA: dict[str, dict[str, None]] = {
    "svg": dict.fromkeys(["Date", "Creator", "Format", "Type"]),
    "pdf": dict.fromkeys(["CreationDate", "Creator", "Producer"]),
    "png": {"Software": None},
}
"""Left out: a file tells nothing of when and where it was made."""


@dataclass(frozen=True)
class Look:
    """How a configuration is drawn, the same in every figure."""

    colour: str
    """Of lines and markers."""
    marker: str
    """matplotlib's letter."""
    dash: Any
    """matplotlib's line style."""


def looks(names: Sequence[str]) -> dict[str, Look]:
    """A look per name; names beyond the colours share them with other markers and dashes."""
    return {
        name: Look(
            COLOURS[i % len(COLOURS)],
            MARKERS[i % len(MARKERS)],
            DASHES[(i + i // len(COLOURS)) % len(DASHES)],
        )
        for i, name in enumerate(names)
    }


@contextmanager
def styled() -> Iterator[None]:
    """Draw and save in our style, whatever the user's own settings are."""
    import matplotlib as mpl

    with mpl.rc_context():
        mpl.rcdefaults()
        settings: Any = mpl.rc  # whose groups are typed one by one
        for group, values in _RC.items():
            settings(group, **values)
        yield


def blank(width: float = 5.2, height: float = 3.0) -> "tuple[Drawing, Axes]":
    """An empty drawing with one pair of axes; sizes in inches."""
    from matplotlib.figure import Figure as Drawing

    drawing = Drawing(figsize=(width, height), facecolor="none", layout="constrained")
    axes = drawing.add_subplot(facecolor="none")
    return drawing, axes


def legend(drawing: "Drawing", axes: "Axes") -> None:
    """A legend below the axes, in the order of drawing; long names get fewer columns."""
    handles, labels = axes.get_legend_handles_labels()
    if labels:
        columns = 3 if max(map(len, labels)) <= LONG_NAME else 2
        drawing.legend(
            handles,
            labels,
            loc="outside lower center",
            ncols=min(columns, len(labels)),
            handlelength=3.2,
            columnspacing=1.6,
        )


def saved(figure: Figure, formats: Sequence[str]) -> dict[str, bytes]:
    """The figure in each format; `svg` is always among them."""
    with styled():
        drawing = figure.draw(figure.table)
        return {kind: _bytes(drawing, kind) for kind in dict.fromkeys(["svg", *formats])}


def on_page(svg: bytes, figure: Figure) -> str:
    """An SVG for the page: in its colours and font, with ids of its own and the words for it."""
    text = svg.decode()
    text = text[text.index("<svg") :].replace("'DejaVu Sans'", "inherit")
    text = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>|<!--.*?-->", "", text, flags=re.S)
    for colour, own in _ON_PAGE.items():
        text = text.replace(colour, own)
    text = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{figure.name}-", text)
    text = re.sub(r"\s*\n\s*", " ", text)
    return text.replace("<svg", f'<svg role="img" aria-label="{html.escape(figure.alt)}"', 1)


def _bytes(drawing: "Drawing", kind: str) -> bytes:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    FigureCanvasAgg(drawing)
    buffer = io.BytesIO()
    face = "white" if kind == "png" else "none"
    drawing.savefig(
        buffer,
        format=kind,
        dpi=200,
        facecolor=face,
        metadata=_METADATA[kind],
    )
    return buffer.getvalue()
