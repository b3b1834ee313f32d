"""How widely each run explored, as columns to be joined to the runs' table.

    runs = runs.merge(explored(runs, embedder), on="run_id", how="left")

Everything here needs the code of the steps and an embedder. What was computed is kept by journal
and embedder, so the second time nothing is embedded or read. Not here: the formulas (diversity,
process), what goes with them (correlations).
"""

import logging
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path

import pandas as pd

from fml_hydra.analysis.diversity import step_text
from fml_hydra.analysis.kept import kept
from fml_hydra.analysis.load import read_journal
from fml_hydra.analysis.process import Exploration, process_metrics
from fml_hydra.analysis.rows import NAN
from fml_hydra.embedding import Embedder
from fml_hydra.errors import JournalError
from fml_hydra.journal import Folded

log = logging.getLogger(__name__)
FORMAT = 1
"""Raised when a formula changes."""


METRICS = ["diversity", "uniqueness", "reach", "effective_dimension"]
COLUMNS = ["run_id", *METRICS, "embedder"]
_NOTHING = Exploration(NAN, NAN, NAN, NAN)


def explored(
    runs: pd.DataFrame,
    embedder: Embedder,
    cache: Path | None = None,
    tell: Callable[[], object] = lambda: None,
) -> pd.DataFrame:
    """COLUMNS, a row per run, in the embedder's unit of length.

    `cache` is a folder (None: nothing is kept); `tell` is called after each run. A run without a
    readable journal, or without a step, has NaN.
    """
    rows = []
    for _, run in runs.iterrows():
        maker = ["explored", FORMAT, repr(embedder)]
        found = Exploration(**kept(run, cache, maker, partial(_of_run, run, embedder)))
        four = [found.spread, found.uniqueness, found.reach, found.effective_dimension]
        rows.append([run["run_id"], *four, embedder.name])
        tell()
    return pd.DataFrame(rows, columns=COLUMNS).astype(dict.fromkeys(METRICS, float))


def exploration(state: Folded, embedder: Embedder) -> Exploration:
    """Where the code states of one run lie; without a baseline's code no distance to it is told."""
    nodes, pristine = list(state.history()), dict(state.header.get("pristine", {}))
    if not nodes:
        return _NOTHING
    texts = [step_text({**pristine, **n.snapshot}, n.snapshot, pristine) for n in nodes]
    vectors = embedder.embed([*texts, step_text(pristine, {}, pristine)])
    return process_metrics(vectors[:-1], vectors[-1] if pristine else None)


def _of_run(run: pd.Series, embedder: Embedder) -> dict[str, float]:
    try:
        return asdict(exploration(read_journal(run), embedder))
    except JournalError as error:
        log.warning("not embedded: %s", error)
        return asdict(_NOTHING)
