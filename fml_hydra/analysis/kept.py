"""What was computed from one run's journal, kept until the journal or what computes it changes.

For what is slow (embeddings, comparisons of code); the tables of runs and steps have a cache of
their own (cache). Delete the folder at any time.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from fml_hydra import __version__
from fml_hydra.files import replace_json
from fml_hydra.hashing import value_hash


def kept(run: pd.Series, folder: Path | None, maker: object, compute: Callable[[], Any]) -> Any:
    """The value of `compute`, plain JSON, from `folder` if it is known there for this journal.

    `run` is a row of the runs' table, `maker` tells what computes and how. Without a folder or a
    journal nothing is kept.
    """
    journal = Path(run["journal"])
    if folder is None or not run["journal"] or not journal.exists():
        return compute()
    state = journal.stat()
    parts = [run["run_id"], state.st_mtime_ns, state.st_size, __version__, maker]
    place = folder / f"{value_hash(parts)[:24]}.json"
    try:
        return json.loads(place.read_text())
    except (OSError, ValueError):
        value = compute()
        replace_json(place, value)
        return value
