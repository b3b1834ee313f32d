"""Runs and steps as tables, from MLflow or from the runs' folders.

    runs = load_runs()                                  # or load_folder("mlruns") without MLflow
    steps = load_steps(runs)

MLflow is asked for the parent runs only, and each one's journal is read: the cost grows with runs,
not with steps. The columns are the fields of `RunRow` and `StepRow` (rows). Nothing is ever
written to the store.
"""

import logging
import os
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from fml_hydra.analysis.cache import Entry
from fml_hydra.analysis.parents import Parents
from fml_hydra.analysis.rows import RunRow, run_table, step_table
from fml_hydra.analysis.runs import run_row, step_rows
from fml_hydra.errors import ConfigError, JournalError
from fml_hydra.journal import Folded
from fml_hydra.tracking.store import Tracking

log = logging.getLogger(__name__)
AT_ONCE = 8
"""Journals fetched at the same time; what is waited for is a server."""
_SET_ASIDE = re.compile(r"\.old\d+$")
_UNREADABLE = (JournalError, KeyError, TypeError, ValueError, OSError)
"""What a journal that is damaged, or from another version, raises."""


def load_runs(
    uri: str | None = None,
    root: str | Path = "mlruns",
    experiment: str = "fml_hydra",
    filter: str = "",
    sweep: str | None = None,
) -> pd.DataFrame:
    """A row per run (`RunRow`), oldest first.

    `uri` is the tracking address; None: MLFLOW_TRACKING_URI, else the local store below `root`;
    `none`: the folders below `root`. `filter` is an MLflow search on parents, such as
    "tags.`fml.task` = 'fairness'"; `sweep` the name of one sweep. Tables are cached in
    `root`/analysis. Raises ConfigError when the store or the experiment is not there.
    """
    tracking = Tracking(uri or os.environ.get("MLFLOW_TRACKING_URI"), experiment)
    if not tracking.on:
        if filter:
            raise ConfigError("filter= needs MLflow; select rows of the table instead")
        runs = load_folder(root)
        return runs if sweep is None else runs[runs.sweep == sweep].reset_index(drop=True)
    parents = Parents.open(tracking, Path(root))
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = pool.map(partial(_parent_row, parents), parents.search(filter, sweep))
        return run_table(row for row in found if row is not None)


def load_folder(root: str | Path = "mlruns") -> pd.DataFrame:
    """The same table from `root`/runs, for runs that were never sent anywhere.

    Runs that were set aside by `resume=never` are left out, and those without a baseline yet.
    """
    journals = sorted(Path(root).glob("runs/*/journal.jsonl"))
    found = (_folder_row(p) for p in journals if not _SET_ASIDE.search(p.parent.name))
    return run_table(row for row in found if row is not None)


def load_steps(runs: pd.DataFrame) -> pd.DataFrame:
    """A row per step (`StepRow`) of `runs`, in the order of the runs."""
    places = zip(runs["run_id"], runs["journal"], runs["cached"], strict=True)
    return step_table(row for place in places for row in _steps_of(*place))


def read_journal(run: pd.Series) -> Folded:
    """Everything about one run, snapshots included: `read_journal(runs.loc[0])`.

    Raises JournalError when there is no journal to read.
    """
    if not run["journal"] or not Path(run["journal"]).exists():
        raise JournalError(f"{run['identity']}: its journal has not been sent yet")
    return Folded.read(Path(run["journal"]))


def latest_sweep(runs: pd.DataFrame) -> str:
    """Name of the sweep of the newest run; raises ConfigError when there are no runs."""
    if runs.empty:
        raise ConfigError("there are no runs")
    return str(runs["sweep"].iloc[int(runs["started"].to_numpy().argmax())])


def _folder_row(journal: Path) -> RunRow | None:
    state = _state(journal)
    try:
        return run_row(state, journal=journal.absolute()) if state else None
    except _UNREADABLE as error:
        _left_out(journal, error)
        return None


def _parent_row(parents: Parents, run: Any) -> RunRow | None:
    """The row of a parent; what only MLflow knows while there is no journal."""
    if not parents.over(run):
        return _running_row(parents, run)
    entry = Entry.of(parents.root, run.info.run_id, run.info.end_time)
    if row := entry.run():
        return row
    journal = parents.journal(run, entry.folder)
    state = _state(journal) if journal else None
    if journal is None or state is None:
        return parents.bare_row(run)
    try:
        row = run_row(state, run.info.run_id, journal)
        row = RunRow(**{**vars(row), "cached": str(entry.folder)})
        entry.keep(row, step_rows(state, run.info.run_id))
        return row
    except _UNREADABLE as error:
        _left_out(journal, error)
        return parents.bare_row(run)


def _running_row(parents: Parents, run: Any) -> RunRow:
    """A run that is going on sends its journal at the end; on this machine its folder has it."""
    journal = parents.local_journal(run)
    state = _state(journal) if journal.exists() else None
    if state is None or state.header.get("instance") != run.data.tags.get("fml.instance"):
        return parents.bare_row(run)
    return run_row(state, run.info.run_id, journal)


def _steps_of(run_id: str, journal: str, cached: str) -> Iterator[dict[str, Any]]:
    rows = Entry(Path(cached)).steps() if cached else None
    if rows is not None:
        yield from rows
    elif journal and (state := _state(Path(journal))):
        yield from (vars(row) for row in step_rows(state, run_id))


def _state(journal: Path) -> Folded | None:
    """The folded journal; None if it cannot be read, or nothing has begun."""
    try:
        state = Folded.read(journal)
    except _UNREADABLE as error:
        _left_out(journal, error)
        return None
    return state if state.header else None


def _left_out(journal: Path, error: Exception) -> None:
    log.warning("%s: left out, it cannot be read (%s: %s)", journal, type(error).__name__, error)
