"""Tokens by what they were for: from the call to the tables, and what calls without a step cost."""

import math
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from fml_hydra.agents.base import IDEA
from fml_hydra.analysis.runs import run_row, step_rows
from fml_hydra.calls import CallLog
from fml_hydra.config import load_experiment
from fml_hydra.jsonl import read_records
from fml_hydra.llm.base import Message, ProviderError, Reply, Request
from fml_hydra.overrides import compose_config
from fml_hydra.progress import remarks
from fml_hydra.session import Budget
from fml_hydra.simulation import SyntheticLLM, simulate
from fml_hydra.status import CellStatus
from fml_hydra.summary import summarize
from fml_hydra.testing import LANDSCAPE
from fml_hydra.tracking.content import points, step_numbers
from fml_hydra.usage import PURPOSES, Spend, Usage

HEADER = {
    "instance": "i",
    "sweep": "s",
    "identity": "x",
    "steps": 6,
    "sandbox": "none",
    "isolation": "separate",
    "started": 0.0,
    "baseline": {"val": {"score": 0.0}, "test": {"score": 0.0}},
}


class Counting:
    """100 tokens in, and ten out; a repair's provider gives up after 7."""

    name = "counting"

    def complete(self, request: Request) -> Reply:
        if request.purpose == "repair":
            raise ProviderError("away", Spend(Usage(input=7), 0.0))
        return Reply("x", Usage(input=100, output=10), 0.0)


def asked(purpose: str) -> Request:
    return Request((Message("user", "?"),), purpose, 1)  # type: ignore[arg-type]


def test_a_log_knows_what_tokens_were_for(tmp_path: Path) -> None:
    log = CallLog(tmp_path / "calls.jsonl")
    for key, purpose in (("p0/0", "idea"), ("0/0", "edit"), ("0/1", "edit")):
        log.ask(Counting(), key, asked(purpose))
    with pytest.raises(ProviderError):
        log.ask(Counting(), "0/2", asked("repair"))
    log.close()
    again = CallLog(tmp_path / "calls.jsonl")
    assert again.spend().usage.purposes == {"idea": 110, "edit": 220, "repair": 7}
    assert again.spend("0/").usage.purposes == {"edit": 220, "repair": 7}
    assert again.spend().usage.known_purposes
    assert {p: s.usage.total for p, s in again.by_purpose().items()} == again.spend().usage.purposes
    told = [record["usage"] for record in read_records(tmp_path / "calls.jsonl")[0]]
    assert not any("purposes" in usage for usage in told), "the record itself has it"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory):
    """A run whose tokens end in the middle of a step."""
    folder = tmp_path_factory.mktemp("run")
    agent = load_experiment(
        compose_config(["agent=ai_scientist", "agent.policy.num_ideas=3"])
    ).agent
    budget = Budget(steps=1, tokens=9000)
    run = simulate(agent, LANDSCAPE, steps=50, budget=budget, folder=folder)
    assert run.state.closed is not None
    assert run.state.closed["reason"] == "tokens"
    run.state.header |= HEADER
    log = CallLog(folder / "calls.jsonl")
    yield run.state, log
    log.close()


def test_a_run_s_tokens_are_those_of_its_calls(recorded) -> None:
    """Calls that led to no step were paid for, too."""
    state, log = recorded
    spend = summarize(state).spend
    of_steps = sum((n.usage for n in state.nodes.values()), Usage())
    assert spend.usage == log.spend().usage
    assert spend.usage.purposes == log.spend().usage.purposes
    assert set(spend.usage.purposes) == {"idea", "edit", "analysis"}
    assert of_steps.total < spend.usage.total
    assert state.notes["unfinished"]["usage"]["input"] == spend.usage.input - of_steps.input


def test_the_tables_have_them(recorded) -> None:
    state, log = recorded
    row, steps = run_row(state), step_rows(state)
    by_purpose = {p: getattr(row, f"tokens_{p}") for p in PURPOSES}
    assert by_purpose == {p: log.spend().usage.purposes.get(p, 0) for p in PURPOSES}
    assert sum(by_purpose.values()) == row.tokens
    edits = [log.spend(f"{s.step}/").usage.purposes["edit"] for s in steps]
    assert [s.tokens_edit for s in steps] == edits
    assert steps[0].tokens_idea > 0


def test_charts_have_them(recorded) -> None:
    state, _ = recorded
    curve = points(state)
    assert curve[-1]["tokens"] == sum(v for k, v in curve[-1].items() if k.startswith("tokens."))
    assert all(a["tokens.edit"] < b["tokens.edit"] for a, b in zip(curve, curve[1:], strict=False))
    numbers = step_numbers(state.nodes[0])
    assert numbers["tokens.idea"] == state.nodes[0].usage.purposes["idea"]


def test_the_end_of_a_sweep_has_them(recorded) -> None:
    state, log = recorded
    cell = CellStatus("t", "a", "l", 0, row=asdict(summarize(state)))
    (line,) = [line for line in remarks([cell]) if line.startswith("Tokens:")]
    idea = log.spend().usage.purposes["idea"] / log.spend().usage.total
    assert f"{idea:.0%} idea" in line
    old = replace(cell, row=cell.row | {"spend": asdict(Spend(Usage(10)))})
    assert not any(line.startswith("Tokens:") for line in remarks([old]))


def test_what_older_journals_do_not_tell_is_missing_and_not_zero(recorded) -> None:
    state, _ = recorded
    first = state.nodes[0]
    state.nodes[0] = replace(first, usage=replace(first.usage, purposes={}))
    try:
        row = run_row(state)
    finally:
        state.nodes[0] = first
    assert row.tokens > 0
    assert all(math.isnan(getattr(row, f"tokens_{p}")) for p in PURPOSES)


# --- ideas in a JSON schema


@pytest.mark.parametrize("agent", ["ai_scientist", "ai_scientist_v2", "autoresearch"])
def test_an_idea_is_asked_for_in_a_schema_where_it_is_all_of_the_reply(agent: str) -> None:
    requests: list[Request] = []

    class Noting(SyntheticLLM):
        def complete(self, request: Request) -> Reply:
            requests.append(request)
            return super().complete(request)

    found = load_experiment(compose_config([f"agent={agent}"])).agent
    simulate(found, LANDSCAPE, steps=12, llm=Noting(LANDSCAPE.space))
    ideas = [r for r in requests if r.purpose == "idea"]
    schemas = [r.schema for r in ideas if len(r.messages) == 2]
    assert schemas
    assert all(
        s is not None and s["properties"].items() >= IDEA["properties"].items() for s in schemas
    )
    others = [r for r in requests if r.purpose != "idea" or len(r.messages) > 2]
    assert all(r.schema is None for r in others)
