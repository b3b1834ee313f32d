"""`python -m fml_hydra sync`: send what has not arrived in MLflow yet, in order, each thing once.

Runs that a kill left open are put down as interrupted on the way, so that MLflow does not show them
running for ever. Runs that some process is working on are left alone.
"""

from pathlib import Path

from rich.console import Console

from fml_hydra.construct import construct
from fml_hydra.errors import FmlError, RunLocked
from fml_hydra.journal import Folded, Journal
from fml_hydra.jsonl import read_records
from fml_hydra.overrides import compose_config
from fml_hydra.runner import claimed
from fml_hydra.tracking import Tracking
from fml_hydra.tracking.delivery import Delivery, check_reachable


def main(argv: list[str]) -> int:
    """Send every run below `root`; exit code 1 if something could not be sent."""
    cfg = compose_config(argv)
    root, console = Path(cfg.root).absolute(), Console()
    tracking: Tracking = construct(cfg.tracking)
    if problem := check_reachable(tracking, root):
        console.print(f"{tracking.address(root)} cannot be reached: {problem}", markup=False)
        return 1
    folders = sorted(p.parent for p in (root / "runs").glob("*/journal.jsonl"))
    failed = 0
    for folder in folders:
        try:
            with claimed(folder):
                what = _sync(folder, tracking, root)
        except RunLocked:
            what = "being worked on, left alone"
        except FmlError as error:
            what, failed = f"failed: {error}", failed + 1
        console.print(f"{folder.name}: {what}", markup=False, highlight=False, soft_wrap=True)
    console.print(f"{len(folders)} runs, {failed} failed; store {tracking.address(root)}")
    return 1 if failed else 0


def _sync(folder: Path, tracking: Tracking, root: Path) -> str:
    state = Folded.read(folder / "journal.jsonl")
    if not state.header:
        return "has not begun"
    if state.test is None and state.paused is None:
        state = _put_down(folder / "journal.jsonl")
    delivery = Delivery(folder, tracking, root)
    delivery.send(state)
    return f"in MLflow as run {delivery.run_id}"


def _put_down(path: Path) -> Folded:
    """Write that a killed run is interrupted, as of its last event: it did not work since."""
    when = read_records(path)[0][-1]["t"]
    journal = Journal(path)
    journal.record("pause", t=when, reason="interrupted", detail="its process was killed")
    journal.close()
    return journal.state
