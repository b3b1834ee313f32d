"""The rules against what the authors of the tasks' ideas declare, on all embedded tasks."""

from pathlib import Path

import pandas as pd
import pytest

from fml_hydra.analysis.behaviour import CATEGORIES, agreement, confusion, declared_and_found
from fml_hydra.analysis.behaviour.installed import InstalledTask, installed_tasks

TASKS = ["causality", "continual", "data_efficiency", "fairness", "generalization"]
TASKS += ["privacy", "representation", "robustness"]
IDEA = (
    "---\ntitle: t\ncategory: data\neffect: good\nrationale: r\n---\n### FILE: m.py\n```\n{}```\n"
)


@pytest.fixture(scope="module")
def tasks() -> list[InstalledTask]:
    return installed_tasks()


@pytest.fixture(scope="module")
def labels(tasks: list[InstalledTask]) -> pd.DataFrame:
    return declared_and_found(tasks)


def test_the_rules_agree_with_the_authors(labels: pd.DataFrame):
    counts = confusion(labels)
    assert counts.to_numpy().sum() == len(labels)
    assert agreement(counts) == (labels["declared"] == labels["found"]).mean()
    assert agreement(counts) >= 0.85


def test_every_idea_of_every_task_is_counted(labels: pd.DataFrame, tasks: list[InstalledTask]):
    ideas = {task.name: len(list(task.ideas_dir.glob("*.md"))) for task in tasks}
    assert {name: ideas[name] for name in TASKS} == labels.groupby("task").size()[TASKS].to_dict()
    assert not labels.duplicated(["task", "idea"]).any()


def test_no_task_is_far_off(labels: pd.DataFrame):
    equal = (labels["declared"] == labels["found"]).groupby(labels["task"]).mean()
    assert equal[TASKS].min() >= 0.75


def test_definitions_nothing_reaches_are_found_and_nothing_else(labels: pd.DataFrame):
    shallow = labels[labels["declared_kind"] == "shallow"]
    described = shallow["idea"] == "document_thresholds"  # changes a docstring only
    assert set(shallow["found_kind"][~described]) == {"shallow"}
    assert "shallow" not in set(labels["found_kind"][labels["declared_kind"] != "shallow"])


def test_a_task_of_ones_own(tmp_path: Path):
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "mine.yaml").write_text(
        "name: mine\ndir: ${tasks_dir}/mine\ntargets: [m.py]\ncommands: [{run: '{python} m.py'}]\n"
    )
    (tmp_path / "conf" / "note.yaml").write_text("name: not a task\n")
    (tmp_path / "mine" / "ideas").mkdir(parents=True)
    (tmp_path / "mine" / "repo").mkdir()
    (tmp_path / "mine" / "repo" / "m.py").write_text("RATE = 1\n")
    for name, text in (("a", "RATE = 2\n"), ("b", "RATE = read_images()\n")):
        (tmp_path / "mine" / "ideas" / f"{name}.md").write_text(IDEA.format(text))
    tasks = installed_tasks(tmp_path / "conf", tmp_path)
    counts = confusion(declared_and_found(tasks))
    assert counts.loc["data augmentation", "parameter configuration"] == 1
    assert agreement(counts) == 0.0


def test_labels_stand_in_the_papers_order(labels: pd.DataFrame):
    counts = confusion(labels)
    order = [name for name in CATEGORIES if name in counts.index]
    assert list(counts.index) == list(counts.columns) == order
