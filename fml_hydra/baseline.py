"""The baseline: the task's code as given, measured on val and test by the harness of every step.

Measured once per task and machine state, then shared by all runs below one root; so is its noise,
where `tasks check` has measured it.
"""

import json
import sys
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal, get_args

from filelock import FileLock

from fml_hydra.errors import TaskError
from fml_hydra.evaluation import Evaluator, Outcome
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
    path = _path(evaluator, root, "baselines")
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{path}.lock"):
        if path.exists():
            return Baseline(**json.loads(path.read_text()))
        baseline = _measured(evaluator)
        replace_json(path, baseline.__dict__)
    return baseline


@dataclass(frozen=True)
class Noise:
    """How far the baseline's metric moves when nothing but the seed changes."""

    sd: dict[Split, float]
    """Standard deviation by split, in the metric's unit."""
    seeds: int | None
    """Over how many seeds; None if that is not known."""
    source: Literal["measured", "declared"]
    """`tasks check` on this machine, or the task's YAML."""


def write_noise(evaluator: Evaluator, root: Path, sd: dict[Split, float], seeds: int) -> Path:
    """Keep a measured noise beside the baseline it belongs to; returns the file."""
    path = _path(evaluator, root, "noise")
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_json(path, {"sd": sd, "seeds": seeds, "source": "measured"})
    return path


def noise(evaluator: Evaluator, root: Path) -> Noise | None:
    """What is known of the task's noise: measured under the same conditions, else declared."""
    path = _path(evaluator, root, "noise")
    if path.exists():
        return Noise(**json.loads(path.read_text()))
    reported = evaluator.task.reported
    known = reported.baseline if reported else None
    if known is None or known.val_sd is None or known.test_sd is None:
        return None
    return Noise({"val": known.val_sd, "test": known.test_sd}, None, "declared")


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
    splits = get_args(Split)
    outcomes = evaluator.in_turn({}, splits)
    found: dict[Split, Outcome] = dict(zip(splits, outcomes, strict=False))
    for split, outcome in found.items():
        if outcome.status != "ok":
            reason = (outcome.feedback.strip().splitlines() or [""])[-1]
            raise TaskError(
                f"task {evaluator.task.name}: the baseline does not run on {split} "
                f"({outcome.status}: {reason}); `tasks check {evaluator.task.name}` shows all of it"
            )
    metrics = {split: outcome.metrics for split, outcome in found.items()}
    return Baseline(metrics, found["val"].outputs, found["val"].seconds)


def _path(evaluator: Evaluator, root: Path, kind: str) -> Path:
    name = evaluator.task.name.replace("/", "-")
    return root / kind / f"{name}-{_key(evaluator)}.json"


def _key(evaluator: Evaluator) -> str:
    """What decides its values."""
    task: TaskSpec = evaluator.task
    commands = [[c.run, *c.data] for c in (*task.commands, *task.test_commands)]
    seeds = [task.seeds.val, task.seeds.test]
    results = [asdict(result) for result in task.results]
    grading = [task.metric.name, task.outputs, results, evaluator.data.sha256]
    python = [evaluator.python.version, *evaluator.python.installed]
    data = sorted((place, str(source)) for place, source in evaluator.mounts.items())
    place = [evaluator.sandbox.level, task.threads, versions(), python, evaluator.gpus.count]
    return value_hash([task.content_hash(), commands, seeds, grading, data, place])[:16]
