"""The AI Scientist v2: stages and their lengths, batches, trees, ideas."""

import json
import random
from collections import Counter

import pytest
from folding import Scribe, chance, grow, history, node

from fml_hydra.agents.ai_scientist_v2 import STAGES, AiScientistV2, Stage
from fml_hydra.config import load_experiment
from fml_hydra.overrides import compose_config
from fml_hydra.simulation import DENSITIES, make_landscape, simulate
from fml_hydra.testing import as_json

KNOBS = {
    "steps": None,
    "shares": (0.1, 0.2, 0.5, 0.2),
    "pass_on": True,
    "num_drafts": 3,
    "debug_prob": 0.5,
    "max_debug_depth": 3,
    "batch": 4,
    "carry_best": True,
}
UPSTREAM = {"steps": 62, "shares": (20, 12, 12, 18), "pass_on": False}


def policy(**knobs) -> AiScientistV2:
    return AiScientistV2(**{**KNOBS, **knobs})


def lengths(past) -> list[int]:
    counts = Counter(n.meta["stage"] for n in past)
    return [counts[name] for name in STAGES]


def fails_in_the_beginning(node_id, action, past):
    return None if node_id < 12 else float(node_id)


def staged(node_id, utility, stage, batch=0, **extra):
    return node(node_id, utility, meta={"stage": stage, "batch": batch}, **extra)


def test_stages_take_their_shares_of_the_budget():
    past = grow(policy(), fails_in_the_beginning, steps=100)
    assert lengths(past) == [10, 20, 50, 20]
    assert [n.meta["stage"] for n in past] == sorted(
        (n.meta["stage"] for n in past), key=STAGES.index
    )


def test_the_first_stage_ends_with_the_batch_that_has_a_good_node_and_passes_the_rest_on():
    past = grow(policy(), chance(0.0), steps=100)
    assert lengths(past) == [4, 26, 50, 20]
    assert [n.op for n in past][:4] == ["draft", "draft", "draft", "draft"]


def test_upstream_keeps_its_own_lengths_and_ends():
    past = grow(policy(**UPSTREAM), fails_in_the_beginning, steps=58)
    assert lengths(past) == [16, 12, 12, 18]  # the batch of step 12 is finished
    assert policy(**UPSTREAM).propose(past, 1, random.Random(0), Scribe(58, past.notes)) == []


@pytest.mark.parametrize("steps", [1, 2, 7, 10])
def test_small_budgets_are_spent(steps):
    past = grow(policy(), chance(0.0), steps=steps)
    assert past[0].op == "draft"
    assert past[0].meta["stage"] == "initial"


def test_the_last_stage_never_ends_as_there_may_be_steps_that_are_not_charged():
    past = grow(policy(steps=10), chance(0.0), steps=40)
    assert past[39].meta["stage"] == "ablation"


@pytest.mark.parametrize("failures", [0.0, 0.5])
def test_slots_change_nothing_in_what_is_tried(failures):
    one, two, three, eight = (
        grow(policy(), chance(failures), steps=100, k=k) for k in (1, 2, 3, 8)
    )
    assert list(one) == list(two) == list(three) == list(eight)


def test_a_batch_is_planned_from_what_was_known_when_it_began():
    past = grow(policy(), chance(0.3), steps=100)
    for n in past:
        assert all(p < n.meta["batch"] <= n.id for p in n.parents)
        assert n.id - n.meta["batch"] < 4


def test_a_batch_takes_different_trees_while_there_are_any():
    past = grow(policy(debug_prob=0.0), chance(0.0), steps=100)
    for start in {n.meta["batch"] for n in past if n.meta["stage"] == "research"}:
        before = history(*(n for n in past if n.id < start))
        carried = before.best(n for n in before if n.meta["stage"] in ("initial", "tuning"))
        stage = Stage("research", before, carried)
        trees = {stage.tree(n) for n in [*stage.nodes, carried]}
        batch = [n for n in past if n.meta["batch"] == start]
        taken = [stage.tree(before[n.parents[0]]) for n in batch]
        free = min(len(trees), len(batch))
        assert len(set(taken[:free])) == free
        best = before.best([*stage.nodes, carried])
        assert batch[0].parents == (best.id,)


def test_trees_of_a_stage():
    nodes = [
        staged(0, 1.0, "initial"),
        staged(1, 2.0, "research", parents=(0,)),
        staged(2, 3.0, "research", parents=(1,)),
        staged(3, 1.0, "research", parents=(0,)),
        staged(4, None, "research", parents=(3,)),
    ]
    stage = Stage("research", history(*nodes), nodes[0])
    assert [stage.tree(n) for n in nodes] == [0, 1, 1, 3, 3]
    assert [n.id for n in stage.outside({1})] == [0, 3, 4]


