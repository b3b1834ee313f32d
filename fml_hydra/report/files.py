"""The report as files: the page, tables as CSV and LaTeX, figures in several formats."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from fml_hydra.report.build import figures_of, tables_of
from fml_hydra.report.html import page
from fml_hydra.report.latex import latex
from fml_hydra.report.parts import Figure, Section, Table
from fml_hydra.report.study import Study
from fml_hydra.report.style import on_page, saved

PAGE = "report.html"


@dataclass
class Folder:
    """A folder that remembers what was written into it; nothing else in it is touched."""

    path: Path
    """Where it is."""
    written: list[Path] = field(default_factory=list)
    """Files written, in order."""

    def write(self, name: str, content: bytes | str) -> None:
        """Write a file; its folder is made when needed."""
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        self.written.append(path)


def write_report(
    study: Study,
    sections: Sequence[Section],
    folder: Folder,
    tell: Callable[[], object] = lambda: None,
) -> None:
    """Write everything; `tell` is called after each figure."""
    for table in tables_of(sections):
        _write_table(table, folder)
    folder.write("tables/runs.csv", _csv(study.runs.drop(columns=["journal", "cached"])))
    folder.write("tables/steps.csv", _csv(study.steps))
    drawn = {}
    for figure in figures_of(sections):
        drawn[figure.name] = _write_figure(figure, study.settings.figures, folder)
        tell()
    folder.write(PAGE, page(study, sections, drawn))


def _write_table(table: Table, folder: Folder) -> None:
    raw = table.frame if table.raw is None else table.raw
    columns = dict.fromkeys([*(c.key for c in table.columns), *(c.reason for c in table.columns)])
    if table.raw is None:
        raw = raw[[name for name in columns if name]]
    folder.write(f"tables/{table.name}.csv", _csv(raw))
    folder.write(f"tables/{table.name}.tex", latex(table))


def _write_figure(figure: Figure, formats: Sequence[str], folder: Folder) -> str:
    """Write it in each format, and its data; the SVG for the page."""
    files = saved(figure, formats)
    for kind in formats:
        folder.write(f"figures/{figure.name}.{kind}", files[kind])
    folder.write(f"figures/{figure.name}.csv", _csv(figure.table))
    return on_page(files["svg"], figure)


def _csv(frame: pd.DataFrame) -> str:
    return frame.to_csv(index=False, lineterminator="\n")
