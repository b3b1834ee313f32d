"""`python -m fml_hydra import fml-bench DIR`: results of FML-bench as runs of ours, in MLflow too.

Each becomes a journal below `root`/runs and is sent as every run is, so that tables, report and UI
know it; the same result never arrives twice. Runs that were exported here come back as they were.
"""

from pathlib import Path

from rich.console import Console

from fml_hydra.commands.export import FORMAT
from fml_hydra.commands.report import SHORT
from fml_hydra.construct import construct
from fml_hydra.errors import ConfigError, FmlError, InfraError
from fml_hydra.exchange.arriving import Arrivals, kept_whole
from fml_hydra.exchange.layout import OWN, found_runs, read_result
from fml_hydra.exchange.reading import remarks
from fml_hydra.exchange.tasks import Bench
from fml_hydra.journal import Folded
from fml_hydra.overrides import compose_config
from fml_hydra.runner import claimed
from fml_hydra.tracking import Tracking
from fml_hydra.tracking.delivery import Delivery

USAGE = (
    f"usage: python -m fml_hydra import {FORMAT} DIR"
    " [bench=FML-BENCH'S FOLDER sweep=NAME seed=FIRST root=... tracking.uri=...]"
)
"""What is understood."""
OWN_WORDS = ("bench", "sweep", "seed")
"""Words that are no overrides."""


def main(argv: list[str]) -> int:
    """Bring in every run below DIR; exit code 1 if one could not be."""
    plain = [word for word in argv if "=" not in word]
    if len(plain) != 2 or plain[0] != FORMAT:
        raise ConfigError(USAGE)
    given = dict(word.split("=", 1) for word in argv if "=" in word)
    own = {key: given.pop(key) for key in OWN_WORDS if key in given}
    folder = Path(plain[1]).expanduser()
    seed = own.get("seed", "0")
    if not seed.isdigit():
        raise ConfigError(f"seed={seed}: not a number; it is that of the first round")
    cfg = compose_config([f"{SHORT.get(key, key)}={value}" for key, value in given.items()])
    tracking: Tracking = construct(cfg.tracking)
    found = found_runs(folder) if folder.is_dir() else []
    if not found:
        raise ConfigError(f"{folder}: no run of FML-bench there (no folder with a summary.json)")
    arrivals = Arrivals(Path(cfg.root).absolute(), int(seed))
    bench = Bench.near(folder, own.get("bench", ""))
    sweep = own.get("sweep") or f"{FORMAT} {folder.absolute().name}"
    return _bring(found, arrivals, bench, sweep, tracking)


def _bring(
    found: list[Path], arrivals: Arrivals, bench: Bench, sweep: str, tracking: Tracking
) -> int:
    console, failed = Console(soft_wrap=True, highlight=False, markup=False), 0
    for exported in found:
        try:
            folder, said = _arrived(exported, arrivals, bench, sweep)
            said.append(_sent(folder, tracking, arrivals.root))
            console.print(f"{folder.name}: {'; '.join(said)}")
        except FmlError as error:
            failed += 1
            console.print(f"failed: {error}")
    console.print(f"{len(found)} runs, {failed} failed, below {arrivals.root / 'runs'}")
    return 1 if failed else 0


def _arrived(
    exported: Path, arrivals: Arrivals, bench: Bench, sweep: str
) -> tuple[Path, list[str]]:
    """The run's folder, and what must be said of it."""
    if kept_whole(exported):
        return arrivals.own(exported), []
    result = read_result(exported)
    said = [f"its files in {OWN}/ were passed over"] if (exported / OWN).is_dir() else []
    task = bench.task(result.summary["benchmark"])
    return arrivals.result(result, task, sweep), said + remarks(result, task)


def _sent(folder: Path, tracking: Tracking, root: Path) -> str:
    if not tracking.on:
        return "there"
    delivery = Delivery(folder, tracking, root)
    try:
        with claimed(folder):
            delivery.send(Folded.read(folder / "journal.jsonl"))
    except InfraError as error:
        raise InfraError(
            f"{folder.name} is there, but not in MLflow ({error}); `sync` will send it"
        ) from error
    return f"in MLflow as run {delivery.run_id}"
