"""The page: one HTML file that needs nothing else, from the sections and the drawn figures.

How it looks is in page/: a template, a style sheet and a script that sorts tables. Every text is
escaped by the template; only pictures that this package drew are put in as they are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from fml_hydra import __version__
from fml_hydra.report.formats import strong, texts
from fml_hydra.report.parts import Section, Table
from fml_hydra.report.study import Study

PAGE = Path(__file__).with_name("page")


@dataclass(frozen=True)
class Cell:
    """One cell of a table on the page."""

    text: str
    """What stands in it."""
    css: str
    """Its classes: `n` stands on the right, `b` is bold."""


def page(study: Study, sections: Sequence[Section], drawn: Mapping[str, str]) -> str:
    """The page; `drawn` has an SVG for the page by the name of its figure."""
    return (
        _environment()
        .get_template("report.html.j2")
        .render(
            title=study.title,
            dates=dates(study),
            version=__version__,
            sections=sections,
            drawn={name: Markup(svg) for name, svg in drawn.items()},
            style=Markup((PAGE / "report.css").read_text()),
            script=Markup((PAGE / "report.js").read_text()),
        )
    )


def rows(table: Table) -> list[list[Cell]]:
    """The cells of a table."""
    kinds = ["" if column.kind == "text" else "n" for column in table.columns]
    return [
        [
            Cell(text, f"{kind} b".strip() if bold else kind)
            for text, kind, bold in zip(row, kinds, marks, strict=True)
        ]
        for row, marks in zip(texts(table), strong(table), strict=True)
    ]


def dates(study: Study) -> str:
    """When the runs were begun, in days (UTC)."""
    if study.runs.empty:
        return ""
    ends = [float(study.runs["started"].min()), float(study.runs["started"].max())]
    days = [datetime.fromtimestamp(t, UTC).strftime("%Y-%m-%d") for t in ends]
    return days[0] if days[0] == days[1] else f"{days[0]} to {days[1]}"


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(PAGE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: dict[str, Any] = {"rows": rows, "picture": Markup}
    environment.filters.update(filters)
    return environment
