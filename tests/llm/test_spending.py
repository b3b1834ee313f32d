"""What a call will cost is asked for before it is made, and what it did cost stays on the books."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from fml_hydra.calls import CallLog, request_hash
from fml_hydra.errors import BudgetExhausted
from fml_hydra.jsonl import read_records
from fml_hydra.llm.base import Message, ProviderError, Reply, Request
from fml_hydra.usage import Spend, Usage


@dataclass
class Foreseeing:
    """Says beforehand that a prompt has 100 tokens, and is right."""

    name: str = "foreseeing"
    foreseen: list[int] = field(default_factory=list)
    go: threading.Event = field(default_factory=threading.Event)
    failures: list[ProviderError] = field(default_factory=list)

    def complete(self, request: Request) -> Reply:
        assert self.go.wait(20)
        if self.failures:
            raise self.failures.pop()
        return Reply("x", Usage(input=100, output=30), 0.1, model="v1", notes=("a", "b"))

    def forecast(self, request: Request, output: int) -> Spend:
        self.foreseen.append(output)
        return Spend(Usage(input=100, output=output), 0.1)


def request(text: str, purpose: str = "edit", **more: object) -> Request:
    return Request((Message("user", text),), purpose, 1, **more)  # type: ignore[arg-type]


@pytest.fixture
def log(tmp_path: Path) -> CallLog:
    return CallLog(tmp_path / "calls.jsonl")


@pytest.fixture
def llm() -> Foreseeing:
    llm = Foreseeing()
    llm.go.set()
    return llm


def test_the_forecast_takes_the_output_of_earlier_calls_of_the_purpose(
    log: CallLog, llm: Foreseeing
) -> None:
    for number, purpose in enumerate(["edit", "edit", "idea"]):
        log.ask(llm, f"{number}/0", request("a", purpose))
    assert llm.foreseen == [0, 30, 0]


def test_it_is_asked_before_the_call_and_not_for_what_was_answered(
    log: CallLog, llm: Foreseeing
) -> None:
    asked: list[tuple[int, int]] = []

    def afford(spent: Spend, more: Spend) -> None:
        asked.append((spent.usage.total, more.usage.total))
        if spent.usage.total + more.usage.total > 250:
            raise BudgetExhausted("tokens")

    log.ask(llm, "0/0", request("a"), afford)
    log.ask(llm, "0/0", request("a"), afford)
    with pytest.raises(BudgetExhausted):
        log.ask(llm, "1/0", request("b"), afford)
    assert asked == [(0, 100), (130, 130)]
    assert log.ask(llm, "0/0", request("a"), afford).text == "x", "this one is paid already"


def test_calls_under_way_count(log: CallLog, llm: Foreseeing) -> None:
    llm.go.clear()
    asked: list[int] = []

    def afford(spent: Spend, more: Spend) -> None:
        asked.append(more.usage.total)
        if len(asked) == 3:
            llm.go.set()
        if more.usage.total > 200:
            raise BudgetExhausted("tokens")

    with ThreadPoolExecutor(3) as pool:
        calls = [pool.submit(log.ask, llm, f"{i}/0", request("a"), afford) for i in range(3)]
        failures = [call.exception() for call in calls]
    assert sorted(asked) == [100, 200, 300]
    assert [type(f).__name__ for f in failures if f] == ["BudgetExhausted"]
    log.ask(llm, "9/0", request("a"), lambda spent, more: asked.append(more.usage.total))
    assert asked[-1] == 130, "nothing is under way any more"


def test_what_failed_attempts_cost_is_kept_but_is_no_answer(
    log: CallLog, llm: Foreseeing, tmp_path: Path
) -> None:
    llm.failures = [ProviderError("gone", Spend(Usage(input=70), 0.3, 2.0))]
    with pytest.raises(ProviderError):
        log.ask(llm, "0/0", request("a"))
    log.close()
    again = CallLog(tmp_path / "calls.jsonl")
    assert again.spend("0/") == Spend(Usage(input=70), 0.3, 2.0)
    assert again.ask(llm, "0/0", request("a")).text == "x"
    assert again.spend().usage == Usage(input=170, output=30)
    assert again.by_purpose()["edit"].cost == pytest.approx(0.4)


def test_a_failure_that_cost_nothing_leaves_no_record(log: CallLog, llm: Foreseeing, tmp_path):
    llm.failures = [ProviderError("gone")]
    with pytest.raises(ProviderError):
        log.ask(llm, "0/0", request("a"))
    assert read_records(tmp_path / "calls.jsonl")[0] == []


def test_version_and_notes_are_read_back(log: CallLog, llm: Foreseeing, tmp_path: Path) -> None:
    first = log.ask(llm, "0/0", request("a"))
    log.close()
    again = CallLog(tmp_path / "calls.jsonl").ask(llm, "0/0", request("a"))
    assert again == first
    assert (again.model, again.notes) == ("v1", ("a", "b"))


def test_a_record_from_before_there_were_versions_is_read(tmp_path: Path, llm: Foreseeing) -> None:
    log = CallLog(tmp_path / "calls.jsonl")
    log.ask(llm, "0/0", request("a"))
    log.close()
    text = (tmp_path / "calls.jsonl").read_text()
    old = text.replace(', "model": "v1", "notes": ["a", "b"]', "").replace(', "cache_write": 0', "")
    assert old != text
    (tmp_path / "calls.jsonl").write_text(old)
    reply = CallLog(tmp_path / "calls.jsonl").ask(llm, "0/0", request("a"))
    assert (reply.text, reply.model, reply.notes) == ("x", "", ())


def test_a_schema_is_part_of_what_is_asked() -> None:
    plain, schema = request("a"), request("a", schema={"type": "object"})
    assert request_hash(plain) != request_hash(schema)
    assert request_hash(plain) == request_hash(request("a", schema=None))
