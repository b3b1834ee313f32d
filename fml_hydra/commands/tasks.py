"""`python -m fml_hydra tasks list|prepare|check|new [NAME ...]`; `check --quick`, `--seeds=5`."""

import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from fml_hydra.bench_task import write_bench_task
from fml_hydra.commands.check import SPLITS, Measurement, measure_task, write_csv
from fml_hydra.config import Experiment, load_experiment
from fml_hydra.data import is_prepared
from fml_hydra.datasets import planned
from fml_hydra.errors import ConfigError, NotPrepared
from fml_hydra.overrides import compose_config, not_prepared, parse
from fml_hydra.preparation import make_ready, unprepared
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
    own = [word for word in argv[1:] if word == "--quick" or word.startswith("--seeds=")]
    verb, line = argv[0], parse([word for word in argv[1:] if word not in own])
    names = [word for word in line.overrides if "=" not in word] or ["all"]
    others = [*line.flags, *(word for word in line.overrides if "=" in word)]
    if verb == "new":
        return _new(names, others, Path())
    console = Console(width=None if sys.stdout.isatty() else 160)
    experiments = _experiments(names, others, prepared=verb == "check")
    if verb == "check":
        return _check(experiments, console, quick="--quick" in own, seeds=_seeds(own))
    return {"list": _list, "prepare": _prepare}[verb](experiments, console)


def _new(names: list[str], others: list[str], here: Path) -> int:
    """Write a task to start one's own from: a small one that works, or one for what is there."""
    (name,) = names if len(names) == 1 else [""]
    if not name.isidentifier() or name == "all":
        raise ConfigError("tasks new needs one name of letters, digits and underscores")
    taken = [here / "tasks" / name, here / "conf" / "task" / f"{name}.yaml"]
    if there := [path for path in taken if path.exists()]:
        raise ConfigError(f"{there[0]} exists already; choose another name or folder")
    paths, first = _written(name, others, here)
    where = "--config-dir conf tasks_dir=tasks"
    lines = [*map(str, paths), "", f"{first[0]}, then let an agent at it:"]
    lines += [f"  python -m fml_hydra tasks {verb} {name} {where}" for verb in first[1:]]
    lines.append(f"  python -m fml_hydra {where} task={name}")
    Console().print("\n".join(lines), highlight=False, markup=False, soft_wrap=True)
    return 0


def _written(name: str, others: list[str], here: Path) -> tuple[list[Path], tuple[str, ...]]:
    """The files of a new task, what to do with them, and the verbs of `tasks` for that."""
    if not others:
        return write_skeleton(here, name), ("Measure it", "check")
    key, _, value = others[0].partition("=")
    if key not in {"repository", "fml_bench"} or len(others) > 1:
        raise ConfigError(
            f"tasks new: {others[-1]!r} is unknown; allowed: repository=FOLDER or fml_bench=FOLDER"
        )
    folder = Path(value).expanduser().absolute()
    if not folder.is_dir():
        raise ConfigError(f"tasks new: {key}={folder} is no folder")
    if key == "repository":
        return write_wrapper(here, name, folder), ("Fill in what the first file asks for", "check")
    return write_bench_task(here, name, folder), ("Read the first file", "prepare", "check")


def _experiments(names: list[str], others: list[str], prepared: bool) -> list[Experiment]:
    """The tasks asked for, all checked before the first is given; `prepared`: or refused."""
    task = next(
        w for w in parse([f"task={','.join(names)}", *others]).overrides if w[:5] == "task="
    )
    found, unready = [], []
    for name in task.removeprefix("task=").split(","):
        cfg = compose_config([*others, f"task={name}"])
        try:
            found.append(load_experiment(cfg, {"task": name}, prepared))
        except NotPrepared as error:
            unready.append(error)
    if unready:
        raise not_prepared(unready)
    return found


