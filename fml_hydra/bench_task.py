"""From a task in FML-bench's format to one of ours: a YAML to read and change, and a description.

`python -m fml_hydra tasks new NAME fml_bench=.../ml_tasks/Mine`. Not here: reading the format
(bench_format).
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from fml_hydra.bench_format import CHECKPOINT, BenchTask, Translation
from fml_hydra.errors import ConfigError

CHANGE = "CHANGE_ME"
"""Stands where FML-bench's files do not say what is needed."""


def write_bench_task(folder: Path, name: str, source: Path) -> list[Path]:
    """Write `conf/task/NAME.yaml` and a description below `folder`; returns both.

    Raises ConfigError, naming file and key, if `source` is no task in FML-bench's format.
    """
    task = BenchTask.read(source)
    yaml = folder / "conf" / "task" / f"{name}.yaml"
    described = folder / "tasks" / name / "description.md"
    texts = {yaml: "\n".join(_yaml(name, task)) + "\n", described: f"{task.description()}\n"}
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return list(texts)


def _yaml(name: str, task: BenchTask) -> Iterator[str]:
    """The lines of a task's YAML."""
    made = Translation()
    running = list(_commands(task, made))  # fills `made`
    targets = [str(path) for path in task.config["target_files"]]
    made.files |= {place: path for place in targets if (path := _new_target(task, place))}
    yield f"# Written from {task.folder}; prepare it, then measure it:"
    for verb in ("prepare", "check"):
        yield f"# python -m fml_hydra tasks {verb} {name} --config-dir conf tasks_dir=tasks"
    yield "_target_: fml_hydra.task.TaskSpec"
    yield f"name: {name}\ntitle: {name}\nproblem: {name}\ndir: ${{tasks_dir}}/{name}"
    yield from _origin(task, made)
    yield f"targets: {json.dumps(targets)}"
    yield f"protected: {json.dumps([place for place in made.files if place not in targets])}"
    yield from running
    yield from _metrics(task)
    yield "isolation: shared # its own process says what it reached"
    yield from _surroundings(task)


def _commands(task: BenchTask, made: Translation) -> Iterator[str]:
    before, after = (
        task.config.get(f"{key}_commands") or [] if task.config.get(f"do_{key}") else []
        for key in ("preprocess", "postprocess")
    )
    main = task.config["execute_commands"] if task.old else [task.config["val_command"]]
    yield "commands: # the environment's Python is first on PATH"
    for line in made.commands(task, [*before, main[0], *after]):
        yield f"  - {{run: {json.dumps(line)}}}"
    for line in main[1:]:
        yield f"  # FML-bench runs the first of execute_commands only, not: {line}"
    if not task.old:
        yield "test_commands:"
        for line in made.commands(task, [task.config["test_command"]]):
            yield f"  - {{run: {json.dumps(line)}}}"
    if task.leaves_checkpoint():
        yield f"keep: [{CHECKPOINT}] # what val leaves to the held-out test"


def _surroundings(task: BenchTask) -> Iterator[str]:
    """Python, data and limits."""
    if environment := str(task.config.get("conda_env") or ""):
        yield f'env: {{name: {environment}}} # or {{python: "3.10", pins: [...]}}'
    else:
        yield "env: {}"
    yield f"mounts: {json.dumps(_beside(task))} # data by its place in the repository, read-only"
    yield "timeout: 2400 # seconds, as FML-bench\nmemory_mb: 16384\nresources: {gpus: 0}"


def _origin(task: BenchTask, made: Translation) -> Iterator[str]:
    there = task.repository.is_dir()
    yield "origin: # the repository, assembled by `tasks prepare`"
    yield f"  url: {json.dumps(str(task.repository) if there else CHANGE)} # an address or a folder"
    pinned = str(task.config.get("pinned_commit", ""))
    yield f'  commit: "{"" if there else pinned}" # FML-bench says {pinned or "nothing"}'
    yield f"  files: {json.dumps({place: str(path) for place, path in made.files.items()})}"


def _new_target(task: BenchTask, name: str) -> Path | None:
    """A target that is no file of the repository but one of the task's own."""
    own = task.folder / name
    return own if own.is_file() and not (task.repository / name).is_file() else None


def _beside(task: BenchTask) -> dict[str, str]:
    """Data that FML-bench's setup puts beside the repository."""
    data = task.repository.parent / "data"
    found = sorted(data.iterdir()) if data.is_dir() else []
    return {f"../data/{path.name}": str(path) for path in found}


def _metrics(task: BenchTask) -> Iterator[str]:
    data, metric, direction = _primary(task)
    known = {split: task.baseline(split).get(data, {}) for split in ("val", "test")}
    means = {k: f"{data}.means.{k}" for k, v in known["val"].items() if type(v) in (int, float)}
    means.setdefault(metric, f"{data}.means.{metric}")
    yield "results:"
    yield f"  - {{file: {json.dumps(task.results_file)}, format: json,"
    yield f"     metrics: {json.dumps(means)}}}"
    ends = "best: 1.0, worst: 0.0" if direction == "higher" else "best: 0.0"
    yield f"metric: {{name: {json.dumps(metric)}, direction: {direction}, {ends}}}"
    if all(metric in found for found in known.values()):
        values = ", ".join(f"{split}: {found[metric]!r}" for split, found in known.items())
        yield f"reported:\n  baseline: {{{values}}}\n  measured_with: baseline_results of FML-bench"


def _primary(task: BenchTask) -> tuple[str, str, str]:
    """Data set, metric and direction that FML-bench's files name; config.json counts first."""
    chosen = _chosen(task)
    baseline = task.baseline("val")
    metric = str(task.config.get("metric") or next(iter(chosen.get("include_metrics") or []), ""))
    data = next(iter(chosen.get("include_datasets") or []), "")
    if not data:
        data = next((d for d, means in baseline.items() if not metric or metric in means), CHANGE)
    metric = metric or next(iter(baseline.get(data, {})), CHANGE)
    direction = task.config.get("metric_direction") or (
        chosen.get("per_metric_direction") or {}
    ).get(metric)
    return str(data), metric, str(direction or CHANGE)


def _chosen(task: BenchTask) -> Mapping[str, Any]:
    """What configs/tasks/*.yaml of the checkout says of the task's metrics."""
    for path in sorted((task.root / "configs" / "tasks").glob("*.yaml")):
        try:
            found = OmegaConf.to_container(OmegaConf.load(path))
        except (ValueError, OSError) as error:
            raise ConfigError(f"{path}: {str(error).splitlines()[0]}") from error
        if (
            isinstance(found, dict)
            and (found.get("benchmark") or {}).get("name") == task.folder.name
        ):
            metrics = found.get("metrics")
            return metrics if isinstance(metrics, dict) else {}
    return {}
