"""Every agent in conf/agent keeps the same promises, on a real task with real evaluations."""

import json
import random
import re
from pathlib import Path

import pytest

from fml_hydra.agents.base import SearchAgent
from fml_hydra.journal import REFUSED, Folded
from fml_hydra.llm.base import Request
from fml_hydra.resources import conf_dir
from fml_hydra.testing import ScriptedLLM, as_json

AGENTS = sorted(
    p.relative_to(conf_dir() / "agent").with_suffix("").as_posix()
    for p in (conf_dir() / "agent").rglob("*.yaml")
)
FEW_IDEAS = ("ai_scientist", "agent.policy.num_ideas=8")


def overrides(agent: str, *extra: str) -> list[str]:
    few = [FEW_IDEAS[1]] if agent.endswith(FEW_IDEAS[0]) else []
    return [f"agent={agent}", *few, *extra]


@pytest.fixture(params=AGENTS)
def agent(request: pytest.FixtureRequest) -> str:
    return request.param


def outcomes(state: Folded) -> list[dict]:
    return [node.outcome() for node in state.history()]


def test_spends_the_budget_exactly_and_best_is_best(agent, cell):
    state = cell(*overrides(agent, "budget.steps=7")).run()
    nodes = list(state.history())
    assert [n.id for n in nodes] == list(range(7))
    assert state.closed["reason"] == "steps"
    utilities = [n.utility for n in nodes if n.ok]
    assert utilities
    assert state.history().best().utility == max(utilities)
    assert state.test["step"] == min(n.id for n in nodes if n.utility == max(utilities))


def test_parents_come_before_their_children(agent, cell):
    state = cell(*overrides(agent, "budget.steps=7", "seed=3")).run()
    assert all(p < n.id for n in state.history() for p in n.parents)


def test_same_seed_same_choices_and_another_seed_other_ones(agent, cell, tmp_path):
    runs = {
        name: outcomes(
            cell(*overrides(agent, "budget.steps=5", seed), folder=tmp_path / name).run()
        )
        for name, seed in [("a", "seed=1"), ("b", "seed=1"), ("c", "seed=2")]
    }
    assert runs["a"] == runs["b"]
    assert runs["a"] != runs["c"]


def test_edits_only_targets(agent, cell):
    state = cell(*overrides(agent, "budget.steps=5")).run()
    assert {name for n in state.history() for name in n.snapshot} == {"solution.py"}


def test_two_steps_are_enough_to_finish(agent, cell):
    state = cell(*overrides(agent, "budget.steps=2")).run()
    assert len(state.nodes) == 2
    assert state.test is not None


def test_survives_when_every_step_crashes(agent, cell):
    state = cell(*overrides(agent, "budget.steps=6"), llm=ScriptedLLM(always_crashing)).run()
    assert [n.status for n in state.history()] == ["crash"] * 6
    assert state.closed["reason"] == "steps"
    assert state.test["fallback"] == "no step has a metric"
    assert state.test["value"] == state.header["baseline"]["test"]["mse"]


def test_survives_an_llm_that_answers_nonsense_all_the_time(agent, cell):
    llm = ScriptedLLM(
        lambda r: random.Random(r.seed).choice(["", "42", "{", "```python\n", "né\0"])
    )
    state = cell(*overrides(agent, "budget.steps=4"), llm=llm).run()
    assert len(state.nodes) == 4
    assert {n.status for n in state.history()} <= REFUSED


def test_slots_spend_the_same_budget(agent, cell):
    state = cell(*overrides(agent, "budget.steps=5", "slots=2")).run()
    assert [n.id for n in state.history()] == list(range(5))


def always_crashing(request: Request) -> str:
    if request.purpose == "idea":
        return as_json({"Name": f"idea_{request.seed}"}) + "\nI am done"
    if request.purpose in {"edit", "repair"}:
        code = re.search(
            r"### FILE: solution.py\n```+\w*\n(.*?)\n```", request.messages[1].content, re.S
        )
        body = code[1].replace("STEPS = ", f"SEED_{request.seed} = 1 / 0\nSTEPS = ")
        return f"Divide.\n\n### FILE: solution.py\n```python\n{body}\n```\n"
    return "It crashed."


GOLDEN = Path(__file__).with_name("golden.json")


def trajectory(state: Folded) -> list[list]:
    """What the agent chose and what came of it, in short."""
    return [
        [n.op, list(n.parents), n.status, None if n.utility is None else round(n.utility, 6)]
        for n in state.history()
    ]


def test_trajectory_is_the_golden_one(agent, cell, request):
    """Rewrite with: pytest tests/agents/test_contract.py -k golden -n 0 --rewrite-golden"""
    got = trajectory(cell(*overrides(agent, "budget.steps=12", "seed=0")).run())
    golden = json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {}
    if request.config.getoption("--rewrite-golden"):
        golden[agent] = got
        GOLDEN.write_text(json.dumps(golden, indent=1, sort_keys=True))
    assert golden[agent] == got


def test_every_agent_is_a_search_agent_with_an_operator_for_each_action(agent, cell):
    built = cell(*overrides(agent)).experiment.agent
    assert isinstance(built, SearchAgent)
    assert {"draft", "improve", "debug"} <= set(built.operators)
