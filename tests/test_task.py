"""Definitions of tasks: what is refused before anything runs, and what an agent is told."""

from pathlib import Path

import pytest
from evaluation_bench import toy_task
from hydra.errors import InstantiationException

from fml_hydra.errors import TaskError
from fml_hydra.metric import Direction
from fml_hydra.task import Brief, TaskSpec
from fml_hydra.task_check import check_task
from fml_hydra.terms import Constraint


def test_the_toy_task_is_as_it_says(toy: Path, tmp_path: Path) -> None:
    task = toy_task(toy, tmp_path)
    check_task(task)
    assert task.metric.direction is Direction.LOWER
    assert task.targets == ("solution.py",)
    assert list(task.target_files()) == ["solution.py"]
    assert task.commands[0].data == ("train", "eval")
    assert (task.seeds.val, task.seeds.test) == (0, 1000)


@pytest.mark.parametrize("missing", ["repo", "grade.py", "prepare.py", "description.md"])
def test_a_missing_file_is_named(toy: Path, tmp_path: Path, missing: str) -> None:
    task = toy_task(toy, tmp_path)
    (task.dir / missing).rename(task.dir / "elsewhere")
    with pytest.raises(TaskError, match=f"task toy: .*/{missing} does not exist"):
        check_task(task)


@pytest.mark.parametrize(
    ("knobs", "reason"),
    [
        ({"targets": ["solutoin.py"]}, "targets: 'solutoin.py' does not exist"),
        ({"protected": ["eval.py"]}, "protected: 'eval.py' does not exist"),
        ({"targets": ["../grade.py"]}, "targets: '../grade.py' must lie inside the repository"),
        ({"protected": ["/etc/passwd"]}, "protected: '/etc/passwd' must lie inside"),
        ({"outputs": ["../x.npz"]}, "outputs: '../x.npz' must lie inside {out}"),
        ({"protected": ["run.py", "solution.py"]}, "solution.py is both a target and protected"),
        ({"targets": []}, "must not be empty"),
        ({"commands": []}, "must not be empty"),
        ({"outputs": []}, "give either `outputs`, which grade.py gets, or `results`"),
        ({"results": [{"format": "json", "metrics": {"mse": "mse"}}]}, "give either `outputs`"),
        (
            {"outputs": [], "results": [{"format": "json", "metrics": {"mse": "mse"}}]},
            "it has `results` and grade.py; remove one of them",
        ),
        ({"mounts": {"../x": "/usr"}}, "'../x' must lie inside the repository, or"),
        ({"mounts": {"x": "/no/such/folder"}}, "/no/such/folder does not exist"),
        ({"repository": "/no/such/repository"}, "/no/such/repository does not exist"),
        ({"test_commands": [{"run": "{python} {x}"}]}, "cannot be read ('x')"),
        ({"commands": [{"run": "{python} run.py {dat}"}]}, "cannot be read ('dat')"),
        ({"commands": [{"run": "{python} 'run.py"}]}, "cannot be read (No closing quotation)"),
        ({"commands": [{"run": "run {0}"}]}, "it may hold {python}, {data}, {out}, {seed}"),
        ({"commands": [{"run": "run {out.x}"}]}, "cannot be read"),
        ({"commands": [{"run": " "}]}, "one of them is empty"),
    ],
)
def test_what_cannot_work_is_refused_in_one_line(
    toy: Path, tmp_path: Path, knobs: dict, reason: str
) -> None:
    with pytest.raises(TaskError) as caught:
        check_task(toy_task(toy, tmp_path, **knobs))
    assert "task toy: " in str(caught.value)
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "knobs",
    [
        {"timeuot": 3},
        {"timeout": "long"},
        {"metric": {"direction": "up"}},
        {"commands": [{"run": "x", "data": ["answers"]}]},
        {"commands": [{"run": "x", "data": ["test"]}]},
        {"isolation": "none"},
        {"constraints": [{"metric": "n", "at_most": "best"}]},
    ],
)
def test_unknown_and_ill_typed_knobs_are_refused(toy: Path, tmp_path: Path, knobs: dict) -> None:
    with pytest.raises(InstantiationException):
        toy_task(toy, tmp_path, **knobs)


def test_the_hash_covers_what_can_change_a_result(toy: Path, tmp_path: Path) -> None:
    task = toy_task(toy, tmp_path)
    before = task.content_hash()
    (task.dir / "reference").mkdir(exist_ok=True)
    (task.dir / "reference" / "best.py").touch()
    (task.dir / "repo" / "__pycache__").mkdir()
    (task.dir / "repo" / "__pycache__" / "run.pyc").touch()
    assert task.content_hash() == before
    seen = {before}
    for name in ("grade.py", "prepare.py", "description.md", "repo/run.py", "repo/new.py"):
        (task.dir / name).write_text("changed")
        seen.add(task.content_hash())
    assert len(seen) == 6


def test_a_brief_tells_the_agent_what_it_may_know(toy: Path, tmp_path: Path) -> None:
    task = toy_task(toy, tmp_path)
    brief = Brief.of(task, {"mse": 0.5})
    assert brief.description.startswith("Fit a line")
    assert brief.files == {"solution.py": (task.repo / "solution.py").read_text()}
    assert brief.protected == ("run.py",)
    assert brief.commands == ("{python} run.py {data} {out}",)
    assert brief.baseline == {"mse": 0.5}
    assert brief.repository == task.repo


def test_a_folder_may_begin_with_a_tilde(toy: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("HOME", str(toy))
    assert toy_task(toy, tmp_path, dir="~/tasks/toy").dir == toy / "tasks" / "toy"


@pytest.mark.parametrize(
    ("constraint", "value", "reason"),
    [
        (Constraint("acc", at_least=0.8), 0.8, ""),
        (Constraint("acc", at_least=0.8), 0.79, "acc = 0.79 is below the allowed 0.8"),
        (Constraint("acc", at_least=0.8, slack=0.01), 0.79, ""),
        (Constraint("acc", at_least="baseline", slack=0.01), 0.69, ""),
        (Constraint("acc", at_least="baseline"), 0.69, "acc = 0.69 is below the allowed 0.7"),
        (Constraint("acc", at_most="baseline"), 0.71, "acc = 0.71 is above the allowed 0.7"),
        (Constraint("acc", at_most=0.5, slack=0.1), 0.61, "acc = 0.61 is above the allowed 0.6"),
        (Constraint("acc", at_least=0.2, at_most=0.4), 0.5, "acc = 0.5 is above the allowed 0.4"),
        (Constraint("acc"), 1e9, ""),
        (Constraint("other", at_least=0.0), 1.0, "constraint metric 'other' is missing"),
    ],
)
def test_constraints(constraint: Constraint, value: float, reason: str) -> None:
    assert constraint.broken({"acc": value}, {"acc": 0.7}) == reason


def test_a_task_is_frozen(toy: Path, tmp_path: Path) -> None:
    task = toy_task(toy, tmp_path)
    with pytest.raises(AttributeError):
        task.timeout = 1.0  # type: ignore[misc]
    assert isinstance(task, TaskSpec)
