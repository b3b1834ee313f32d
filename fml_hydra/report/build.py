"""The sections of a report, in order."""

from collections.abc import Callable, Sequence

from fml_hydra.report.parts import Figure, Gallery, Section, Table
from fml_hydra.report.sections import (
    behaviours,
    comparison,
    effort,
    exploration,
    known,
    leaderboard,
    methods,
    overview,
    results,
    runs,
)
from fml_hydra.report.study import Study

SECTIONS: tuple[Callable[[Study], Section], ...] = (
    overview.section,
    leaderboard.section,
    results.section,
    exploration.section,
    comparison.section,
    known.section,
    effort.section,
    behaviours.section,
    runs.trees,
    runs.section,
    methods.section,
)
"""What a report consists of."""


def build(study: Study, tell: Callable[[], object] = lambda: None) -> list[Section]:
    """All sections of a study; `tell` is called after each."""
    sections = []
    for make in SECTIONS:
        sections.append(make(study))
        tell()
    return sections


def tables_of(sections: Sequence[Section]) -> list[Table]:
    """The tables that get files of their own; those of single runs are parts of steps.csv."""
    return [block for section in sections for block in section.blocks if isinstance(block, Table)]


def figures_of(sections: Sequence[Section]) -> list[Figure]:
    """All figures."""
    found: list[Figure] = []
    for section in sections:
        for block in section.blocks:
            if isinstance(block, Figure):
                found.append(block)
            elif isinstance(block, Gallery):
                found += block.figures
    return found
