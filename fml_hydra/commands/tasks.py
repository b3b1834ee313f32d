"""`python -m fml_hydra tasks list|prepare|check [NAME ...]`."""

import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from fml_hydra.config import Experiment, load_experiment
from fml_hydra.data import is_prepared, prepare
from fml_hydra.errors import ConfigError, FmlError
from fml_hydra.evaluation import Evaluator, Outcome
from fml_hydra.overrides import compose_config, parse
from fml_hydra.progress import number
from fml_hydra.sandbox import open_sandbox
from fml_hydra.task import Measured, TaskSpec
from fml_hydra.workspace import Workspace

VERBS = ("list", "prepare", "check")
TOLERANCE = 3.0
"""Standard deviations a measured value may be off the declared one."""


@dataclass(frozen=True)
class Row:
    """One measured method."""

    method: str
    outcomes: dict[str, Outcome]
    declared: Measured | None
    verdict: str


def main(argv: list[str]) -> int:
    """List tasks, prepare their data, or measure them against what they declare."""
    if not argv or argv[0] not in VERBS:
        raise ConfigError(f"tasks needs one of {', '.join(VERBS)}, then task names or `all`")
    verb, words = argv[0], argv[1:]
    names = [w for w in words if "=" not in w and not w.startswith("-")] or ["all"]
    others = [w for w in words if "=" in w or w.startswith("-")]
    console = Console(width=None if sys.stdout.isatty() else 160)
    experiments = list(_experiments(names, others, words))
    return {"list": _list, "prepare": _prepare, "check": _check}[verb](experiments, console)


def _experiments(names: list[str], others: list[str], words: list[str]) -> Iterator[Experiment]:
    task = next(
        w for w in parse([f"task={','.join(names)}", *others]).overrides if w[:5] == "task="
    )
    for name in task.removeprefix("task=").split(","):
        yield load_experiment(compose_config([*others, f"task={name}"]), {"task": name})


def _list(experiments: list[Experiment], console: Console) -> int:
    table = Table(title="Tasks", title_justify="left")
    for column in (
        "task",
        "problem",
        "metric",
        "baseline val",
        "best known val",
        "isolation",
        "data",
    ):
        table.add_column(column)
    for experiment in experiments:
        task = experiment.task
        known = task.reported
        best = (
            min((r.val for r in known.references.values()), key=lambda v: -task.metric.utility(v))
            if known and known.references
            else None
        )
        ready = is_prepared(task.preparer, task.sources, experiment.cache_dir)
        table.add_row(
            task.name,
            task.problem,
            f"{task.metric.name} ({task.metric.direction} is better)",
            number(known.baseline.val if known else None),
            number(best),
            task.isolation,
            "prepared" if ready else "not yet",
        )
    console.print(table)
    return 0


def _prepare(experiments: list[Experiment], console: Console) -> int:
    failed = 0
    for experiment in experiments:
        task = experiment.task

        def report(what: str, name: str = task.name) -> None:
            console.print(f"{name}: {what}", markup=False, highlight=False)

        try:
            data = prepare(task.preparer, task.sources, experiment.cache_dir, report)
        except FmlError as error:
            report(f"failed: {error}")
            failed += 1
            continue
        report(f"ready in {data.folder} ({', '.join(data.provenance.values()) or 'no sources'})")
    return 1 if failed else 0


def _check(experiments: list[Experiment], console: Console) -> int:
    failed = 0
    for experiment in experiments:
        table = Table(title=experiment.task.name, title_justify="left")
        for column in ("method", "status", "val", "declared", "test", "declared", "s", "verdict"):
            table.add_column(column)
        rows = []
        with console.status(f"{experiment.task.name}: measuring"):
            for row in _measured(experiment):
                rows.append(row)
                table.add_row(*_cells(row, experiment.task))
        console.print(table)
        console.print(
            f"isolation: {experiment.task.isolation}, sandbox: {rows[0].outcomes['val'].sandbox}\n"
        )
        for row in rows:
            if row.outcomes["val"].status != "ok":
                console.print(row.outcomes["val"].feedback, markup=False)
        failed += sum(row.verdict != "ok" for row in rows)
    return 1 if failed else 0


def _measured(experiment: Experiment) -> Iterator[Row]:
    task = experiment.task
    data = prepare(task.preparer, task.sources, experiment.cache_dir)
    workspace = Workspace.open(task.repo, task.protected, experiment.cache_dir)
    declared = task.reported.references if task.reported else {}
    with tempfile.TemporaryDirectory() as scratch:
        sandbox = open_sandbox(experiment.sandbox)
        evaluator = Evaluator(task, workspace, sandbox, data, Path(scratch), experiment.sandbox)
        base = _measure(
            evaluator, "baseline", {}, task.reported.baseline if task.reported else None
        )
        yield base
        evaluator.baseline = {
            "val": base.outcomes["val"].metrics,
            "test": base.outcomes["test"].metrics,
        }
        for folder in sorted(p for p in (task.dir / "reference").glob("*") if p.is_dir()):
            files = {
                name: (folder / name).read_text()
                for name in task.targets
                if (folder / name).exists()
            }
            yield _measure(evaluator, folder.name, files, declared.get(folder.name))


def _measure(
    evaluator: Evaluator, method: str, files: dict[str, str], declared: Measured | None
) -> Row:
    outcomes = {"val": evaluator.evaluate(files, "val"), "test": evaluator.evaluate(files, "test")}
    return Row(method, outcomes, declared, _verdict(evaluator.task, outcomes, declared))


def _verdict(task: TaskSpec, outcomes: dict[str, Outcome], declared: Measured | None) -> str:
    for split, outcome in outcomes.items():
        if outcome.status != "ok":
            return f"{outcome.status} on {split}"
        if declared is None:
            continue
        noise = task.reported.baseline if task.reported else declared
        sd = getattr(declared, f"{split}_sd") or getattr(noise, f"{split}_sd")
        off = abs(outcome.metrics[task.metric.name] - getattr(declared, split))
        if sd is not None and off > TOLERANCE * sd:
            return f"{split} is off by {off / sd:.1f} sd" if sd else f"{split} is off by {off:.4g}"
    return "ok" if declared else "not declared"


def _cells(row: Row, task: TaskSpec) -> list[str]:
    cells = [row.method, row.outcomes["val"].status]
    for split in ("val", "test"):
        cells.append(number(row.outcomes[split].metrics.get(task.metric.name)))
        cells.append(number(getattr(row.declared, split) if row.declared else None))
    return [*cells, f"{row.outcomes['val'].seconds:.1f}", row.verdict]
