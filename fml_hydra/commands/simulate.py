"""`python -m fml_hydra simulate agent=all [steps=100 seeds=20 density=sparse,dense out=DIR]`.

How agents spend their steps, on made-up landscapes and without a real model: a table, a CSV with a
row per run, and a picture per agent. Any other `key=value` changes the agents' configuration.
"""

import csv
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from fml_hydra.config import Experiment, load_experiment
from fml_hydra.errors import ConfigError
from fml_hydra.journal import Node
from fml_hydra.overrides import PROGRAM, compose_config, parse
from fml_hydra.resources import cores
from fml_hydra.simulation import DENSITIES, Behaviour, behaviour, make_landscape, simulate
from fml_hydra.simulation.picture import Row, picture

OWN = {"steps": "100", "seeds": "20", "density": "sparse,dense", "out": ""}
"""This command's own words and what they are when not given."""


@dataclass(frozen=True)
class Job:
    """One run to be simulated."""

    agent: str
    """Option of the agent."""
    experiment: Experiment
    """Its configuration."""
    density: str
    """As given on the command line."""
    seed: int
    """Of the landscape and of the run."""
    steps: int
    """Its budget."""


@dataclass(frozen=True)
class Result:
    """What came of a job."""

    job: Job
    """The job."""
    behaviour: Behaviour
    """How the steps were spent."""
    curve: list[float]
    """True score of the best step so far, one per step of the budget."""
    nodes: list[Node]
    """The steps."""


def main(argv: list[str]) -> int:
    """Simulate, then print the table and say where the files are."""
    own, others = _sorted(argv)
    steps, seeds = _count(own, "steps"), _count(own, "seeds")
    densities = [*dict.fromkeys(own["density"].split(","))]
    for density in densities:
        _share(density)
    console = Console(width=None if sys.stdout.isatty() else 200)
    experiments = dict(_experiments([*others, f"budget.steps={steps}"], console))
    first = next(iter(experiments.values()))
    out = Path(own["out"] or first.root / "simulations")
    jobs = [
        Job(name, experiment, density, experiment.seed + i, steps)
        for name, experiment in experiments.items()
        for density in densities
        for i in range(seeds)
    ]
    results = _all(jobs, console)
    console.print(_table(results))
    _write(out, results)
    console.print(f"All runs: {out}/runs.csv; a picture per agent: {out}/AGENT.svg", soft_wrap=True)
    return 0


