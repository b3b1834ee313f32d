"""LLM calls as spans: what a trace holds, that it arrives once, and where it is linked to."""

import json
import logging
import shutil
import socket
from pathlib import Path
from typing import Any

import pytest

from fml_hydra.commands import replay
from fml_hydra.config import load_experiment
from fml_hydra.errors import InfraError
from fml_hydra.journal import Folded, Journal
from fml_hydra.jsonl import read_records
from fml_hydra.overrides import compose_config
from fml_hydra.runner import run
from fml_hydra.tracking import Tracking, traces
from fml_hydra.tracking.delivery import Delivery, Receipt
from fml_hydra.tracking.exchanges import Exchanges
from fml_hydra.tracking.spans import trace
from fml_hydra.tracking.store import Store

TRACKING = Tracking(None, "fml_hydra")
QUIET = Tracking(None, "fml_hydra", traces=False)


def traces_of(seen, run: Any) -> list[Any]:
    """The traces a run's page shows, oldest first."""
    found = seen.client.search_traces(
        locations=[seen.store.experiment_id], run_id=run.info.run_id, order_by=["timestamp ASC"]
    )
    return list(found)


def calls_of(folder: Path) -> list[dict[str, Any]]:
    return read_records(folder / "calls.jsonl")[0]


def state_of(folder: Path) -> Folded:
    return Folded.read(folder / "journal.jsonl")


def rewrite_calls(folder: Path, *changes: dict[str, Any]) -> None:
    """Change the first calls of a run, one after the other."""
    calls = calls_of(folder)
    for call, change in zip(calls, changes, strict=False):
        call.update(change)
    lines = [json.dumps(call) + "\n" for call in calls]
    (folder / "calls.jsonl").write_text("".join(lines))


@pytest.fixture(scope="session")
def two_steps(toy, tmp_path_factory) -> Path:
    """A run of two steps that nobody was told of, for copying: an edit and an analysis for each."""
    root = tmp_path_factory.mktemp("two_steps")
    words = ["--config-dir", f"{toy}/conf", "task=toy", f"tasks_dir={toy}/tasks", f"root={root}"]
    words += [f"cache_dir={toy}/cache", "tracking=none", "budget.steps=2", "seed=5", "agent=aide"]
    journal = Journal(root / "run" / "journal.jsonl")
    experiment = load_experiment(compose_config([*words, "agent.policy.num_drafts=2"]))
    run(experiment, "toy-run", root / "run", [], journal)
    journal.close()
    (root / "run" / "config.yaml").write_text("seed: 5\n")
    assert [call["key"] for call in calls_of(root / "run")] == ["0/0", "0/1", "1/0", "1/1"]
    return root / "run"


@pytest.fixture
def run_folder(two_steps, tmp_path) -> Path:
    """The run of two steps, to be changed and delivered."""
    return Path(shutil.copytree(two_steps, tmp_path / "run"))


def test_each_call_is_a_span_under_its_run_and_under_its_step(finished):
    done, seen = finished
    calls, shown = calls_of(done.folder), traces_of(seen, seen.parent())
    spans = [span for trace in shown for span in trace.data.spans if span.parent_id]
    assert [span.attributes["fml.call"] for span in spans] == [call["key"] for call in calls]
    for span, call in zip(spans, calls, strict=True):
        assert span.name == span.attributes["fml.purpose"] == call["purpose"]
        assert span.inputs == {"messages": call["messages"]}
        assert span.outputs["choices"][0]["message"]["content"] == call["text"]
        assert span.model_name == "offline"
        assert span.llm_cost == {"total_cost": 0.0}
        assert span.start_time_ns == pytest.approx(call["started"] * 1e9, abs=1e6)
        assert span.end_time_ns >= span.start_time_ns
    for step, node, found in zip(seen.steps(), done.state.history(), shown, strict=True):
        (own,) = traces_of(seen, step)
        assert own.info.trace_id == found.info.trace_id
        assert found.info.token_usage["total_tokens"] == node.usage.total > 0
        assert found.info.tags["fml.step"] == str(node.id)
        assert found.info.tags["fml.status"] == node.status
        assert found.info.tags["mlflow.traceName"] == found.data.spans[0].name
        assert step.info.run_name.startswith(f"{found.data.spans[0].name} · ")
        assert found.info.state == "OK"