def _list(experiments: list[Experiment], console: Console) -> int:
    table = Table(title="Tasks", title_justify="left")
    columns = ("task", "problem", "metric", "baseline val", "best known val", "isolation", "ready")
    for column in columns:
        table.add_column(column, overflow="fold")
    for experiment in experiments:
        task = experiment.task
        known = task.reported
        best = (
            min((r.val for r in known.references.values()), key=lambda v: -task.metric.utility(v))
            if known and known.references
            else None
        )
        table.add_row(
            task.name,
            task.problem,
            f"{task.metric.name} ({task.metric.direction} is better)",
            number(known.baseline.val if known else None),
            number(best),
            task.isolation,
            _state(experiment),
        )
    console.print(table)
    _print_sources(experiments, console)
    return 0


def _state(experiment: Experiment) -> str:
    """`prepared`, or what is not."""
    task, cache = experiment.task, experiment.cache_dir
    if not is_prepared(task.preparer, task.sources, cache) and task.origin is None:
        return "not yet"
    missing = unprepared(task, cache)
    return f"no {', no '.join(missing)}" if missing else "prepared"


def _print_sources(experiments: list[Experiment], console: Console) -> None:
    """What the tasks from elsewhere are made of: address, size and licence."""
    table = Table(title="What `tasks prepare` fetches", title_justify="left")
    for column in ("task", "what", "from", "MB", "licence", "ready"):
        table.add_column(column, overflow="fold")
    for experiment in experiments:
        task, cache = experiment.task, experiment.cache_dir
        if task.origin:
            at = f"{task.origin.url} @ {task.origin.commit[:12]}"
            ready = "yes" if task.origin.is_ready(cache) else "no"
            table.add_row(task.name, "repository", at, "", task.origin.licence, ready)
        for data in planned(task.datasets, task.shelf(cache)):
            size, ready = data.download_mb or data.disk_mb, "yes" if data.ready else "no"
            table.add_row(
                task.name, data.name, data.source, f"{size:g}" if size else "?", data.licence, ready
            )
    if table.row_count:
        console.print(table)


def _prepare(experiments: list[Experiment], console: Console) -> int:
    """Make every part of every task ready; what failed is said again at the end."""
    failed = []
    for experiment in experiments:
        task = experiment.task

        def report(what: str, name: str = task.name) -> None:
            console.print(f"{name}: {what}", markup=False, highlight=False, soft_wrap=True)

        for made in make_ready(task, experiment.means, report):
            report(
                f"{made.name}{' FAILED' if made.failed else ''}: {made.told}{_took(made.seconds)}"
            )
            if made.failed:
                failed.append(f"{task.name}, {made.name}: {made.told}")
    if len(failed) > 1 or (failed and len(experiments) > 1):
        console.print("\n".join([f"{len(failed)} failed:", *failed]), markup=False, soft_wrap=True)
    return 1 if failed else 0


def _took(seconds: float) -> str:
    return f" ({seconds:.0f} s)" if seconds >= 1 else ""


def _seeds(own: list[str]) -> int | None:
    """How many seeds are asked for by number."""
    asked = [word.removeprefix("--seeds=") for word in own if word.startswith("--seeds=")]
    if asked and not (asked[-1].isdigit() and int(asked[-1])):
        raise ConfigError(f"tasks check: --seeds={asked[-1]} is no number above 0")
    return int(asked[-1]) if asked else None


def _check(experiments: list[Experiment], console: Console, quick: bool, seeds: int | None) -> int:
    failed = 0
    number_of_seeds = seeds or (1 if quick else SEEDS)
    for experiment in experiments:
        task = experiment.task
        rows: list[Measurement] = []
        with console.status("") as status:
            patient = seeds is not None
            for row in measure_task(experiment, number_of_seeds, not quick, patient):
                rows.append(row)
                status.update(f"{task.name}: {len(rows)} measured, last {row.method}")
        console.print(_table(rows, task))
        for row in rows:
            if row.kind != "idea" and row.feedback:
                console.print(f"{row.method}: {row.feedback}", markup=False, highlight=False)
        path = experiment.root / "checks" / f"{task.name.replace('/', '-')}.csv"
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
