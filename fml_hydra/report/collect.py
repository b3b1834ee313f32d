"""What a report needs beside its runs: their steps, how widely they explored, what they changed."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import pandas as pd

from fml_hydra.analysis.behaviour import (
    BehaviourRow,
    Judge,
    RulesJudge,
    behaviour,
    confusion,
    side_by_side,
)
from fml_hydra.analysis.diversity import chosen
from fml_hydra.analysis.explored import METRICS, explored
from fml_hydra.analysis.kept import kept
from fml_hydra.analysis.known import known_methods
from fml_hydra.analysis.load import load_steps
from fml_hydra.report.selection import Selection
from fml_hydra.report.settings import Settings
from fml_hydra.report.study import Study

BEHAVIOUR_FORMAT = 1
"""Raised when the rules of behaviours change."""


class Bar(Protocol):
    """Shows how far a part of the work is."""

    def __call__(self, what: str, total: int) -> AbstractContextManager[Callable[[], object]]:
        """Begin a part; what is entered is called after each of its `total` pieces."""
        ...


def silent(what: str, total: int) -> AbstractContextManager[Callable[[], object]]:
    """A bar that shows nothing."""
    return nullcontext(lambda: None)


def collect(settings: Settings, selection: Selection, bar: Bar = silent) -> Study:
    """Everything of the selected runs that is computed once."""
    runs, embedder, cache = selection.runs, "", settings.root / "analysis" / "kept"
    with bar("reading steps", 1) as tell:
        steps = load_steps(runs)
        tell()
    if settings.diversity:
        embeds = chosen(settings.embedder)
        with bar(f"embedding code ({embeds.name})", len(runs)) as tell:
            found = explored(runs, embeds, cache, tell)
        runs, embedder = runs.merge(found, on="run_id", how="left"), embeds.name
    else:
        runs = runs.assign(**dict.fromkeys(METRICS, float("nan")), embedder="")
    behaviours = judged = pd.DataFrame()
    if settings.behaviours:
        behaviours = rules = _behaviours(runs, cache, bar)
        if not isinstance(settings.judge, RulesJudge):
            behaviours = _asked(runs, settings.judge, bar)
            judged = confusion(side_by_side(rules, behaviours), "rules", "judge")
    return Study(
        title=selection.title,
        runs=runs,
        steps=steps,
        known=known_methods(),
        behaviours=behaviours,
        judged=judged,
        confusion=confusion() if settings.behaviours else pd.DataFrame(),
        settings=settings,
        source=selection.source,
        embedder=embedder,
        pages=selection.pages,
    )


def _behaviours(runs: pd.DataFrame, cache: Path, bar: Bar) -> pd.DataFrame:
    """A row per step of `runs`; what is known of a run is not computed again."""
    found = []
    with bar("comparing code", len(runs)) as tell:
        for place in range(len(runs)):
            one = runs.iloc[place : place + 1]
            maker = ["behaviour", BEHAVIOUR_FORMAT]
            found += kept(one.iloc[0], cache, maker, partial(_records, one))
            tell()
    table = pd.DataFrame(found, columns=[field.name for field in fields(BehaviourRow)])
    return table.astype({"academic": "boolean", "shallow": "bool"})


def _records(run: pd.DataFrame) -> list[dict[str, Any]]:
    table = behaviour(run).astype({"academic": object})
    return table.where(table.notna(), None).to_dict("records")  # type: ignore[return-value]


def _asked(runs: pd.DataFrame, judge: Judge, bar: Bar) -> pd.DataFrame:
    """The same by a judge, who keeps the verdicts."""
    found = []
    with bar(f"asking {judge.name} what steps changed", len(runs)) as tell:
        for place in range(len(runs)):
            found.append(behaviour(runs.iloc[place : place + 1], judge))
            tell()
    return pd.concat(found, ignore_index=True)