def test_an_mlflow_run_is_replayed_from_its_artifacts(finished, tmp_path, capsys):
    """As from a server: nothing of the run but what MLflow has of it."""
    done, seen = finished
    store = done.tracking.address(done.root)
    run_id = seen.parent().info.run_id
    words = [f"root={tmp_path}/elsewhere", f"tracking.uri={store}"]
    assert replay.main([run_id, *words]) == 0
    told = capsys.readouterr().out
    assert f"IDENTICAL: 5 steps, {len(calls_of(done.folder))} calls" in told
    assert str(tmp_path / "elsewhere" / "replays") in told.replace("\n", "")


def test_prices_cached_tokens_failures_and_notes(run_folder, root, look):
    usage = {"input": 100, "cached": 60, "output": 20, "reasoning": 15, "cache_write": 5}
    rewrite_calls(
        run_folder,
        {"usage": usage, "cost": 0.002575, "model": "gpt-5-2025", "seconds": 2.5},
        {"usage": usage, "cost": 0.01, "notes": ["attempt 1 failed: 503"], "failed": "away"},
        {"model": "gpt-5", "cost": None},
        {"model": "gpt-5", "cost": 0.5},
    )
    Delivery(run_folder, TRACKING, root).send(state_of(run_folder))
    seen = look()
    first, second = traces_of(seen, seen.parent())
    edit, failed = first.data.spans[1:]
    assert edit.model_name == "gpt-5-2025"
    assert edit.llm_cost == {"total_cost": 0.002575}
    assert edit.get_attribute("mlflow.chat.tokenUsage") == {
        "input_tokens": 100,
        "output_tokens": 20,
        "total_tokens": 120,
        "cache_read_input_tokens": 60,
        "cache_creation_input_tokens": 5,
    }
    assert edit.get_attribute("fml.reasoning_tokens") == 15
    assert edit.end_time_ns - edit.start_time_ns == pytest.approx(2.5e9, rel=1e-3)
    assert failed.get_attribute("fml.notes") == ["attempt 1 failed: 503"]
    assert failed.status.status_code.name == "ERROR"
    assert first.info.token_usage["total_tokens"] == 240
    assert json.loads(first.info.trace_metadata["mlflow.trace.cost"])["total_cost"] == 0.012575
    unknown = [span.llm_cost for span in second.data.spans]
    assert unknown == [None, None, None], "one price is missing: no sum, and none made up"
    assert "mlflow.trace.cost" not in second.info.trace_metadata
    assert second.data.spans[2].get_attribute("fml.cost_usd") == 0.5


def test_calls_of_proposals_belong_to_the_step_they_led_to(run_folder, root, look):
    rewrite_calls(run_folder, {"key": "p0/0"}, {"key": "p1/0"}, {}, {"key": "p2/0"})
    delivery = Delivery(run_folder, TRACKING, root)
    delivery.send(state_of(run_folder))
    seen = look()
    shown = traces_of(seen, seen.parent())
    keys = {
        trace.info.tags["fml.step"]: [s.attributes["fml.call"] for s in trace.data.spans[1:]]
        for trace in shown
    }
    assert keys == {"0": ["p0/0"], "1": ["p1/0", "1/0"], "2": ["p2/0"]}
    by_step = {s.data.tags["fml.step"]: traces_of(seen, s) for s in seen.steps()}
    assert {step: len(found) for step, found in by_step.items()} == {"0": 1, "1": 1}
    (unfinished,) = [t for t in shown if t.info.tags["fml.step"] == "2"]
    assert unfinished.info.tags["fml.status"] == "unfinished"


