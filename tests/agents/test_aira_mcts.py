"""AIRA's tree search: hand-worked visits and values, expansion, repairs, and breadth."""

import math
import random
from collections import Counter

import pytest
from folding import Scribe, chance, grow, history, node

from fml_hydra.agents.aira_mcts import AiraMcts, Tree
from fml_hydra.config import load_experiment
from fml_hydra.overrides import compose_config
from fml_hydra.simulation import DENSITIES, behaviour, make_landscape, simulate

KNOBS = {"uct_c": 1.41, "num_children": 2, "max_debug_depth": 3, "widening": 0.5}
WORKED = (
    node(0, 0.2),
    node(1, 0.8),
    node(2),
    node(3, None, "debug", (2,)),
    node(4, 0.5, "debug", (3,)),
    node(5, 1.0, "improve", (1,)),
    node(6, None, "improve", (1,)),
)


def policy(**knobs) -> AiraMcts:
    return AiraMcts(**{**KNOBS, **knobs})


def propose(chosen: AiraMcts, *nodes, k=1):
    return chosen.propose(history(*nodes), k, random.Random(0), Scribe())


def expansions(past, children: int) -> dict:
    """How often each place was expanded."""
    made = Counter(n.parents[0] if n.parents else None for n in past if n.op != "debug")
    return {place: math.ceil(count / children) for place, count in made.items()}


def test_visits_and_values_of_a_tree_worked_by_hand():
    tree = Tree.of(history(*WORKED))
    assert dict(tree.visits) == {None: 4, 0: 1, 1: 2, 2: 1, 3: 1, 4: 1, 5: 1}
    assert tree.values[None] == pytest.approx(0 + 0.75 + 0.375 + 1)
    assert tree.values[1] == pytest.approx(1.75)
    assert tree.values[2] == tree.values[3] == tree.values[4] == pytest.approx(0.375)
    assert tree.uct(WORKED[1], 1.0) == pytest.approx(0.875 + math.sqrt(math.log(4) / 2))
    assert tree.uct(WORKED[5], 0.5) == pytest.approx(1 + 0.5 * math.sqrt(math.log(2)))
    assert tree.uct(WORKED[4], 9.0) == pytest.approx(0.375)


@pytest.mark.parametrize(
    ("c", "leaf"), [(0.0, 5), (10.0, 4)]
)  # value alone; else the best of those below the root that were visited once
def test_descends_to_the_leaf_of_highest_uct(c, leaf):
    chosen = policy(uct_c=c, widening=0.0, max_debug_depth=0, num_children=1)
    (action,) = propose(chosen, *WORKED)
    assert (action.op, action.parents) == ("improve", (leaf,))


def test_equal_utilities_are_worth_a_half():
    tree = Tree.of(history(node(0, 3.0), node(1, 3.0)))
    assert tree.values[0] == tree.values[1] == 0.5


def test_an_expansion_is_finished_before_the_next():
    chosen = policy(num_children=3)
    (action,) = propose(chosen, node(0, 1.0))
    assert action.op == "draft"
    (action,) = propose(chosen, node(0, 1.0), node(1, 0.0), node(2, 0.5))
    assert action.parents == (0,)
    (action,) = propose(
        chosen, node(0, 1.0), node(1, 0.0), node(2, 0.5), node(3, -1.0, "improve", (0,))
    )
    assert action.parents == (0,)


def test_a_broken_child_is_debugged_at_once_and_given_up_after_so_many_steps():
    past = grow(policy(max_debug_depth=3), lambda i, action, past: None, steps=9)
    assert [(n.op, n.parents) for n in past] == [
        ("draft", ()),
        ("debug", (0,)),
        ("debug", (1,)),
        ("debug", (2,)),
        ("draft", ()),
        ("debug", (4,)),
        ("debug", (5,)),
        ("debug", (6,)),
        ("draft", ()),
    ]


def test_a_subtree_in_which_everything_failed_is_passed_by():
    nodes = [node(0, 1.0), node(1, 0.0)]
    nodes += [node(2, None, "improve", (0,)), node(3, None, "improve", (0,))]
    (action,) = propose(policy(max_debug_depth=0, uct_c=0.0), *nodes)
    assert action.parents == (1,)
    nodes += [node(4, None, "improve", (1,)), node(5, None, "improve", (1,))]
    (action,) = propose(policy(max_debug_depth=0, uct_c=0.0), *nodes)
    assert action.op == "draft"


def test_the_root_is_expanded_again_and_again_and_with_no_widening_once():
    wide = grow(policy(), chance(0.2), steps=100)
    assert 3 <= expansions(wide, 2)[None] <= 10
    narrow = grow(policy(widening=0.0), chance(0.2), steps=100)
    assert set(expansions(narrow, 2).values()) == {1}


def test_the_first_batch_is_one_expansion_and_pending_children_are_seen():
    assert [a.op for a in propose(policy(num_children=5), k=8)] == ["draft"] * 5
    actions = propose(policy(max_debug_depth=3), node(0, 1.0), node(1), k=4)
    assert [(a.op, a.parents) for a in actions] == [
        ("debug", (1,)),
        ("improve", (0,)),
        ("improve", (0,)),
    ]


@pytest.mark.parametrize("failures", [0.0, 0.4, 0.9])
@pytest.mark.parametrize("k", [1, 3, 8])
@pytest.mark.parametrize("knobs", [{}, {"uct_c": 0.25, "num_children": 5, "max_debug_depth": 20}])
def test_what_holds_in_any_world(failures, k, knobs):
    chosen = policy(**knobs)
    for seed in range(3):
        past = grow(chosen, chance(failures, seed), steps=60, k=k, seed=seed)
        for n in past:
            assert n.op == (
                "draft" if not n.parents else "improve" if past[n.parents[0]].ok else "debug"
            )
            assert past.debug_depth(n) <= chosen.max_debug_depth


def test_on_the_simulator_the_root_is_expanded_again_and_broken_children_are_debugged():
    agent = load_experiment(compose_config(["agent=aira_mcts"])).agent
    run = simulate(agent, make_landscape(DENSITIES["dense"], seed=1), steps=60, seed=1)
    shape = behaviour(run.history)
    assert 3 <= expansions(run.history, 2)[None] <= 8
    assert shape.depth >= 4
    assert 1 <= shape.debug_chain <= 3
