"""The baseline: the task's code as given, measured on val and test by the harness of every step.

Measured once per task and machine state, then shared by all runs below one root.
"""

import json
import sys
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import get_args

from filelock import FileLock

from fml_hydra.errors import TaskError
from fml_hydra.evaluation import Evaluator
from fml_hydra.files import replace_json
from fml_hydra.hashing import value_hash
from fml_hydra.task import TaskSpec
from fml_hydra.terms import Split

_NUMERIC = ("numpy", "torch", "scikit-learn", "scipy")


@dataclass(frozen=True)
class Baseline:
    """Metrics of the task's code as given."""

    metrics: dict[Split, dict[str, float]]
    """All metrics by split."""
    outputs: str
    """Hash of what it handed in on val."""
    seconds: float
    """Wall time of its val evaluation."""


def measure(evaluator: Evaluator, root: Path) -> Baseline:
    """The baseline of the evaluator's task; raises TaskError when it does not run to a metric."""
    path = root / "baselines" / f"{evaluator.task.name}-{_key(evaluator)}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{path}.lock"):
        if path.exists():
            return Baseline(**json.loads(path.read_text()))
        baseline = _measured(evaluator)
        replace_json(path, baseline.__dict__)
    return baseline


def versions() -> dict[str, str]:
    """Versions of what decides numeric results."""
    found = {"python": sys.version.split()[0]}
    for package in _NUMERIC:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = ""
    return found


def _measured(evaluator: Evaluator) -> Baseline:
    metrics: dict[Split, dict[str, float]] = {}
    outputs, seconds = "", 0.0
    for split in get_args(Split):
        outcome = evaluator.evaluate({}, split)
        if outcome.status != "ok":
            reason = (outcome.feedback.strip().splitlines() or [""])[-1]
            raise TaskError(
                f"task {evaluator.task.name}: the baseline does not run on {split} "
                f"({outcome.status}: {reason}); `tasks check {evaluator.task.name}` shows all of it"
            )
        metrics[split] = outcome.metrics
        if split == "val":
            outputs, seconds = outcome.outputs, outcome.seconds
    return Baseline(metrics, outputs, seconds)


def _key(evaluator: Evaluator) -> str:
    task: TaskSpec = evaluator.task
    commands = [[c.run, *c.data] for c in (*task.commands, *task.test_commands)]
    seeds = [task.seeds.val, task.seeds.test]
    results = [asdict(result) for result in task.results]
    grading = [task.metric.name, task.outputs, results, evaluator.data.sha256]
    python = [evaluator.python.version, *evaluator.python.installed]
    place = [evaluator.sandbox.level, task.threads, versions(), python]
    return value_hash([task.content_hash(), commands, seeds, grading, place])[:16]
