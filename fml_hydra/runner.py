"""One run from start to finish: baseline -> search -> held-out test of the best -> close.

Everything it needs for going on after a kill is in the run's folder. Not here: which runs there are
(sweep), how they are shown (progress).
"""

import logging
import platform
import shutil
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from fml_hydra import __version__
from fml_hydra.baseline import Baseline, measure, noise, versions
from fml_hydra.calls import CallLog
from fml_hydra.checkout import provenance
from fml_hydra.config import Experiment
from fml_hydra.datasets import records
from fml_hydra.errors import BudgetExhausted, InfraError, RunLocked, SandboxError
from fml_hydra.evaluation import NOT_KEPT, Evaluator
from fml_hydra.journal import Folded, Journal, Node
from fml_hydra.kept import Kept
from fml_hydra.session import Observer, Session, guarded
from fml_hydra.task import Brief

log = logging.getLogger(__name__)
CLAIM_SECONDS = 10.0
"""How long to wait for a process that is just putting the run down."""


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Hold the run for this process alone; raises RunLocked when another one works on it."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(folder / "lock", timeout=CLAIM_SECONDS):
            yield
    except Timeout:
        raise RunLocked(f"{folder.name} is being worked on by another process") from None


def finished(folder: Path) -> Folded | None:
    """The run's state if there is nothing left to do, else None."""
    path = folder / "journal.jsonl"
    state = Folded.read(path) if path.exists() else None
    return state if state and state.test is not None else None


def set_aside(folder: Path) -> None:
    """Keep an earlier run under another name, so that the same one can start afresh."""
    if (folder / "journal.jsonl").exists():
        taken = len(list(folder.parent.glob(f"{folder.name}.old*")))
        shutil.move(folder, folder.with_name(f"{folder.name}.old{taken}"))


def run(
    experiment: Experiment,
    identity: str,
    folder: Path,
    observers: Sequence[Observer],
    journal: Journal,
) -> None:
    """Search and test; the caller holds `claimed(folder)`.

    Whatever ends it before its time puts the run down for later and is raised again.
    """
    evaluator = _evaluator(experiment, folder, observers)
    header = journal.state.header
    if not header:
        _tell(observers, "measuring the baseline")
        baseline = measure(evaluator, experiment.root)
        header = _header(experiment, identity, evaluator, baseline)
    evaluator.baseline = header["baseline"]
    journal.record("open", **header)
    calls = CallLog(folder / "calls.jsonl")
    session = Session(
        brief=Brief.of(experiment.task, evaluator.baseline["val"]),
        journal=journal,
        calls=calls,
        folder=folder,
        evaluator=evaluator,
        llm=experiment.llm,
        budget=experiment.budget,
        seed=experiment.seed,
        slots=experiment.slots,
        observers=observers,
    )
    session.tell()
    try:
        _search(experiment, session)
        _held_out_test(session, evaluator)
    except KeyboardInterrupt:
        _put_down(session, "interrupted")
        raise
    except (InfraError, SandboxError) as error:
        _put_down(session, "infra", str(error))
        raise
    except Exception as error:
        _put_down(session, "failed", f"{type(error).__name__}: {error}")
        raise
    finally:
        calls.close()


def _search(experiment: Experiment, session: Session) -> None:
    if session.journal.state.closed is not None:
        return
    reason = "finished_early"
    try:
        session.doing("thinking")
        experiment.agent.run(session)
    except BudgetExhausted as exhausted:
        reason = exhausted.resource
    session.journal.record("close", reason=reason, step=len(session.history))
    session.tell()


def _held_out_test(session: Session, evaluator: Evaluator) -> None:
    """Measure the best val step on test, once; the baseline's value stands in if it has none."""
    if session.journal.state.test is not None:
        return
    session.doing("held-out test")
    best = session.history.best()
    name = evaluator.task.metric.name
    value = evaluator.baseline["test"][name]
    result: dict[str, Any] = {"step": best.id if best else None, "metrics": {}}
    if best is None:
        result["fallback"] = "no step has a metric"
    else:
        kept = Kept.below(session.folder).of(best)
        if evaluator.task.keep and kept is None:
            result["again"] = _why_again(best)
            session.doing(f"held-out test, val commands first: {result['again']}")
        outcome = evaluator.evaluate(best.snapshot, "test", kept=kept)
        result |= {"status": outcome.status, "metrics": outcome.metrics}
        if outcome.status == "ok":
            value = outcome.metrics[name]
        else:
            reason = (outcome.feedback.strip().splitlines() or [""])[0]
            result["fallback"] = f"step {best.id} on test: {outcome.status}, {reason}"
    session.journal.record("test", value=value, **result)
    session.tell()


def _why_again(best: Node) -> str:
    """Why what the best step left is not there to go on from."""
    told = next((flag for flag in best.flags if flag.startswith(NOT_KEPT)), "it is not there")
    why = f"step {best.id}: {told}"
    log.warning("the test runs the val commands again, %s", why)
    return why


def _put_down(session: Session, reason: str, detail: str = "") -> None:
    session.journal.record("pause", reason=reason, detail=detail)
    session.tell()


def _evaluator(experiment: Experiment, folder: Path, observers: Sequence[Observer]) -> Evaluator:
    def report(what: str) -> None:
        _tell(observers, what)

    parts = (experiment.task, experiment.sandbox, experiment.cache_dir)
    return Evaluator.open(*parts, folder / "slots", report)


def _header(
    experiment: Experiment, identity: str, evaluator: Evaluator, baseline: Baseline
) -> dict[str, Any]:
    task = experiment.task
    metric = task.metric
    known = noise(evaluator, experiment.root)
    return {
        "identity": identity,
        "instance": uuid.uuid4().hex,
        "sweep": experiment.sweep,
        "task": task.name,
        "agent": experiment.agent.name,
        "llm": experiment.llm_name,
        "seed": experiment.seed,
        "steps": experiment.budget.steps,
        "metric": {**metric.__dict__, "direction": str(metric.direction)},
        "baseline": baseline.metrics,
        "baseline_utility": metric.utility(baseline.metrics["val"][metric.name]),
        "baseline_outputs": baseline.outputs,
        "noise": asdict(known) if known else None,
        "pristine": task.target_files(),
        "commit": evaluator.workspace.commit,
        "sandbox": evaluator.sandbox.level,
        "isolation": task.isolation,
        "started": round(time.time(), 3),
        "host": platform.node(),
        "versions": {"fml_hydra": __version__, **versions()},
        "gpus": {"wanted": evaluator.gpus.wanted, "leased": evaluator.gpus.count},
        "repository": provenance(task.origin, experiment.cache_dir) if task.origin else {},
        "datasets": records(task.datasets, task.shelf(experiment.cache_dir)),
        "environment": asdict(evaluator.python) | {"path": str(evaluator.python.path)},
    }


def _tell(observers: Sequence[Observer], what: str) -> None:
    for observer in observers:
        guarded(observer.doing, what)