def test_tuning_and_ablation_work_on_the_best_node_of_the_stages_before():
    past = grow(policy(debug_prob=0.0), chance(0.0), steps=100)
    for stage, op in (("tuning", "tune"), ("ablation", "ablate")):
        own = [n for n in past if n.meta["stage"] == stage]
        best = past.best(n for n in past if n.id < own[0].id)
        assert {(n.op, n.parents) for n in own} == {(op, (best.id,))}


def test_a_stage_that_begins_with_nothing_that_works_tunes_what_works_in_it():
    past = grow(policy(debug_prob=0.0, steps=100), fails_in_the_beginning, steps=20)
    assert [n.meta["stage"] for n in past][10] == "tuning"
    assert [n.op for n in past] == ["draft"] * 14 + ["tune"] * 6  # a batch is planned at once
    assert [n.parents for n in past if n.op == "tune"] == [(13,)] * 4 + [(17,)] * 2


def test_research_starts_from_the_best_node_or_from_the_baseline():
    for carry, expected in ((True, "improve"), (False, "draft")):
        past = grow(policy(carry_best=carry, steps=100), chance(0.0), steps=40)
        own = [n for n in past if n.meta["stage"] == "research"]
        assert {n.op for n in own[:4]} == {expected}
        assert {n.op for n in own[4:]} == {"improve"}
        if carry:
            best = past.best(n for n in past if n.id < own[0].id)
            assert {n.parents for n in own[:4]} == {(best.id,)}


def test_ideas_name_what_was_tried_and_show_the_code_they_are_about():
    numbers = iter(range(1000))
    scribe = Scribe(answer=lambda template: as_json({"Name": f"{template}_{next(numbers)}"}))
    past = grow(policy(debug_prob=0.0), chance(0.0), steps=100, scribe=scribe)
    tuned = [n.meta["idea"]["Name"] for n in past if n.op == "tune"]
    assert len(tuned) == len(set(tuned)) == 26
    asked = [context for template, context in scribe.asked if template == "tuning_idea"]
    shown = [[json.loads(idea)["Name"] for idea in context["earlier"]] for context in asked]
    assert shown == [tuned[:i] for i in range(26)]
    best = past.best(n for n in past if n.meta["stage"] == "initial")
    assert all(f"x = {best.id}" in context["files"] for context in asked)


def test_an_idea_that_cannot_be_read_is_kept_as_its_text():
    scribe = Scribe(answer=lambda template: "raise the learning rate")
    past = grow(policy(debug_prob=0.0), chance(0.0), steps=8, scribe=scribe)
    assert past[4].meta["idea"] == {"Name": "tune_1", "Experiment": "raise the learning rate"}
    assert past[5].meta["idea"]["Name"] == "tune_2"


def test_a_broken_idea_is_debugged_under_its_own_name():
    past = grow(policy(debug_prob=1.0), chance(0.4), steps=60)
    fixed = [n for n in past if n.op == "debug" and past[n.parents[0]].op == "tune"]
    assert fixed
    assert all(n.meta["idea"] == past[n.parents[0]].meta["idea"] for n in fixed)


@pytest.mark.parametrize("failures", [0.2, 0.8, 1.0])
def test_what_holds_in_any_world(failures):
    for seed in range(4):
        past = grow(policy(), chance(failures, seed), steps=100, seed=seed)
        for n in past:
            assert past.debug_depth(n) <= 4  # a node three deep may be debugged once more
            assert all(past[p].ok for p in n.parents) != (n.op == "debug")
            assert n.op in ("draft", "improve", "debug", "tune", "ablate")
        drafts = sum(n.op == "draft" for n in past)
        assert drafts >= 3


def test_on_the_simulator_stages_take_their_shares_and_no_setting_is_tuned_twice():
    agent = load_experiment(compose_config(["agent=ai_scientist_v2"])).agent
    run = simulate(agent, make_landscape(DENSITIES["dense"], seed=1), steps=60, seed=1, slots=4)
    first, second, *rest = lengths(run.history)
    assert (first + second, *rest) == (18, 30, 12)
    ideas = [n.meta["idea"]["Name"] for n in run.history if n.op == "tune"]
    assert len(ideas) == len(set(ideas)) > 5
