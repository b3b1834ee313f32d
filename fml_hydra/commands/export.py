"""`python -m fml_hydra export fml-bench --out DIR`: runs in FML-bench's result layout.

Its own `compute_agent_metrics.py` reads them (`DIR/fml_bench/score.py` tells it of our tasks), and
`import fml-bench DIR` brings them back as they were. Which runs: as with `report`.
"""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from rich.console import Console

from fml_hydra.analysis.load import read_journal
from fml_hydra.analysis.tables import one_per_cell
from fml_hydra.commands.report import load_settings, local_sweeps
from fml_hydra.errors import ConfigError, FmlError
from fml_hydra.exchange.tasks import FOLDER
from fml_hydra.exchange.writing import OWN_FILES, Exported, write_run
from fml_hydra.journal import Folded
from fml_hydra.report.selection import select
from fml_hydra.report.settings import Settings
from fml_hydra.tracking.store import download

FORMAT = "fml-bench"
"""The one layout there is."""
USAGE = (
    f"usage: python -m fml_hydra export {FORMAT} --out DIR"
    " [sweep=latest|all|NAMES filter=... experiment=... root=... tracking.uri=...]"
)
"""What is understood."""


def main(argv: list[str]) -> int:
    """Write every run that is asked for; exit code 1 if one could not be."""
    words = _words(argv)
    if words[:1] != [FORMAT] or not any(word.startswith("out=") for word in words):
        raise ConfigError(USAGE)
    settings = load_settings(words[1:])
    assert settings.out is not None
    runs = select(settings, local_sweeps(settings.root)).runs
    return _write(runs, settings.out, settings)


def _words(argv: Sequence[str]) -> list[str]:
    """`--out DIR` and `--out=DIR` are `out=DIR`."""
    words, rest = list[str](), iter(argv)
    for word in rest:
        words.append(f"out={next(rest, '')}" if word == "--out" else word)
    return [f"out={w.removeprefix('--out=')}" if w.startswith("--out=") else w for w in words]


def _write(runs: pd.DataFrame, out: Path, settings: Settings) -> int:
    console, failed = Console(soft_wrap=True, highlight=False, markup=False), 0
    standing = set(one_per_cell(runs)["run_id"])
    for _, run in runs.iterrows():
        try:
            state = read_journal(run)
            exported = Exported(state, out, run["run_id"] in standing)
            folder = write_run(exported, _files_of(run, settings))
            end = "" if state.test else " (not finished: no summary.json)"
            console.print(f"{run['identity']}: {folder.relative_to(out)}{end}")
        except FmlError as error:
            failed += 1
            console.print(f"failed: {error}")
    console.print(f"{len(runs)} runs, {failed} failed, in {out}")
    console.print(f"FML-bench's metrics: python {out / FOLDER / 'score.py'} says how")
    return 1 if failed else 0


def _files_of(run: pd.Series, settings: Settings) -> Path:
    """A folder with the run's own files: where it ran, else what MLflow has of it."""
    own = settings.root / "runs" / str(run["identity"])
    for folder in (own, own.with_name(f"{own.name}.{run['instance'][:8]}")):
        journal = folder / "journal.jsonl"
        if journal.is_file() and Folded.read(journal).header.get("instance") == run["instance"]:
            return folder
    if not settings.tracking.on:
        return Path(run["journal"]).parent
    place = settings.root / "exported" / str(run["run_id"])
    return download(settings.tracking, settings.root, str(run["run_id"]), OWN_FILES, place)
