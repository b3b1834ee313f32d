"""`python -m fml_hydra tasks list|prepare|check [NAME ...]`, `check` with or without `--quick`."""

import sys
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.table import Table

from fml_hydra.commands.check import SPLITS, Measurement, measure_task, write_csv
from fml_hydra.config import Experiment, load_experiment
from fml_hydra.data import is_prepared, prepare
from fml_hydra.environment import ready_python
from fml_hydra.errors import ConfigError, FmlError
from fml_hydra.overrides import compose_config, parse
from fml_hydra.progress import number
from fml_hydra.skeleton import write_skeleton, write_wrapper
from fml_hydra.task import TaskSpec

VERBS = ("list", "prepare", "check", "new")
SEEDS = 10
"""Seeds over which a baseline's noise is measured."""


def main(argv: list[str]) -> int:
    """List tasks, prepare their data, or measure them against what they declare."""
    if not argv or argv[0] not in VERBS:
        raise ConfigError(f"tasks needs one of {', '.join(VERBS)}, then task names or `all`")
    verb, line = argv[0], parse([word for word in argv[1:] if word != "--quick"])
    names = [word for word in line.overrides if "=" not in word] or ["all"]
    others = [*line.flags, *(word for word in line.overrides if "=" in word)]
    if verb == "new":
        return _new(names, others, Path())
    console = Console(width=None if sys.stdout.isatty() else 160)
    experiments = list(_experiments(names, others))
    if verb == "check":
        return _check(experiments, console, quick="--quick" in argv)
    return {"list": _list, "prepare": _prepare}[verb](experiments, console)


def _new(names: list[str], others: list[str], here: Path) -> int:
    """Write a task to start one's own from: a small one that works, or one for a repository."""
    (name,) = names if len(names) == 1 else [""]
    if not name.isidentifier() or name == "all":
        raise ConfigError("tasks new needs one name of letters, digits and underscores")
    if unknown := [word for word in others if not word.startswith("repository=")]:
        raise ConfigError(f"tasks new: {unknown[0]!r} is unknown; allowed: repository=FOLDER")
    taken = [here / "tasks" / name, here / "conf" / "task" / f"{name}.yaml"]
    if there := [path for path in taken if path.exists()]:
        raise ConfigError(f"{there[0]} exists already; choose another name or folder")
    if others:
        repository = Path(others[0].partition("=")[2]).expanduser().absolute()
        if not repository.is_dir():
            raise ConfigError(f"tasks new: repository={repository} is no folder")
        paths, first = write_wrapper(here, name, repository), "Fill in what the first file asks for"
    else:
        paths, first = write_skeleton(here, name), "Measure it"
    where = "--config-dir conf tasks_dir=tasks"
    lines = [*map(str, paths), "", f"{first}, then let an agent at it:"]
    lines.append(f"  python -m fml_hydra tasks check {name} {where}")
    lines.append(f"  python -m fml_hydra {where} task={name}")
    Console().print("\n".join(lines), highlight=False, markup=False, soft_wrap=True)
    return 0


def _experiments(names: list[str], others: list[str]) -> Iterator[Experiment]:
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
            python = ready_python(task.env, task.dir, experiment.cache_dir, report)
            data = prepare(task.preparer, task.sources, experiment.cache_dir, report)
        except FmlError as error:
            report(f"failed: {error}")
            failed += 1
            continue
        report(f"ready in {data.folder} ({', '.join(data.provenance.values()) or 'no sources'})")
        if python.installed:
            report(f"Python {python.version}, {len(python.installed)} packages: {python.path}")
    return 1 if failed else 0


def _check(experiments: list[Experiment], console: Console, quick: bool) -> int:
    failed = 0
    for experiment in experiments:
        task = experiment.task
        rows: list[Measurement] = []
        with console.status("") as status:
            for row in measure_task(experiment, 1 if quick else SEEDS, ideas=not quick):
                rows.append(row)
                status.update(f"{task.name}: {len(rows)} measured, last {row.method}")
        console.print(_table(rows, task))
        for row in rows:
            if row.kind != "idea" and row.feedback:
                console.print(f"{row.method}: {row.feedback}", markup=False, highlight=False)
        path = experiment.root / "checks" / f"{task.name}.csv"
        write_csv(path, rows)
        console.print(f"isolation: {task.isolation}; all values: {path}\n", highlight=False)
        failed += sum(row.verdict != "ok" for row in rows)
    return 1 if failed else 0


def _table(rows: list[Measurement], task: TaskSpec) -> Table:
    """One row per method: measured (mean and sd over seeds) beside declared."""
    direction = f"{task.metric.name}, {task.metric.direction} is better"
    table = Table(title=f"{task.name} ({direction})", title_justify="left")
    table.add_column("method")
    table.add_column("status")
    for column in ("val", "sd", "declared", "test", "sd", "declared", "s"):
        table.add_column(column, justify="right")
    table.add_column("verdict", overflow="fold")
    for row in rows:
        cells = []
        for split in SPLITS:
            declared = getattr(row.declared, split) if row.declared else None
            cells += [number(row.middle(split)), number(row.spread(split)), number(declared)]
        name = f"idea {row.method} ({row.effect})" if row.kind == "idea" else row.method
        colour = "" if row.verdict == "ok" else "red"
        seconds = f"{row.seconds:.1f}"
        table.add_row(name, row.status, *cells, seconds, row.verdict, style=colour)
    return table