def test_calls_of_a_step_that_is_finished_later_are_sent_again_in_place(run_folder, root, look):
    """Put down in the middle of a step, then resumed: one trace, whole."""
    journal, calls = run_folder / "journal.jsonl", run_folder / "calls.jsonl"
    whole, all_calls = journal.read_text(), calls.read_text()
    events = whole.splitlines(keepends=True)
    second = [i for i, line in enumerate(events) if json.loads(line)["e"] == "node"][1]
    pause = json.dumps({"e": "pause", "t": 1.0, "reason": "interrupted", "detail": ""}) + "\n"
    journal.write_text("".join([*events[:second], pause]))
    calls.write_text("".join(all_calls.splitlines(keepends=True)[:3]))
    Delivery(run_folder, TRACKING, root).send(state_of(run_folder))
    seen = look()
    statuses = [t.info.tags["fml.status"] for t in traces_of(seen, seen.parent())]
    assert statuses == [state_of(run_folder).nodes[0].status, "unfinished"]
    journal.write_text(whole)
    calls.write_text(all_calls)
    Delivery(run_folder, TRACKING, root).send(state_of(run_folder))
    first, second = traces_of(seen, seen.parent())
    node = state_of(run_folder).nodes[1]
    assert second.info.tags["fml.status"] == node.status
    assert [s.attributes["fml.call"] for s in second.data.spans[1:]] == ["1/0", "1/1"]
    assert second.info.token_usage["total_tokens"] == node.usage.total
    assert [t.info.trace_id for t in traces_of(seen, seen.steps()[1])] == [second.info.trace_id]