def _sorted(argv: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """This command's own words, and the rest."""
    given = dict(
        word.split("=", 1) for word in argv if word.partition("=")[0] in OWN and "=" in word
    )
    others = [word for word in argv if word.partition("=")[0] not in OWN]
    return {**OWN, **given}, others


def _count(own: Mapping[str, str], key: str) -> int:
    if not own[key].isdecimal() or not int(own[key]):
        raise ConfigError(f"simulate: {key} must be a whole number above 0, got {own[key]!r}")
    return int(own[key])


def _share(density: str) -> float:
    """The share of improving changes that a word stands for."""
    try:
        share = DENSITIES[density] if density in DENSITIES else float(density)
    except ValueError:
        share = -1.0
    if not 0 < share < 1:
        known = ", ".join(DENSITIES)
        raise ConfigError(
            f"simulate: density must be {known} or a share between 0 and 1, got {density!r}"
        )
    return share


def _experiments(words: list[str], console: Console) -> Iterator[tuple[str, Experiment]]:
    """The configuration of each agent asked for that can be simulated."""
    line = parse(words)
    asked = [word for word in line.overrides if word.startswith("agent=")]
    names = (asked or ["agent=aide"])[-1].removeprefix("agent=").split(",")
    others = [*line.flags, *(word for word in line.overrides if word not in asked)]
    found = 0
    for name in names:
        cfg = compose_config([*others, f"agent={name}"])
        if cfg.agent.get("_target_") == PROGRAM:
            console.print(f"{name}: a program of its own, cannot be simulated", highlight=False)
            continue
        found += 1
        yield name, load_experiment(cfg, {"agent": name})
    if not found:
        raise ConfigError("simulate: none of these agents can be simulated")


def _all(jobs: Sequence[Job], console: Console) -> list[Result]:
    """Run all jobs, some at a time; in their order."""
    done: dict[int, Result] = {}
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with (
        Progress(*columns, TimeRemainingColumn(), console=console, transient=True) as progress,
        ProcessPoolExecutor(min(cores(), len(jobs))) as pool,
    ):
        bar = progress.add_task("simulating", total=len(jobs))
        futures = {pool.submit(_run, job): number for number, job in enumerate(jobs)}
        for future in as_completed(futures):
            result = done[futures[future]] = future.result()
            progress.update(bar, advance=1, description=f"simulating {result.job.agent}")
    return [done[number] for number in sorted(done)]


def _run(job: Job) -> Result:
    experiment = job.experiment
    run = simulate(
        experiment.agent,
        make_landscape(_share(job.density), job.seed),
        steps=experiment.budget.steps,
        seed=job.seed,
        slots=experiment.slots,
        budget=experiment.budget,
    )
    curve = run.curve()
    curve += [curve[-1] if curve else 0.0] * (job.steps - len(curve))  # it ended early
    return Result(job, behaviour(run.history), curve, [*run.history])


def _grouped(results: Sequence[Result]) -> dict[str, dict[str, list[Result]]]:
    """By agent, then by density."""
    groups: dict[str, dict[str, list[Result]]] = defaultdict(lambda: defaultdict(list))
    for result in results:
        groups[result.job.agent][result.job.density].append(result)
    return groups


_COLUMNS: dict[str, Callable[[Behaviour], float]] = {
    "drafts": lambda b: b.drafts,
    "depth": lambda b: b.depth,
    "width": lambda b: b.width,
    "leaves": lambda b: b.leaves,
    "longest\ndebugging": lambda b: b.debug_chain,
    "islands": lambda b: b.islands,
    "ran %": lambda b: 100 * b.success,
}


def _table(results: Sequence[Result]) -> Table:
    """One row per agent and density; means over seeds."""
    job = results[0].job
    seeds = len({result.job.seed for result in results})
    title = f"{job.steps} steps, mean of {seeds} seeds; score: 0 baseline, 1 optimum (± one s.e.)"
    table = Table(title=title, title_justify="left")
    table.add_column("agent", overflow="fold")
    table.add_column("density")
    for name in ("score at\nthe end", "half-way", *_COLUMNS):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("share of steps by operator, %", overflow="fold")
    for agent, by_density in _grouped(results).items():
        for density, runs in by_density.items():
            table.add_row(agent, density, *_cells(runs))
        table.add_section()
    return table


def _cells(runs: Sequence[Result]) -> list[str]:
    ends = [run.curve[-1] for run in runs]
    error = f" ± {stdev(ends) / len(ends) ** 0.5:.3f}" if len(ends) > 1 else ""
    half = mean(run.curve[len(run.curve) // 2 - 1] for run in runs)
    shape = [mean(measure(run.behaviour) for run in runs) for measure in _COLUMNS.values()]
    operators = sorted({op for run in runs for op in run.behaviour.operators})
    shares = {op: mean(run.behaviour.operators.get(op, 0.0) for run in runs) for op in operators}
    told = ", ".join(f"{op} {100 * share:.0f}" for op, share in shares.items())
    return [
        f"{mean(ends):.3f}{error}",
        f"{half:.3f}",
        *(f"{v:.3g}" if v else "-" for v in shape),
        told,
    ]


def _write(out: Path, results: Sequence[Result]) -> None:
    """`runs.csv` and a picture per agent; raises ConfigError when the folder cannot be written."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        with (out / "runs.csv").open("w", newline="") as file:
            csv.writer(file).writerows(_rows(results))
        for agent, by_density in _grouped(results).items():
            rows = [
                Row(density, [run.curve for run in runs], _typical(runs).nodes)
                for density, runs in by_density.items()
            ]
            path = out / f"{agent.replace('/', '-')}.svg"
            path.write_text(picture(f"{agent} on made-up landscapes", rows))
    except OSError as error:
        raise ConfigError(f"simulate: out={out} cannot be written ({error.strerror})") from error


def _rows(results: Sequence[Result]) -> Iterator[list[object]]:
    operators = sorted({op for result in results for op in result.behaviour.operators})
    shape = [name.replace("\n", " ").replace(" ", "_").replace("%", "percent") for name in _COLUMNS]
    yield ["agent", "density", "seed", "steps", "score", "score_half_way", *shape, *operators]
    for result in results:
        job, curve = result.job, result.curve
        values = [measure(result.behaviour) for measure in _COLUMNS.values()]
        shares = [result.behaviour.operators.get(op, 0.0) for op in operators]
        scores = [curve[-1], curve[max(0, len(curve) // 2 - 1)]]
        yield [job.agent, job.density, job.seed, len(result.nodes), *scores, *values, *shares]


def _typical(runs: Sequence[Result]) -> Result:
    """The run with the median score."""
    return sorted(runs, key=lambda run: run.curve[-1])[len(runs) // 2]
