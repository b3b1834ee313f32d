"""Every search agent of conf/agent keeps its promises: on the simulator, a few on a real task."""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from fml_hydra.agents.base import Agent, SearchAgent
from fml_hydra.config import load_experiment
from fml_hydra.journal import Folded
from fml_hydra.overrides import compose_config
from fml_hydra.resources import conf_dir
from fml_hydra.testing import PROMISES

EXTERNAL = "fml_hydra.agents.external.ExternalAgent"
"""Agents that are programs of their own, with tests of their own."""
SMALL = {
    "ai_scientist": ["agent.policy.num_ideas=2", "agent.policy.max_runs=2"],
    "upstream/ai_scientist": ["agent.policy.num_ideas=6", "agent.policy.max_runs=2"],
    "adaptive_search": ["agent.policy.window=4", "agent.policy.few_left=[0,1,2]"],
}
"""Settings with which a short run goes through all that the agent can do."""


def names() -> list[str]:
    """Options of conf/agent, presets included, that are searched by this program."""
    folder = conf_dir() / "agent"
    found = sorted(path.relative_to(folder).with_suffix("") for path in folder.rglob("*.yaml"))
    return [name.as_posix() for name in found if not is_external(folder / f"{name}.yaml")]


def is_external(path: Path) -> bool:
    text = OmegaConf.load(path)
    parents = [str(entry) for entry in text.get("defaults", [])]
    return text.get("_target_") == EXTERNAL or any("/agent/external@" in p for p in parents)


AGENTS = names()


@cache
def built(agent: str) -> Agent:
    return load_experiment(compose_config([f"agent={agent}", *SMALL.get(agent, [])])).agent


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.__name__)
@pytest.mark.parametrize("agent", AGENTS)
def test_agent_keeps_its_promise(agent, promise: Callable[[Agent], None]):
    promise(built(agent))


EIGHT_IDEAS = ["agent.policy.num_ideas=8"]
TOY = {**SMALL, "ai_scientist": EIGHT_IDEAS, "upstream/ai_scientist": EIGHT_IDEAS}
"""Settings of the runs on the toy task."""
GOLDEN = Path(__file__).with_name("golden.json")


def trajectory(state: Folded) -> list[list]:
    """What the agent chose and what came of it, in short."""
    return [
        [n.op, list(n.parents), n.status, None if n.utility is None else round(n.utility, 6)]
        for n in state.history()
    ]


@pytest.mark.parametrize("agent", [name for name in AGENTS if "/" not in name])
def test_trajectory_on_the_toy_task_is_the_golden_one(agent, cell, request):
    """Rewrite with: pytest tests/agents/test_contract.py -k golden -n 0 --rewrite-golden"""
    state = cell(f"agent={agent}", *TOY.get(agent, []), "budget.steps=12", "seed=0").run()
    assert state.closed["reason"] == "steps"
    assert state.test["step"] == state.history().best().id
    assert {name for n in state.history() for name in n.snapshot} <= {"solution.py"}
    got = trajectory(state)
    golden = json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {}
    if request.config.getoption("--rewrite-golden"):
        golden[agent] = got
        GOLDEN.write_text(json.dumps(golden, indent=1, sort_keys=True))
    assert golden[agent] == got


@pytest.mark.parametrize("agent", AGENTS)
def test_search_agent_can_draft(agent):
    search = built(agent)
    assert not isinstance(search, SearchAgent) or "draft" in search.operators
