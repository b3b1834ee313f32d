"""Which runs a report is about: the latest sweep, named ones, or what a filter finds.

A cell that a sweep skipped, since an earlier one had finished it, belongs to the later sweep as
well. Only what is wanted is loaded: a shared server may have thousands of other runs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import pandas as pd

from fml_hydra.analysis.load import latest_sweep, load_runs
from fml_hydra.analysis.parents import Parents
from fml_hydra.errors import ConfigError
from fml_hydra.report.settings import ALL, LATEST, Settings

UI = "http://127.0.0.1:5000"
"""Where `python -m fml_hydra ui` opens."""
NEWEST = "attributes.start_time DESC"


@dataclass(frozen=True)
class LocalSweep:
    """A sweep of this machine."""

    name: str
    """Its name."""
    touched: float
    """When one of its cells last changed, seconds since the epoch."""
    identities: frozenset[str]
    """The runs that are its cells, skipped ones included."""


@dataclass(frozen=True)
class Selection:
    """The runs of a report."""

    title: str
    """What they have in common."""
    runs: pd.DataFrame
    """A row per run."""
    source: str
    """Where they were looked up."""
    pages: str
    """Address that a run id is added to for its page in MLflow; empty without."""


def select(settings: Settings, local: Sequence[LocalSweep] = ()) -> Selection:
    """Load the runs; raises ConfigError when there are none.

    `local` are this machine's sweeps; of equal names the first counts.
    """
    _check_store(settings)
    load = partial(
        load_runs,
        settings.tracking.uri,
        settings.root,
        settings.tracking.experiment,
        settings.filter,
    )
    everything = settings.sweep == ALL or (settings.sweep == LATEST and bool(settings.filter))
    names = [] if everything else _names(settings, local)
    runs = load() if everything else pd.concat([load(n) for n in names], ignore_index=True)
    known = {sweep.name: sweep.identities for sweep in reversed(local)}
    skipped = _members(names, known) - set(runs["identity"])
    if skipped:
        others = load()
        found = others[others["identity"].isin(skipped)]
        runs = pd.concat([found, runs], ignore_index=True)
    title = "all sweeps" if everything else f"sweep {', '.join(names)}"
    if runs.empty:
        raise ConfigError(f"no runs: {_place(settings)}, {title}, filter {settings.filter!r}")
    runs = runs.drop_duplicates("run_id").sort_values("started", kind="stable", ignore_index=True)
    return Selection(title, runs, _place(settings), _pages(settings))


def _check_store(settings: Settings) -> None:
    tracking, root = settings.tracking, settings.root
    if tracking.on and tracking.is_local(root) and not (root / "mlflow.db").exists():
        raise ConfigError(
            f"{root / 'mlflow.db'} does not exist; run something first, name its root=, or say "
            "tracking=none for runs that were not sent to MLflow"
        )


def _names(settings: Settings, local: Sequence[LocalSweep]) -> list[str]:
    if settings.sweep != LATEST:
        return [name.strip() for name in settings.sweep.split(",") if name.strip()]
    name, begun = _newest_run(settings)
    newest = max(local, key=lambda sweep: sweep.touched, default=None)
    if newest and newest.touched >= begun and newest.identities:
        return [newest.name]
    return [name]


def _newest_run(settings: Settings) -> tuple[str, float]:
    """The sweep of the newest run, and when that was begun (seconds since the epoch)."""
    tracking = settings.tracking
    if not tracking.on:
        runs = load_runs(tracking.uri, settings.root)
        return latest_sweep(runs), float(runs["started"].max())
    parents = Parents.open(tracking, settings.root)
    page = parents.client.search_runs(
        [parents.experiment_id], "tags.`fml.kind` = 'run'", max_results=1, order_by=[NEWEST]
    )
    if not page:
        raise ConfigError(f"no runs: {_place(settings)}")
    return page[0].data.tags.get("fml.sweep", ""), page[0].info.start_time / 1000


def _members(names: Sequence[str], known: Mapping[str, frozenset[str]]) -> set[str]:
    return {identity for name in names for identity in known.get(name, ())}


def _place(settings: Settings) -> str:
    tracking = settings.tracking
    if not tracking.on:
        return "the runs' folders"
    if tracking.is_local(settings.root):
        return f"the local MLflow store, experiment {tracking.experiment}"
    return f"{tracking.address(settings.root)}, experiment {tracking.experiment}"


def _pages(settings: Settings) -> str:
    tracking, root = settings.tracking, settings.root
    if not tracking.on:
        return ""
    address = tracking.address(root)
    ui = settings.mlflow_ui or (address if address.startswith("http") else UI)
    experiment = Parents.open(tracking, root).experiment_id
    return f"{ui.rstrip('/')}/#/experiments/{experiment}/runs/"
