"""Names, numbers and texts as they are before they are sent."""

import math
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fml_hydra.journal import Node
from fml_hydra.metric import Metric
from fml_hydra.tracking.content import (
    cut,
    finite,
    params,
    safe_names,
    step_name,
    step_numbers,
    step_tags,
)
from fml_hydra.usage import Usage

ACC = Metric("acc", "higher", 1.0)


def node(**known) -> Node:
    blank = {"id": 7, "op": "improve", "parents": (4,), "meta": {}, "status": "ok"}
    blank |= {"utility": 0.5, "metrics": {"acc": 0.5}, "snapshot": {}}
    return Node(**(blank | known))


def test_names_a_person_recognises():
    assert safe_names(["acc", "acc@5", "F1 (macro)", "a/b", "top-1.5"]) == {
        "acc": "acc",
        "acc@5": "acc_5",
        "F1 (macro)": "F1 _macro_",
        "a/b": "a_b",
        "top-1.5": "top-1.5",
    }


def test_collisions_are_kept_apart():
    names = safe_names(["a_b", "a*b", "a@b"])
    assert names["a_b"] == "a_b"
    assert len(set(names.values())) == 3
    assert all(re.fullmatch(r"a_b(\.[0-9a-f]{6})?", safe) for safe in names.values())


@settings(deadline=None)  # the first call imports MLflow
@given(st.sets(st.text(max_size=300), max_size=8))
def test_mlflow_accepts_all_names_and_none_is_shared(names):
    from mlflow.utils.validation import _validate_metric_name

    safe = safe_names(names)
    assert set(safe) == names
    assert len(set(safe.values())) == len(names)
    for name in safe.values():
        _validate_metric_name(name)
        assert len(name) <= 250


def test_infinities_are_not_logged():
    numbers = {"a": math.inf, "b": -math.inf, "c": math.nan, "d": None, "e": 1e308, "f": 0}
    assert finite(numbers) == {"e": 1e308, "f": 0.0}


def test_cut_keeps_short_text_and_marks_long_text():
    assert cut("x" * 10, 10) == "x" * 10
    assert cut("x" * 11, 10) == "x" * 9 + "…"
    assert cut("a\x00b", 10) == "ab"


@pytest.mark.parametrize(
    ("known", "name"),
    [
        ({}, "07 improve of 4 · acc 0.5"),
        ({"op": "draft", "parents": ()}, "07 draft · acc 0.5"),
        ({"op": "crossover", "parents": (2, 5)}, "07 crossover of 2 and 5 · acc 0.5"),
        ({"status": "crash", "utility": None, "metrics": {}}, "07 improve of 4 · crash"),
        ({"id": 123}, "123 improve of 4 · acc 0.5"),
    ],
)
def test_step_names(known, name):
    assert step_name(node(**known), ACC) == name


def test_numbers_of_a_step_keep_ours_and_the_tasks_apart():
    usage = Usage(input=7, output=3)
    numbers = step_numbers(node(metrics={"acc": 0.5, "tokens": 99.0}, usage=usage, cost=None))
    assert numbers["acc"] == 0.5
    assert numbers["tokens"] == 10.0
    assert numbers["task.tokens"] == 99.0
    assert "cost_usd" not in numbers


def test_a_steps_description_is_its_plan_and_what_went_wrong():
    header = dict.fromkeys(("task", "agent", "llm", "seed", "identity", "sweep"), "x")
    crash = {"plan": "Use Adam.", "status": "crash", "feedback": "Traceback", "metrics": {}}

    def note(**known):
        return step_tags(header, node(**known), ACC, "parent").get("mlflow.note.content")

    assert note(plan="Use Adam.", feedback="acc 0.5") == "Use Adam."
    assert note(utility=None, **crash) == "Use Adam.\n\n~~~~\nTraceback\n~~~~"
    assert note() is None


def test_params_have_the_prompts_once(tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text("seed: 1\nprompt: {t: long}\nagent: {name: aide, prompts: {t: long}}\n")
    assert params(config) == {"seed": "1", "prompt.t": "long", "agent.name": "aide"}
