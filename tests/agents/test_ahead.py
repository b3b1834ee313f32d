"""Proposals beyond the slots: the LLM works on them while others train, as many as have a slot."""

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from fml_hydra import testing
from fml_hydra.agents.base import SearchAgent
from fml_hydra.calls import CallLog
from fml_hydra.config import load_experiment
from fml_hydra.errors import BudgetExhausted
from fml_hydra.evaluation import Outcome
from fml_hydra.journal import Journal
from fml_hydra.jsonl import read_records
from fml_hydra.llm.base import Reply, Request
from fml_hydra.overrides import compose_config
from fml_hydra.session import Budget, Session
from fml_hydra.simulation import SyntheticLLM, simulate
from fml_hydra.simulation.run import NOISE, Synthetic, brief
from fml_hydra.terms import Split
from fml_hydra.testing import LANDSCAPE

LLM_SECONDS, TRAIN_SECONDS = 0.2, 0.2


@dataclass
class Busy:
    """A machine that trains for a while, and notes how many candidates it trains at once."""

    now: int = 0
    most: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def evaluate(self, files: Mapping[str, str], split: Split, shift: int = 0) -> Outcome:
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
        time.sleep(TRAIN_SECONDS)
        with self.lock:
            self.now -= 1
        return Synthetic(LANDSCAPE, NOISE).evaluate(files, split, shift)


class Slow:
    """The simulator's model, thinking."""

    name = "slow"

    def complete(self, request: Request) -> Reply:
        time.sleep(LLM_SECONDS)
        return SyntheticLLM(LANDSCAPE.space).complete(request)


@pytest.fixture(scope="module")
def agent() -> SearchAgent:
    found = load_experiment(compose_config(["agent=random_search"])).agent
    assert isinstance(found, SearchAgent)
    return found


def batches(agent: SearchAgent, machine: Busy, folder: Path) -> list[int]:
    """Sizes of the batches in which eight steps are taken with two slots."""
    folder.mkdir()
    session = Session(
        brief=brief(LANDSCAPE, folder),
        journal=Journal(folder / "journal.jsonl"),
        calls=CallLog(folder / "calls.jsonl"),
        folder=folder,
        evaluator=machine,
        llm=Slow(),
        budget=Budget(8),
        seed=0,
        slots=2,
        step_files=False,
    )
    with pytest.raises(BudgetExhausted):
        agent.run(session)
    assert [n.id for n in session.history] == [*range(8)]
    events, _ = read_records(folder / "journal.jsonl")
    return [len(event["actions"]) for event in events if event["e"] == "batch"]


def test_the_llm_works_ahead_while_the_slots_train(agent: SearchAgent, tmp_path: Path) -> None:
    """It is waited for twice instead of four times, and no more train at once than before."""
    plain, ahead = Busy(), Busy()
    assert batches(agent, plain, tmp_path / "plain") == [2, 2, 2, 2]
    assert batches(replace(agent, ahead=2), ahead, tmp_path / "ahead") == [4, 4]
    assert (plain.most, ahead.most) == (2, 2)


@pytest.mark.parametrize(
    "promise",
    [testing.parents_come_first, testing.same_seed_same_choices, testing.resumes_at_every_event],
)
def test_promises_hold_ahead(promise) -> None:
    found = load_experiment(compose_config(["agent=aide"])).agent
    promise(replace(found, ahead=3))


def test_one_slot_is_never_ahead(agent: SearchAgent) -> None:
    alone = simulate(agent, LANDSCAPE, steps=4)
    ahead = simulate(replace(agent, ahead=3), LANDSCAPE, steps=4)
    assert testing.outcomes(alone) == testing.outcomes(ahead)
