"""`python -m fml_hydra replay RUN`: the same experiment again from a run's recording.

RUN is a run's identity, its MLflow run id, or a folder with its `config.yaml`, `journal.jsonl` and
`calls.jsonl`. The new run lies in `replays/`, asks no model, costs nothing, and is compared with
the recorded one step by step. Exit codes: 0 identical, 1 it diverges, 2 nothing can be replayed.
"""

import re
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from rich.console import Console

from fml_hydra.commands.differences import Comparison
from fml_hydra.config import Experiment, load_experiment
from fml_hydra.errors import BudgetExhausted, ConfigError, Divergence
from fml_hydra.journal import Batch, Folded, Journal
from fml_hydra.jsonl import read_records
from fml_hydra.llm.replay import CALLS, find_run
from fml_hydra.overrides import PROGRAM, compose_config
from fml_hydra.runner import claimed, run
from fml_hydra.tracking import Tracking
from fml_hydra.tracking.store import download

FILES = ("config.yaml", "journal.jsonl", CALLS)
"""What a run is replayed from."""
PLACES = {"root", "tasks_dir", "cache_dir"}
"""Where things lie on this machine; every other key changes the recorded configuration."""
ENDS_BY_ITSELF = {"steps", "finished_early"}
"""Reasons for the end of a search that hold for its replay as well."""
USAGE = "usage: python -m fml_hydra replay RUN [root=... tasks_dir=... cache_dir=... key=value ...]"


@dataclass(frozen=True)
class Recorded:
    """A run that can be replayed."""

    folder: Path
    """Its files."""
    state: Folded
    """How it went."""

    @property
    def ends_at(self) -> int | None:
        """Steps after which the replay has to stop; None when it ends by itself.

        It works faster than its recording and forecasts no prices, so that what a kill, the clock,
        or a budget of tokens or dollars has ended would not end at the same step again.
        """
        closed = self.state.closed
        if closed is not None and closed["reason"] in ENDS_BY_ITSELF:
            return None
        return 1 + max(self.state.nodes, default=-1)


class EndedJournal(Journal):
    """A journal that ends the search where the recorded one ended."""

    def __init__(self, path: Path, recorded: Recorded) -> None:
        super().__init__(path)
        self._end = recorded.ends_at
        self._reason = (recorded.state.closed or {}).get("reason", "end of the recording")

    def propose(self, batch: Batch) -> None:
        """Write a batch ahead of trying it; raises BudgetExhausted at the recording's end."""
        if self._end is not None and batch.at >= self._end:
            raise BudgetExhausted(self._reason)
        super().propose(batch)


class Teller:
    """An observer that says of each step, when it is done, whether it is as recorded."""

    def __init__(self, recorded: Folded, state: Folded, console: Console) -> None:
        self._recorded, self._state, self._console = recorded, state, console
        self._told: set[int] = set()

    def changed(self) -> None:
        """Something was written to the journal."""
        for node_id in sorted(set(self._state.nodes) - self._told):
            self._told.add(node_id)
            line = Comparison(self._recorded, self._state).line(node_id)
            self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def doing(self, what: str) -> None:
        """Not worth a line."""


def main(argv: list[str]) -> int:
    """Replay, compare, and say what differs."""
    given, places, changes = _sorted(argv)
    local = compose_config([f"{key}={value}" for key, value in places.items()])
    root = Path(local.root).expanduser().absolute()
    console = Console(width=None if sys.stdout.isatty() else 200)
    recorded = _recorded(given, root, Tracking(local.tracking.uri, local.tracking.experiment))
    cfg = _configuration(recorded, local, set(places))
    original = cfg.copy()
    _change(cfg, recorded, changes)
    if cfg.agent.get("_target_") == PROGRAM:
        raise ConfigError(f"{cfg.agent.name} asks its model itself: nothing was recorded")
    experiment = load_experiment(cfg)
    identity = recorded.state.header["identity"]
    if not changes and experiment.identity(original) != identity:
        console.print("The task's files, or the program, have changed since the recording.")
    folder = _fresh(root / "replays", identity)
    comparison = _replay(experiment, recorded, folder, console)
    console.print("\n".join(comparison.report()), markup=False, highlight=False, soft_wrap=True)
    console.print(f"Replay: {folder}", highlight=False, soft_wrap=True)
    return 0 if comparison.identical else 1