def test_refused_at_each_request_all_is_there_once_in_the_end(run_folder, root, look, monkeypatch):
    from mlflow import MlflowClient
    from mlflow.tracing.client import TracingClient

    Delivery(run_folder, QUIET, root).send(state_of(run_folder))
    made: list[str] = []
    refused = {"before": 0, "after": 0}

    def counting(owner, name):
        original = getattr(owner, name)

        def wrapped(*args, **kwargs):
            made.append(name)
            if len(made) == refused["before"]:
                raise ConnectionError("away")
            result = original(*args, **kwargs)
            if len(made) == refused["after"]:
                raise ConnectionError("away")  # it has arrived, but nobody knows
            return result

        monkeypatch.setattr(owner, name, wrapped)

    for owner, name in (
        (TracingClient, "log_spans"),
        (MlflowClient, "link_traces_to_run"),
        (Receipt, "write"),
    ):
        counting(owner, name)
    for number in range(1, 10):
        refused |= {"before": 0, "after": 0, "after" if number % 2 else "before": -(-number // 2)}
        made.clear()
        forget_traces(run_folder)
        with pytest.raises(InfraError, match="away"):
            Delivery(run_folder, TRACKING, root).send(state_of(run_folder))
    assert made == ["log_spans", *["link_traces_to_run"] * 3, "write"]
    refused |= {"before": 0, "after": 0}
    Delivery(run_folder, TRACKING, root).send(state_of(run_folder))
    seen = look()
    assert len(traces_of(seen, seen.parent())) == 2
    for step in seen.steps():
        assert [len(t.data.spans) for t in traces_of(seen, step)] == [3]
    made.clear()
    Delivery(run_folder, TRACKING, root).send(state_of(run_folder))
    assert made == [], "what has arrived is not sent again"


def forget_traces(folder: Path) -> None:
    path = folder / "mlflow.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "calls": {}}))


def test_without_the_knob_there_are_none_and_with_it_they_come_later(run_folder, root, look):
    Delivery(run_folder, QUIET, root).send(state_of(run_folder))
    seen = look()
    assert traces_of(seen, seen.parent()) == []
    Delivery(run_folder, TRACKING, root).send(state_of(run_folder))
    assert len(traces_of(seen, seen.parent())) == 2


def test_a_store_without_spans_gets_the_rest_and_one_notice(
    run_folder, root, look, monkeypatch, caplog
):
    from mlflow.tracing.client import TracingClient

    def refuse(*args, **kwargs):
        raise NotImplementedError("server version is less than 3.4")

    monkeypatch.setattr(TracingClient, "log_spans", refuse)
    delivery = Delivery(run_folder, TRACKING, root)
    with caplog.at_level(logging.WARNING, "fml_hydra"):
        for _ in range(2):
            delivery.send(state_of(run_folder))
    assert caplog.text.count("keeps no traces") == 1
    seen = look()
    assert seen.parent().info.status == "FINISHED"
    assert traces_of(seen, seen.parent()) == []


def test_a_server_that_is_away_is_not_taken_for_an_old_one(run_folder):
    """MLflow would remember for good that it has no version, and never send a span again."""
    from mlflow import MlflowClient
    from mlflow.store.tracking.rest_store import RestStore

    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    store = Store(MlflowClient(tracking_uri=f"http://127.0.0.1:{port}"), "0")
    state = state_of(run_folder)
    sender = traces.Traces(run_folder / "calls.jsonl")
    for _ in range(2):
        ((first, second),) = sender.waiting(state, {}, over=True)
        with pytest.raises(ConnectionError, match="did not tell its version"):
            sender.send(store, [first, second], "run", lambda step: "")
        assert RestStore._get_server_version.cache_info().currsize == 0


def test_fast_steps_share_a_request_and_none_is_left_at_the_end(run_folder, monkeypatch):
    path = run_folder / "journal.jsonl"
    events = read_records(path)[0]
    ends = [i + 1 for i, event in enumerate(events) if event["e"] == "node"]
    running, over = Folded(path, events[: ends[0]]), state_of(run_folder)
    sender = traces.Traces(run_folder / "calls.jsonl")

    def waiting(state: Folded, arrived: dict[int, int], at_end: bool = False) -> list[list[int]]:
        return [[t.step for t in parcel] for parcel in sender.waiting(state, arrived, at_end)]

    assert waiting(running, {}) == [[0]], "calls of a step under way are not sent yet"
    monkeypatch.setattr(sender, "_sent", traces.time.monotonic())
    assert waiting(over, {0: 2}) == []
    assert waiting(over, {0: 2}, at_end=True) == [[1]]
    monkeypatch.setattr(traces, "REQUEST_CHARS", 10)
    assert waiting(over, {}, at_end=True) == [[0], [1]], "requests have a limit"


def test_the_log_of_calls_is_read_where_it_has_grown(tmp_path):
    path = tmp_path / "calls.jsonl"
    calls = Exchanges(path)
    assert calls.made() == {}
    lines = [json.dumps({"key": key, "n": n}) for n, key in enumerate(("p0/0", "0/0", "12/3"))]
    path.write_text(f"{lines[0]}\n{lines[1][:-2]}")
    assert calls.made() == {0: 1}
    path.write_text("\n".join(lines) + "\n")
    assert calls.made() == {0: 2, 12: 1}
    assert [call["n"] for call in calls.of(0)] == [0, 1]
    assert [call["n"] for call in calls.of(12)] == [2]
    path.write_text(path.read_text() + "[]\n")
    with pytest.raises(InfraError, match="is not a recorded call"):
        calls.made()


def test_calls_without_a_time_of_their_own_follow_each_other(run_folder):
    """As recorded by an earlier version."""
    state, calls = state_of(run_folder), calls_of(run_folder)[:2]
    for call in calls:
        del call["started"]
        call["seconds"] = 2.0
    root, first, second = trace(state, 0, calls).spans
    began = int(state.nodes[0].started * 1e9)
    starts = [span["start_time_unix_nano"] - began for span in (root, first, second)]
    assert starts == pytest.approx([0, 0, 2e9], abs=1e3)
    assert root["end_time_unix_nano"] >= second["end_time_unix_nano"]
    assert trace(state, 0, calls) == trace(state, 0, calls), "ids are the same again"
