"""Whole runs on the toy task with a real client: budgets, outages, slots."""

import threading
import time
from pathlib import Path

import pytest
from fake_api import FakeApi, error
from provider_bench import KEY

from fml_hydra.calls import CallLog
from fml_hydra.errors import InfraError
from fml_hydra.jsonl import read_records
from fml_hydra.llm import waits
from fml_hydra.llm.base import Reply, Request
from fml_hydra.summary import summarize
from fml_hydra.usage import Usage

LLM = ("llm=gpt-5", "llm.attempts=2", "llm.deadline=30")


@pytest.fixture
def model(api: FakeApi, keys: None) -> tuple[str, ...]:
    return (*LLM, f"llm.base_url={api.url}/v1")


def test_every_token_and_dollar_of_a_run_is_counted(cell, model, api: FakeApi) -> None:
    run = cell("budget.steps=2", "budget.repairs=1", "agent=aide", *model)
    summary = summarize(run.run())
    calls = len(api.seen)
    assert calls >= 4, "two steps, each with an edit and a repair"
    assert summary.spend.usage == Usage(1000 * calls, 600 * calls, 200 * calls, 150 * calls)
    assert summary.spend.cost == pytest.approx(0.002575 * calls)
    log = CallLog(run.folder / "calls.jsonl")
    by_purpose = log.by_purpose()
    log.close()
    assert set(by_purpose) >= {"edit", "repair"}
    assert sum(s.usage.total for s in by_purpose.values()) == 1200 * calls


def test_a_budget_ends_before_the_call_that_would_exceed_it(cell, model, api: FakeApi) -> None:
    words = ("budget.steps=50", "budget.repairs=0", "agent=aide")
    state = cell(*words, "budget.tokens=5000", *model).run()
    assert state.closed["reason"] == "tokens"
    assert len(api.seen) == 4, "4800 are spent, and a fifth call needs more than 200"


def test_a_budget_in_dollars(cell, model, api: FakeApi) -> None:
    words = ("budget.steps=50", "budget.repairs=0", "agent=aide")
    state = cell(*words, "budget.dollars=0.0115", *model).run()
    assert state.closed["reason"] == "dollars"
    assert len(api.seen) == 4
    assert summarize(state).spend.cost <= 0.0115


def test_dollars_of_an_unknown_model_are_refused_before_the_first_call(
    cell, api: FakeApi, keys: None
) -> None:
    words = ("llm=openai_compatible", "llm.model=nobody", f"llm.base_url={api.url}/v1")
    with pytest.raises(Exception, match="price of nobody is not known"):
        cell("budget.steps=2", "budget.dollars=1", *words).run()
    assert api.seen == []


def test_an_outage_burns_no_step_and_pauses_the_run(
    cell, model, api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waits, "NOTED", 0.0)
    api.script = [error(503)] * 6
    made = cell("budget.steps=2", "budget.repairs=0", "agent=aide", *model)
    state = made.run()
    events, _ = read_records(made.folder / "journal.jsonl")
    at = next(i for i, event in enumerate(events) if event["e"] == "pause")
    paused, again = events[at : at + 2]
    assert (paused["reason"], again["e"]) == ("waiting", "open")
    assert paused["detail"] == "waiting for gpt-5, at most 2h00m (overloaded: 503 no)"
    first = read_records(made.folder / "calls.jsonl")[0][0]
    assert again["t"] - paused["t"] >= first["waited"] - 0.002 > 0.3
    wall = events[-1]["t"] - events[0]["t"]
    assert state.seconds == pytest.approx(wall - (again["t"] - paused["t"]), abs=0.01)
    assert [n.status for n in state.history()] == ["edit_failed", "edit_failed"]
    assert state.closed["reason"] == "steps"


def test_no_answer_puts_the_run_down_and_the_same_command_goes_on(
    cell, model, api: FakeApi
) -> None:
    run = cell("budget.steps=2", "budget.repairs=0", "agent=aide", *model)
    good = api.text
    api.script = [lambda handler: handler.send(200, handler.answer()), error(401, KEY)]
    with pytest.raises(InfraError, match="authentication"):
        run.run()
    assert run.state().paused["reason"] == "infra"
    assert "OPENAI_API_KEY" in run.state().paused["detail"]
    api.text = good
    state = run.run()
    assert [n.status for n in state.history()] == ["edit_failed", "edit_failed"]
    assert state.closed["reason"] == "steps"


def test_what_failed_attempts_cost_stays_spent(cell, model, api: FakeApi) -> None:
    lost = [lambda handler: handler.send(200, handler.answer() | {"choices": []})] * 2
    api.script = [*lost]
    run = cell("budget.steps=1", "budget.repairs=0", "agent=aide", *model)
    with pytest.raises(InfraError, match="unreadable"):
        run.run()
    records, _ = read_records(run.folder / "calls.jsonl")
    assert [r["failed"][:5] for r in records] == ["gpt-5"]
    assert records[0]["usage"]["input"] == 2000
    summary = summarize(run.run())
    assert summary.spend.usage.input == 1000 * len(api.seen)
    assert summary.spend.cost > 0.002575 * len(api.seen) - 1e-9


# --- slots


class SlowTraining:
    """Notes when it begins and ends."""

    def __init__(self, evaluator, seconds: float) -> None:
        self._evaluator, self._seconds = evaluator, seconds
        self.spans: list[tuple[float, float]] = []

    def evaluate(self, files, split, shift=0):
        began = time.monotonic()
        time.sleep(self._seconds)
        self.spans.append((began, time.monotonic()))
        return self._evaluator.evaluate(files, split, shift)


def test_the_llm_is_asked_while_another_candidate_trains(tmp_path: Path) -> None:
    """Two slots of one batch: the second reply comes late, and the first candidate trains then."""
    from fml_hydra.journal import Action, Journal
    from fml_hydra.session import Budget, Candidate, Session
    from fml_hydra.simulation import DENSITIES, make_landscape
    from fml_hydra.simulation.run import NOISE, Synthetic, brief

    landscape = make_landscape(DENSITIES["dense"], seed=0)
    asked: list[tuple[float, float]] = []
    lock = threading.Lock()

    class Late:
        name = "late"

        def complete(self, request: Request) -> Reply:
            began = time.monotonic()
            time.sleep(0.2 if request.messages[0].content == "0" else 0.8)
            with lock:
                asked.append((began, time.monotonic()))
            return Reply("x", Usage(1, 0, 1), 0.0)

    training = SlowTraining(Synthetic(landscape, NOISE), 0.6)
    about = brief(landscape, tmp_path)

    class Maker:
        def make(self, turn):
            from fml_hydra.llm.base import Message

            turn.ask("edit", [Message("user", str(turn.node_id))])
            (name, text), *_ = about.files.items()
            return Candidate({name: f"{text}\n# {turn.node_id}\n"})

        def reflect(self, turn, candidate, outcome):
            return ""

    session = Session(
        brief=about,
        journal=Journal(tmp_path / "journal.jsonl"),
        calls=CallLog(tmp_path / "calls.jsonl"),
        folder=tmp_path,
        evaluator=training,
        llm=Late(),
        budget=Budget(2),
        seed=0,
        slots=2,
        step_files=False,
    )
    began = time.monotonic()
    session.run_batch([Action("draft"), Action("draft")], Maker())
    took = time.monotonic() - began
    first_training = min(training.spans)
    last_answer = max(end for _, end in asked)
    assert first_training[0] < last_answer, "the first candidate trains while the LLM still works"
    assert took < 0.2 + 0.8 + 2 * 0.6, "less than one after the other"
