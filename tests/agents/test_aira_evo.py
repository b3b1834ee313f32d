"""AIRA's evolution: generations, admission to the islands, parents, and breadth."""

import random
from collections import Counter

import pytest
from folding import Scribe, chance, grow, history, node

from fml_hydra.agents.aira_evo import AiraEvo
from fml_hydra.config import load_experiment
from fml_hydra.overrides import compose_config
from fml_hydra.simulation import DENSITIES, make_landscape, simulate
from fml_hydra.simulation.method import FILE, readable

KNOBS = {
    "islands": 1,
    "individuals": 5,
    "crossover_prob": 0.5,
    "crossover_from": 2,
    "temperature": 1.0,
    "max_debug_depth": 10,
    "island_cap": 500,
}


def policy(**knobs) -> AiraEvo:
    return AiraEvo(**{**KNOBS, **knobs})


def member(node_id, utility, generation=0, island=0, **extra):
    return node(node_id, utility, meta={"generation": generation, "island": island}, **extra)


def test_a_child_is_admitted_if_it_is_no_worse_than_the_mean_of_its_island():
    good = [member(0, 0.0), member(1, 1.0), member(2, 5.0, 0, 1)]
    good += [member(3, 0.4, 1), member(4, 0.5, 1), member(5, 0.6, 1), member(6, 4.0, 1, 1)]
    islands = policy(islands=3).populations([*good, member(7, -9.0, 1, 2)])
    assert [[n.id for n in island] for island in islands] == [[0, 1, 4, 5], [2], [7]]


def test_the_worst_leaves_a_full_island():
    good = [member(0, 0.3), member(1, 0.1), member(2, 0.2), member(3, 0.2, 1)]
    (island,) = policy(island_cap=3).populations(good)
    assert [n.id for n in island] == [0, 2, 3]


def test_generation_nought_is_drafts_spread_over_the_islands():
    past = grow(policy(islands=3), chance(0.0), steps=5)
    assert [(n.op, n.meta["island"]) for n in past] == [("draft", i) for i in (0, 1, 2, 0, 1)]


@pytest.mark.parametrize("k", [1, 2, 8])
def test_generations_do_not_overlap_and_are_of_equal_size(k):
    past = grow(policy(), chance(0.3), steps=80, k=k)
    assert [n.meta["generation"] for n in past] == sorted(n.meta["generation"] for n in past)
    sizes = Counter(n.meta["generation"] for n in past if n.op != "debug")
    *whole, last = sizes.values()
    assert set(whole) == {5}
    assert last <= 5
    for n in past:
        assert all(past[p].meta["generation"] < n.meta["generation"] for p in n.parents) or (
            n.op == "debug" and past[n.parents[0]].meta == n.meta
        )


def test_a_generation_without_failures_fills_the_slots_at_once():
    past = history(*(member(i, float(i)) for i in range(5)))
    actions = policy().propose(past, 8, random.Random(0), Scribe())
    assert len(actions) == 5
    assert {a.meta["generation"] for a in actions} == {1}


def test_crossover_comes_from_its_generation_on_with_two_different_parents():
    past = grow(policy(), chance(0.0), steps=200)
    late = [n for n in past if n.meta["generation"] >= 2]
    crossed = [n for n in past if n.op == "crossover"]
    assert min(n.meta["generation"] for n in crossed) == 2
    assert 0.4 < len(crossed) / len(late) < 0.6
    assert all(len(set(n.parents)) == 2 for n in crossed)


def test_parents_are_drawn_by_fitness():
    past = history(*(member(i, float(i)) for i in range(5)))

    def drawn(temperature):
        chosen = policy(temperature=temperature)
        return Counter(
            chosen.propose(past, 1, random.Random(s), Scribe())[0].parents[0] for s in range(500)
        )

    assert set(drawn(0.001)) == {4}
    mild = drawn(1.0)
    assert mild[4] > 1.5 * mild[0] > 0  # e times as likely in the limit


def test_islands_are_drawn_by_their_mean_fitness_and_parents_stay_on_theirs():
    past = history(member(0, 0.0), member(1, 1.0, 0, 1), *(member(i, 1.0) for i in (2, 3, 4)))
    chosen = policy(islands=2, temperature=0.05, crossover_from=0)
    found = [chosen.propose(past, 1, random.Random(s), Scribe())[0] for s in range(200)]
    assert sum(a.meta["island"] == 1 for a in found) > 190
    assert all(past[p].meta["island"] == a.meta["island"] for a in found for p in a.parents)
    assert {a.op for a in found if a.meta["island"] == 1} == {"improve"}  # nobody to cross with


def test_an_empty_island_is_given_a_draft():
    past = history(*(member(i, None if i == 1 else 0.0, 0, i % 2) for i in (0, 1, 2)))
    chosen = policy(islands=2, individuals=3, max_debug_depth=0)
    actions = chosen.propose(past, 3, random.Random(0), Scribe())
    assert [(a.op, a.meta["island"]) for a in actions] == [("draft", 1), *[("improve", 0)] * 2]


def test_debug_chains_are_bounded_and_a_hopeless_world_is_survived():
    past = grow(policy(max_debug_depth=4), lambda i, action, past: None, steps=60)
    assert max(past.debug_depth(n) for n in past) == 4
    assert {n.op for n in past} == {"draft", "debug"}


@pytest.mark.parametrize("failures", [0.0, 0.4, 0.9])
@pytest.mark.parametrize("k", [1, 3, 8])
def test_what_holds_in_any_world(failures, k):
    for seed in range(3):
        past = grow(policy(islands=3), chance(failures, seed), steps=60, k=k, seed=seed)
        assert {n.meta["island"] for n in past} == {0, 1, 2}
        for n in past:
            assert all(past[p].ok for p in n.parents) != (n.op == "debug")
            assert all(past[p].meta["island"] == n.meta["island"] for p in n.parents)


def test_on_the_simulator_crossover_takes_over_what_the_second_parent_has():
    agent = load_experiment(compose_config(["agent=aira_evo"])).agent
    run = simulate(agent, make_landscape(DENSITIES["dense"], seed=1), steps=60, seed=1)
    crossed = [n for n in run.history if n.op == "crossover" and n.ok]
    assert len(crossed) >= 8
    taken = 0
    for n in crossed:
        first, second = (readable(run.history[p].snapshot[FILE]) for p in n.parents)
        now = readable(n.snapshot[FILE])
        changed = {name for name, value in now.items() if value != first[name]}
        taken += any(now[name] == second[name] for name in changed)
    assert taken > len(crossed) / 4
