"""What of a task's definition cannot work, said in one line before anything runs.

Not here: whether the commands do what they should (`tasks check`).
"""

import re
import shlex
from collections.abc import Iterable
from pathlib import PurePosixPath

from fml_hydra.errors import TaskError
from fml_hydra.task import TaskSpec
from fml_hydra.terms import OUT, PLACEHOLDERS, Command

HOME = "~/"
"""Begins a place below the HOME of the commands."""
BESIDE = "../data/"
"""Begins a place beside the repository."""


def check_task(task: TaskSpec) -> None:
    """Raise TaskError, naming file and remedy, if the definition or its files cannot work."""
    for path in (task.repo, *task.mounts.values()):
        if not path.exists():
            raise _wrong(task, f"{path} does not exist")
    check_definition(task)
    for kind, names in (("targets", task.targets), ("protected", task.protected)):
        for name in names:
            if not (task.repo / name).is_file():
                raise _wrong(
                    task,
                    f"{kind}: {name!r} does not exist in {task.repo}; "
                    f"correct `{kind}` in the task's YAML or add the file",
                )
    for reseed in task.reseed:
        _check_once(task, reseed.file, reseed.find)


def check_definition(task: TaskSpec) -> None:
    """The part of `check_task` that needs no repository."""
    if not (task.dir / "description.md").exists():
        raise _wrong(task, f"{task.dir / 'description.md'} does not exist")
    _check_names(task)
    for command in (*task.commands, *task.test_commands):
        _check_command(task, command)
    if both := sorted(set(task.targets) & set(task.protected)):
        raise _wrong(
            task,
            f"{', '.join(both)} is both a target and protected; remove it from one of the lists",
        )
    if not task.targets or not task.commands:
        raise _wrong(task, "targets and commands must not be empty")
    _check_results(task)


def _check_names(task: TaskSpec) -> None:
    inside = {
        "targets": task.targets,
        "protected": task.protected,
        "outputs": task.outputs,
        "keep": task.keep,
        "reseed": [reseed.file for reseed in task.reseed],
        "origin.files": task.origin.files if task.origin else (),
    }
    for kind, names in inside.items():
        for name in names:
            where = "{out}" if kind == "outputs" else "the repository"
            _check_inside(task, kind, name, where)
    for place in (*task.mounts, *(data.place for data in task.datasets.values())):
        _check_place(task, place)
    for kept in map(PurePosixPath, task.keep):
        if own := [n for n in (*task.targets, *task.protected) if _below(n, kept)]:
            raise _wrong(task, f"keep: {str(kept)!r} holds {own[0]}, a target or protected file")


def _below(name: str, folder: PurePosixPath) -> bool:
    return PurePosixPath(name).is_relative_to(folder)


def _check_inside(task: TaskSpec, kind: str, name: str, where: str) -> None:
    pure = PurePosixPath(name)
    if pure.is_absolute() or ".." in pure.parts or name.startswith("~"):
        raise _wrong(task, f"{kind}: {name!r} must lie inside {where}")


def _check_place(task: TaskSpec, place: str) -> None:
    inner = "." if place == BESIDE.rstrip("/") else place.removeprefix(HOME).removeprefix(BESIDE)
    where = f"the repository, or begin with {HOME} or {BESIDE}"
    _check_inside(task, "mounts, datasets", inner, where)


def _check_command(task: TaskSpec, command: Command) -> None:
    run = command.run
    try:
        words = [word.format(**dict.fromkeys(PLACEHOLDERS, "x")) for word in shlex.split(run)]
    except (KeyError, IndexError, ValueError, AttributeError) as error:
        known = ", ".join(f"{{{name}}}" for name in PLACEHOLDERS)
        raise _wrong(
            task, f"commands: {run!r} cannot be read ({error}); it may hold {known}"
        ) from error
    if not words:
        raise _wrong(task, "commands: one of them is empty")
    if command.data and not task.preparer.exists():
        raise _wrong(
            task,
            f"commands: {run!r} wants data, but {task.preparer} does not exist; write it, or "
            "remove `data`",
        )


def _check_results(task: TaskSpec) -> None:
    """Metrics come from grade.py or from the repository itself; then that must be said."""
    if not task.grader.exists():
        raise _wrong(task, f"{task.grader} does not exist; write it, or give `results`")
    if bool(task.outputs) == bool(task.results):
        raise _wrong(task, "give either `outputs`, which grade.py gets, or `results`")
    _check_patterns(task, task.refused)
    for number, result in enumerate(task.results):
        if why := result.wrong():
            raise _wrong(task, f"results[{number}] {why}")
        _check_inside(task, "results", result.file.removeprefix(OUT), "the repository")
    if not task.results:
        return
    if (task.dir / "grade.py").exists():
        raise _wrong(task, "it has `results` and grade.py; remove one of them")
    if task.isolation != "shared":
        raise _wrong(
            task,
            "with `results` the agent's own process says what it reached; write "
            "`isolation: shared`, or grade its outputs with a grade.py",
        )
    named = [name for result in task.results for name in result.metrics]
    if task.metric.name not in named:
        raise _wrong(task, f"results do not name {task.metric.name!r}, the metric")


def _check_patterns(task: TaskSpec, patterns: Iterable[str]) -> None:
    for pattern in patterns:
        try:
            re.compile(pattern)
        except re.error as error:
            raise _wrong(task, f"refused: {pattern!r} is no regular expression: {error}") from error


def _check_once(task: TaskSpec, file: str, text: str) -> None:
    path = task.repo / file
    found = path.read_text().count(text) if path.is_file() else 0
    if found != 1:
        raise _wrong(task, f"reseed: {text!r} must stand once in {file}, it does {found} times")


def _wrong(task: TaskSpec, what: str) -> TaskError:
    return TaskError(f"task {task.name}: {what}")
