"""What MLflow does not take as it is: long texts, odd names, huge numbers, bare steps."""

from pathlib import Path

import pytest

from fml_hydra.journal import Journal, Node
from fml_hydra.tracking import Tracking
from fml_hydra.tracking.delivery import Delivery, check_reachable
from fml_hydra.usage import Usage

HEADER = {
    "task": "odd",
    "agent": "a" * 300,
    "llm": "model/with:odd@name",
    "seed": 1,
    "identity": "odd.run",
    "instance": "1",
    "sweep": "s",
    "sandbox": "process",
    "isolation": "separate",
    "commit": "c",
    "steps": 9,
    "metric": {"name": "acc@5", "direction": "higher", "best": 1.0},
    "baseline": {"val": {"acc@5": 0.5}, "test": {"acc@5": 0.5}},
    "pristine": {"a.py": "x = 1\n"},
    "started": 1_700_000_000.0,
}


def node(number: int, **known) -> Node:
    blank = {"id": number, "op": "draft", "parents": (), "meta": {}, "status": "ok"}
    blank |= {"utility": 0.6, "metrics": {"acc@5": 0.6}, "snapshot": {"a.py": "x = 2\n"}}
    return Node(**(blank | {"started": 1_700_000_000.0 + number} | known))


def deliver(folder: Path, root: Path, *nodes: Node, config: str = "seed: 1\n") -> None:
    journal = Journal(folder / "journal.jsonl")
    if not journal.state.header:
        journal.record("open", **HEADER)
    for step in nodes:
        journal.commit(step)
    (folder / "config.yaml").write_text(config)
    Delivery(folder, Tracking(None, "fml_hydra"), root).send(journal.state)
    journal.close()


def test_long_texts_are_cut_and_end_in_an_ellipsis(tmp_path, root, look):
    config = f"prompt: {'p' * 7000}\nlist: [1, two]\nnothing: null\nempty: ''\n"
    config += "".join(f"knob{i}: {i}\n" for i in range(250))
    plan, flags = "plan " * 4000, ("f" * 5000, "g" * 5000)
    deliver(tmp_path / "run", root, node(0, plan=plan, flags=flags), config=config)
    seen = look()
    params = seen.parent().data.params
    assert params["prompt"] == "p" * 5999 + "…"
    assert (params["list"], params["nothing"], params["empty"]) == ('[1, "two"]', "None", "")
    assert len(params) == 254
    (step,) = seen.steps()
    for tag in ("mlflow.note.content", "fml.flags"):
        assert len(step.data.tags[tag]) == 8000
        assert step.data.tags[tag].endswith("…")
    assert len(seen.parent().info.run_name) == 250
    assert seen.parent().data.tags["fml.llm"] == "model/with:odd@name"


def test_odd_metric_names_and_numbers(tmp_path, root, look):
    metrics = {"acc@5": 0.6, "a*b": 1e308, "a_b": -1e308, "ünï cödé": 1e-320, "[x]": 0.0}
    deliver(tmp_path / "run", root, node(0, metrics=metrics))
    (step,) = look().steps()
    found = step.data.metrics
    assert found["acc_5"] == 0.6
    assert found["a_b"] == -1e308
    assert found["ünï cödé"] == 1e-320
    assert found["_x_"] == 0.0
    assert [v for k, v in found.items() if k.startswith("a_b.")] == [1e308]


def test_a_step_without_metrics_or_files(tmp_path, root, look):
    crash = node(0, status="crash", utility=None, metrics={}, snapshot={}, feedback="boom\x00\x1b")
    deliver(tmp_path / "run", root, crash)
    seen = look()
    (step,) = seen.steps()
    assert step.info.status == "FAILED"
    assert set(step.data.metrics) == {
        "tokens", "tokens_input", "tokens_output", "cost_usd", "seconds_llm", "seconds_exec",
    }  # fmt: skip
    assert seen.files(step) == set()
    assert seen.curve(seen.parent(), "val") == seen.curve(seen.parent(), "best_val") == []


def test_an_unknown_price_is_not_a_price_of_zero(tmp_path, root, look):
    deliver(tmp_path / "run", root, node(0, cost=0.5), node(1, cost=None), node(2, cost=0.5))
    seen = look()
    assert seen.curve(seen.parent(), "cost_usd") == [(0, 0.5)]
    assert ["cost_usd" in step.data.metrics for step in seen.steps()] == [True, False, True]


def test_steps_that_finish_out_of_order(tmp_path, root, look):
    """The second slot was faster: its step shows at once, the curve waits for the first."""
    late = node(0, metrics={"acc@5": 0.9}, utility=0.9, usage=Usage(input=10))
    early = node(1, usage=Usage(input=5))
    deliver(tmp_path / "run", root, early)
    seen = look()
    assert [s.data.tags["fml.step"] for s in seen.steps()] == ["1"]
    assert seen.curve(seen.parent(), "tokens") == []
    deliver(tmp_path / "run", root, late)
    assert [s.data.tags["fml.step"] for s in seen.steps()] == ["0", "1"]
    assert seen.curve(seen.parent(), "tokens") == [(0, 10.0), (1, 15.0)]
    assert seen.curve(seen.parent(), "best_val") == [(0, 0.9), (1, 0.9)]


def test_whether_a_store_can_be_reached(tmp_path, root):
    assert check_reachable(Tracking(None, "fml_hydra"), root) == ""
    assert check_reachable(Tracking("nonsense://x", "fml_hydra"), root) != ""


def test_a_creation_that_was_killed_half_way_is_begun_again(tmp_path):
    (tmp_path / "mlflow.part").write_bytes(b"SQLite format 3\x00 torn")
    assert check_reachable(Tracking(None, "fml_hydra"), tmp_path) == ""
    assert not (tmp_path / "mlflow.part").exists()


@pytest.mark.parametrize("tags", ["`fml.kind` = 'run'", "`fml.status` = 'running'"])
def test_runs_are_found_by_the_filters_people_type(tmp_path, root, look, tags):
    deliver(tmp_path / "run", root, node(0))
    assert [r.info.status for r in look().search(f"tags.{tags}")] == ["RUNNING"]
