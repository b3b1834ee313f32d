"""Autoresearch: what is kept, what is fixed and for how long, and what the idea call is told."""

import random
from dataclasses import replace
from statistics import mean

import pytest
from folding import Scribe, chance, grow, history, node

from fml_hydra.agents.autoresearch import Autoresearch, Climb
from fml_hydra.config import load_experiment
from fml_hydra.overrides import compose_config
from fml_hydra.simulation import DENSITIES, behaviour, make_landscape, simulate
from fml_hydra.testing import as_json

KNOBS = {"min_delta": 0.0, "simpler_wins": False, "max_crashes": 3}


def policy(**knobs) -> Autoresearch:
    return Autoresearch(**{**KNOBS, **knobs})


def scribe() -> Scribe:
    return Scribe(answer=lambda template: as_json({"Name": "widen", "Title": "Widen it"}))


def proposed(chosen: Autoresearch, *nodes, baseline=0.0, advisor=None):
    past = history(*nodes, baseline=baseline)
    (action,) = chosen.propose(past, 4, random.Random(0), advisor or scribe())
    return action


def idea(**extra) -> dict:
    return {"meta": {"idea": {"Name": "widen"}}, **extra}


def test_first_step_tries_an_idea_on_the_baseline():
    action = proposed(policy())
    assert (action.op, action.parents) == ("draft", ())
    assert action.meta["idea"] == {"Name": "widen", "Title": "Widen it"}


def test_a_better_step_is_kept_and_a_worse_or_equal_one_is_not():
    better, worse = node(0, 0.2, **idea()), node(1, 0.1, "improve", (0,), **idea())
    equal = node(2, 0.2, "improve", (0,), **idea())
    assert proposed(policy(), better).parents == (0,)
    assert proposed(policy(), better, worse).parents == (0,)
    assert proposed(policy(), better, worse, equal).parents == (0,)
    assert proposed(policy(), node(0, -0.1, **idea())).parents == ()
    assert proposed(policy(), node(0, 0.1, **idea()), baseline=0.1).parents == ()


def test_the_gain_has_to_exceed_min_delta():
    steps = node(0, 0.2, **idea()), node(1, 0.25, "improve", (0,), **idea())
    assert proposed(policy(min_delta=0.1), *steps).parents == (0,)
    assert proposed(policy(min_delta=0.04), *steps).parents == (1,)


def test_equal_but_shorter_is_kept_where_simplicity_counts():
    long, short = {"a.py": "x\n" * 9}, {"a.py": "x\n" * 3}
    first = node(0, 0.2, snapshot=long, **idea())
    second = node(1, 0.2, "improve", (0,), snapshot=short, **idea())
    longer = node(2, 0.2, "improve", (0,), snapshot={"a.py": "x\n" * 12}, **idea())
    worse = node(3, 0.1, "improve", (0,), snapshot=short, **idea())
    assert proposed(policy(simpler_wins=True), first, second).parents == (1,)
    assert proposed(policy(simpler_wins=True), first, longer).parents == (0,)
    assert proposed(policy(simpler_wins=True), first, worse).parents == (0,)
    assert proposed(policy(simpler_wins=False), first, second).parents == (0,)


def test_a_crash_is_fixed_on_the_crashed_code_and_given_up_after_three_in_a_row():
    kept, crash = node(0, 0.2, **idea()), node(1, None, "improve", (0,), **idea())
    second = node(2, None, "debug", (1,), **idea())
    third = node(3, None, "debug", (2,), **idea())
    for steps, op, parents in [
        ((kept, crash), "debug", (1,)),
        ((kept, crash, second), "debug", (2,)),
        ((kept, crash, second, third), "improve", (0,)),
    ]:
        action = proposed(policy(), *steps)
        assert (action.op, action.parents) == (op, parents)
    assert proposed(policy(), kept, crash).meta["idea"] == {"Name": "widen"}
    assert proposed(policy(max_crashes=1), kept, crash).op == "improve"


@pytest.mark.parametrize("status", ["noop", "edit_failed", "protected"])
def test_a_refused_edit_left_no_code_to_fix(status):
    refused = replace(node(1, None, "improve", (0,), **idea()), status=status)
    assert proposed(policy(), node(0, 0.2, **idea()), refused).op == "improve"
    syntax = replace(refused, status="syntax")
    assert proposed(policy(), node(0, 0.2, **idea()), syntax).op == "debug"


def test_the_idea_call_sees_history_incumbent_and_what_was_kept():
    advisor = scribe()
    steps = (node(0, 0.2, **idea()), node(1, 0.1, "improve", (0,), **idea()))
    proposed(policy(), *steps, advisor=advisor)
    ((template, context),) = advisor.asked
    assert template == "autoresearch_idea"
    assert [step.id for step in context["steps"]] == [0, 1]
    assert context["kept"] == {0}
    assert context["incumbent"].id == 0
    assert "x = 0" in context["files"]
    assert not context["hint"]
    assert not context["differ_from"]


def test_an_unreadable_idea_is_kept_as_its_text():
    action = proposed(policy(), advisor=Scribe(answer=lambda template: "Make it wider."))
    assert action.meta["idea"] == {"Name": "unnamed_0", "Experiment": "Make it wider."}


def test_every_incumbent_is_better_than_the_one_before():
    for seed in range(5):
        past = grow(policy(), chance(0.3, seed), 60, seed=seed)
        kept = policy().kept(Climb(None, 0.0, list(past)), Scribe())
        utilities = [n.utility for n in kept]
        assert utilities == sorted(set(utilities))
        assert utilities[-1] == past.best().utility
        made = [n for n in past if n.op != "debug"]
        for step in made:
            before = [n.id for n in kept if n.id < step.id]
            assert step.parents == tuple(before[-1:])


@pytest.mark.parametrize("density", DENSITIES)
def test_it_climbs_on_the_simulator(density):
    """Never more than two repairs in a row, and a gain."""
    agent = load_experiment(compose_config(["agent=autoresearch"])).agent
    runs = [simulate(agent, make_landscape(DENSITIES[density], s), seed=s) for s in range(3)]
    shapes = [behaviour(run.history) for run in runs]
    assert max(shape.debug_chain for shape in shapes) == 2
    assert mean(run.curve()[-1] for run in runs) > 0
