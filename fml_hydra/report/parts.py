"""What a report is made of: sections of texts, tables and figures. Data only.

Not here: how values are written (formats), how the page looks (page), what the sections say.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import pandas as pd

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

Kind = Literal["text", "number", "signed", "count", "percent", "p", "each", "spread"]
"""How a column's values are written; all but `text` stand on the right.

`each` has digits of its own in every row; `spread` is text already, `0.83 ± 0.27`."""


@dataclass(frozen=True)
class Column:
    """One column of a table as people see it."""

    key: str
    """Name in the data."""
    head: str
    """Name for people."""
    kind: Kind = "text"
    """How values are written."""
    hint: str = ""
    """What it is, for whoever stops at the head."""
    missing: str = "N/A"
    """What stands where there is no value."""
    reason: str = ""
    """Column that says why there is no value; written instead where it does."""
    best: Literal["", "high", "low"] = ""
    """Which value is set in bold."""
    digits: int | None = None
    """Digits after the point; None: as many as the largest value needs."""


@dataclass(frozen=True)
class Table:
    """A table on the page, as CSV and in LaTeX."""

    block: ClassVar[str] = "table"
    name: str
    """Name of its files."""
    caption: str
    """What it shows."""
    frame: pd.DataFrame
    """The rows, in order."""
    columns: Sequence[Column]
    """What is shown of them."""
    note: str = ""
    """What must be known to read it."""
    raw: pd.DataFrame | None = None
    """What the CSV holds, when it is not the frame."""


@dataclass(frozen=True)
class Figure:
    """A figure: a table and the function that draws it."""

    block: ClassVar[str] = "figure"
    name: str
    """Name of its files."""
    caption: str
    """What it shows."""
    alt: str
    """What it says, for those who do not see it."""
    table: pd.DataFrame
    """What is drawn; written as a CSV beside it."""
    draw: Callable[[pd.DataFrame], "Drawing"]
    """Draws the table."""


@dataclass(frozen=True)
class Gallery:
    """Figures side by side."""

    block: ClassVar[str] = "gallery"
    figures: Sequence[Figure]
    """Which ones."""


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    block: ClassVar[str] = "text"
    text: str
    """Its words."""


@dataclass(frozen=True)
class Heading:
    """A heading within a section."""

    block: ClassVar[str] = "heading"
    text: str
    """Its words."""


@dataclass(frozen=True)
class Facts:
    """Terms and what is to be said of each."""

    block: ClassVar[str] = "facts"
    items: Sequence[tuple[str, str]]
    """Term and text."""
    large: bool = False
    """Numbers to be seen first, rather than definitions."""


@dataclass(frozen=True)
class Tree:
    """The search tree of a run."""

    block: ClassVar[str] = "tree"
    title: str
    """Which run."""
    svg: str
    """The picture, safe to be put into a page."""


@dataclass(frozen=True)
class Run:
    """All about one run, folded away."""

    anchor: str
    """Where links lead."""
    title: str
    """Task, agent, LLM, seed."""
    result: str
    """What came of it, in one line."""
    facts: Sequence[tuple[str, str]]
    """Term and value."""
    link: str
    """Its page in MLflow; empty without."""
    tree: str
    """Its search tree as a picture, safe to be put into a page."""
    steps: Table
    """Its steps."""


@dataclass(frozen=True)
class Runs:
    """All runs."""

    block: ClassVar[str] = "runs"
    runs: Sequence[Run]
    """In the order of the page."""


Block = Table | Figure | Gallery | Text | Heading | Facts | Tree | Runs


@dataclass(frozen=True)
class Section:
    """One part of the page."""

    anchor: str
    """Where links lead."""
    title: str
    """Its heading."""
    blocks: Sequence[Block]
    """What stands in it, from top to bottom."""
