"""What a finished run looks like to MlflowClient, compared with its journal."""

import csv
import io
import math
from datetime import UTC, datetime

import pytest
import yaml

from fml_hydra.summary import summarize


def test_one_parent_and_one_nested_run_per_step(finished):
    done, seen = finished
    parent, steps = seen.parent(), seen.steps()
    assert done.problem == ""
    assert [s.data.tags["fml.step"] for s in steps] == ["0", "1", "2", "3", "4"]
    assert {s.data.tags["mlflow.parentRunId"] for s in steps} == {parent.info.run_id}
    assert "mlflow.parentRunId" not in parent.data.tags


def test_tags_of_the_run(finished):
    done, seen = finished
    tags, header = seen.parent().data.tags, done.state.header
    expected = {
        "fml.kind": "run",
        "fml.task": "toy",
        "fml.agent": "aide",
        "fml.llm": "offline",
        "fml.seed": "5",
        "fml.sweep": "single",
        "fml.identity": "toy-run",
        "fml.status": "finished",
        "fml.termination": "steps",
        "fml.sandbox": header["sandbox"],
        "fml.instance": header["instance"],
        "mlflow.runName": "toy · aide · s5 · offline",
        "mlflow.source.name": "fml_hydra",
    }
    assert {key: tags.get(key) for key in expected} == expected
    assert tags["mlflow.user"]


def test_tags_of_the_steps(finished):
    done, seen = finished
    for run, node in zip(seen.steps(), done.state.history(), strict=True):
        expected = {
            "fml.kind": "step",
            "fml.task": "toy",
            "fml.agent": "aide",
            "fml.llm": "offline",
            "fml.seed": "5",
            "fml.sweep": "single",
            "fml.identity": "toy-run",
            "fml.step": str(node.id),
            "fml.op": node.op,
            "fml.parents": ",".join(str(p) for p in node.parents),
            "fml.status": node.status,
            "fml.sandbox": node.sandbox,
        }
        assert {key: run.data.tags.get(key) for key in expected} == expected
        assert run.info.run_name.startswith(f"{node.id:02d} {node.op}")
        assert run.info.status == ("FINISHED" if node.ok else "FAILED")


def test_curves_of_the_run(finished):
    done, seen = finished
    parent, nodes = seen.parent(), list(done.state.history())
    good = {n.id: n.metrics["mse"] for n in nodes if n.ok}
    assert 0 < len(good) < len(nodes), "the toy run has both kinds of steps"
    assert seen.curve(parent, "val") == sorted(good.items())
    best = [min(v for i, v in good.items() if i <= n.id) for n in nodes if n.id >= min(good)]
    assert [v for _, v in seen.curve(parent, "best_val")] == best
    assert seen.curve(parent, "tokens") == [
        (n.id, sum(m.usage.input + m.usage.output for m in nodes[: n.id + 1])) for n in nodes
    ]
    for key in ("seconds_llm", "seconds_exec"):
        expected = [sum(getattr(m, key) for m in nodes[: n.id + 1]) for n in nodes]
        assert [v for _, v in seen.curve(parent, key)] == pytest.approx(expected)
    assert seen.curve(parent, "cost_usd") == [(n.id, 0.0) for n in nodes]


def test_results_of_the_run(finished):
    done, seen = finished
    metrics, state = seen.parent().data.metrics, done.state
    nodes = list(state.history())
    base, test = state.header["baseline"]["test"]["mse"], state.test["value"]
    assert metrics["test"] == test
    assert metrics["baseline_val"] == state.header["baseline"]["val"]["mse"]
    assert metrics["baseline_test"] == base
    assert metrics["improvement"] == pytest.approx(base - test)
    assert metrics["normalized_improvement"] == pytest.approx((base - test) / base)
    assert metrics["step_success_rate"] == sum(n.ok for n in nodes) / 5
    assert metrics["step_completion_rate"] == 1.0
    assert seen.parent().info.status == "FINISHED"


def test_metrics_of_the_steps(finished):
    done, seen = finished
    for run, node in zip(seen.steps(), done.state.history(), strict=True):
        own = {"tokens": node.usage.total, "cost_usd": 0.0, "seconds_exec": node.seconds_exec}
        assert run.data.metrics.items() >= (own | node.metrics).items()
        assert all(math.isfinite(v) for v in run.data.metrics.values())
        began = datetime.fromtimestamp(run.info.start_time / 1000, UTC).timestamp()
        assert began == pytest.approx(node.started, abs=0.002)
        took = (run.info.end_time - run.info.start_time) / 1000
        assert took == pytest.approx(node.seconds_llm + node.seconds_exec, abs=0.003)


def test_artifacts_of_the_steps(finished):
    done, seen = finished
    for run, node in zip(seen.steps(), done.state.history(), strict=True):
        files = {"patch.diff", "stdout.txt", "stderr.txt", "prompt.md", "reply.md", "metrics.json"}
        assert seen.files(run) == files | {f"code/{name}" for name in node.snapshot}
        for name, text in node.snapshot.items():
            assert seen.text(run, f"code/{name}") == text


def test_artifacts_of_the_run(finished):
    done, seen = finished
    parent, best = seen.parent(), done.state.history().best()
    files = {"journal.jsonl", "calls.jsonl", "config.yaml", "steps.csv", "tree.svg"}
    files |= {"best/patch.diff", *(f"best/code/{name}" for name in best.snapshot)}
    assert seen.files(parent) == files
    assert seen.text(parent, "best/code/solution.py") == best.snapshot["solution.py"]
    assert seen.text(parent, "journal.jsonl") == (done.folder / "journal.jsonl").read_text()
    rows = list(csv.DictReader(io.StringIO(seen.text(parent, "steps.csv"))))
    nodes = list(done.state.history())
    assert [(r["step"], r["op"], r["status"]) for r in rows] == [
        (str(n.id), n.op, n.status) for n in nodes
    ]
    assert [r["mse"] for r in rows] == [str(n.metrics.get("mse", "")) for n in nodes]


def test_params_are_the_flat_configuration(finished):
    done, seen = finished
    params = seen.parent().data.params
    config = yaml.safe_load((done.folder / "config.yaml").read_text())
    assert params["seed"] == "5"
    assert params["budget.steps"] == "5"
    assert params["agent.policy.num_drafts"] == "2"
    assert params["task.targets"] == '["solution.py"]'
    assert {name.partition(".")[0] for name in params} == set(config)
    assert not any(step.data.params for step in seen.steps())


def test_the_description_says_what_came_out(finished):
    done, seen = finished
    row = summarize(done.state)
    note = seen.parent().data.tags["mlflow.note.content"]
    assert "mse, lower is better" in note
    assert "5 of 5 steps, ended by: steps" in note
    assert f"best val: **{row.best_val:.4g}** at step {row.best_step}, baseline " in note
    assert f"test: **{row.test:.4g}**, baseline {row.baseline_test:.4g}" in note
    for run, node in zip(seen.steps(), done.state.history(), strict=True):
        assert run.data.tags.get("mlflow.note.content", "").startswith(node.plan)