def _replay(
    experiment: Experiment, recorded: Recorded, folder: Path, console: Console
) -> Comparison:
    diverged: Divergence | None = None
    with claimed(folder), closing(EndedJournal(folder / "journal.jsonl", recorded)) as journal:
        teller = Teller(recorded.state, journal.state, console)
        try:
            run(experiment, folder.name, folder, [teller], journal)
        except Divergence as error:
            diverged = error
    calls, asked = (read_records(run / CALLS)[0] for run in (recorded.folder, folder))
    return Comparison(recorded.state, journal.state, recorded.ends_at, calls, asked, diverged)


def _sorted(argv: Sequence[str]) -> tuple[str, dict[str, str], dict[str, str]]:
    """The run, where things lie, what is changed in its configuration."""
    runs = [word for word in argv if "=" not in word]
    if len(runs) != 1 or runs[0].startswith("-"):
        raise ConfigError(USAGE)
    words = dict(word.split("=", 1) for word in argv if "=" in word)
    is_place = {key: key in PLACES or key.partition(".")[0] == "tracking" for key in words}
    places = {key: value for key, value in words.items() if is_place[key]}
    return runs[0], places, {k: v for k, v in words.items() if not is_place[k]}


def _recorded(given: str, root: Path, tracking: Tracking) -> Recorded:
    try:
        folder = find_run(given, root)
    except ConfigError:
        if not re.fullmatch(r"[0-9a-f]{32}", given):
            raise
        folder = download(tracking, root, given, FILES, root / "replays" / "downloads" / given)
    missing = [name for name in FILES if not (folder / name).is_file()]
    if missing:
        raise ConfigError(f"{folder} cannot be replayed: there is no {' and no '.join(missing)}")
    state = Folded.read(folder / "journal.jsonl")
    if not state.header or not state.nodes:
        raise ConfigError(f"{folder} cannot be replayed: it has no step yet")
    return Recorded(folder, state)


def _configuration(recorded: Recorded, local: DictConfig, given: set[str]) -> DictConfig:
    """The recorded configuration with the places of this machine where its own are gone."""
    path = recorded.folder / "config.yaml"
    try:
        cfg = OmegaConf.load(path)
        assert isinstance(cfg, DictConfig)
        before = str(cfg.tasks_dir)
        for key in ("tasks_dir", "cache_dir"):
            if key in given or not Path(cfg[key]).is_dir():
                cfg[key] = str(Path(local[key]).expanduser().absolute())
        if cfg.task.dir.startswith(before):
            cfg.task.dir = cfg.tasks_dir + cfg.task.dir.removeprefix(before)
        cfg.root = str(Path(local.root).expanduser().absolute())
    except (OSError, AssertionError, AttributeError, OmegaConfBaseException) as error:
        raise ConfigError(f"{path}: not a run's configuration ({error})") from error
    return cfg


def _change(cfg: DictConfig, recorded: Recorded, changes: dict[str, str]) -> None:
    """Put the recording in the LLM's place, and the user's changes into the rest."""
    cfg.llm = {
        "_target_": "fml_hydra.llm.replay.ReplayLLM",
        "name": recorded.state.header["llm"],
        "root": cfg.root,
        "recording": str(recorded.folder),
    }
    cfg.tracking = {"_target_": "fml_hydra.tracking.Tracking", "uri": "none", "experiment": ""}
    cfg.budget.seconds = None
    for key, value in changes.items():
        if OmegaConf.select(cfg, key, default=OmegaConf) is OmegaConf:
            raise ConfigError(f"{key}: the recorded configuration has no such key")
        OmegaConf.update(cfg, key, _read(key, value))


def _read(key: str, value: str) -> Any:
    """A value as Hydra reads it on any other command line."""
    try:
        return OverridesParser.create().parse_override(f"{key}={value}").value()
    except HydraException as error:
        raise ConfigError(f"{key}={value}: {' '.join(str(error).split())}") from error


def _fresh(replays: Path, identity: str) -> Path:
    """A new folder for a replay of `identity`."""
    number = 0
    while True:
        folder = replays / f"{identity}.{number}"
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            number += 1
        else:
            return folder
