"""AdaptiveSearch: one climb until it stagnates, then branches in turn, with hints; for good."""

import random
from collections import Counter

import numpy as np
import pytest
from folding import Scribe, chance, grow, history, node

from fml_hydra.agents.adaptive_search import COHERE, CONSOLIDATE, DEEPEN, AdaptiveSearch
from fml_hydra.agents.autoresearch import Autoresearch, Climb
from fml_hydra.config import load_experiment
from fml_hydra.embedding import HashedEmbedder
from fml_hydra.overrides import compose_config
from fml_hydra.simulation import DENSITIES, make_landscape, simulate
from fml_hydra.testing import as_json

FIRST = Autoresearch(min_delta=0.0, simpler_wins=False, max_crashes=3)
FLAT = [0.0] * 50
"""Steps without a gain, a window full."""
KNOBS = {
    "first": FIRST,
    "embedder": HashedEmbedder("offline", 64),
    "window": 50,
    "min_slope": 5e-4,
    "few_left": (3, 15, 30),
    "hint_after": 5,
    "few_keeps": 2,
    "deepen_window": 20,
    "deepen_reach": 0.3,
    "cohere_window": 5,
    "cohere_dimension": 1.25,
}


def policy(**knobs) -> AdaptiveSearch:
    return AdaptiveSearch(**{**KNOBS, **knobs})


class Judge(Scribe):
    """A task whose baseline is at 0 and whose best is at 1."""

    def improvement(self, utility):
        return max(0.0, utility)


def scribe(steps: int = 100) -> Scribe:
    return Judge(steps, answer=lambda template: as_json({"Name": "widen"}))


def climbed(utilities):
    """A climb from the baseline, every step from the best before it."""
    nodes, best = [], None
    for i, utility in enumerate(utilities):
        parents = () if best is None else (best,)
        nodes.append(
            node(
                i, utility, "improve" if parents else "draft", parents, meta={"idea": {"Name": "a"}}
            )
        )
        if utility > (0.0 if best is None else nodes[best].utility):
            best = i
    return nodes


def propose(chosen: AdaptiveSearch, nodes, k=1, steps=100, advisor=None):
    past = history(*nodes)
    return chosen.propose(past, k, random.Random(0), advisor or scribe(steps))


def test_it_is_a_climb_while_that_rises():
    rising = climbed([0.01 * (i + 1) for i in range(60)])
    assert not policy().stagnates(history(*rising), scribe())
    (action,) = propose(policy(), rising)
    assert action.parents == (59,)
    assert "branch" not in action.meta


def test_it_is_not_judged_before_the_window_is_full():
    flat = climbed([0.5] + [0.0] * 48)
    assert not policy().stagnates(history(*flat), scribe())
    assert policy().stagnates(history(*climbed([0.5] + [0.0] * 49)), scribe())


@pytest.mark.parametrize(("rise", "stagnates"), [(4.9e-4, True), (5.1e-4, False)])
def test_the_slope_is_that_of_the_normalised_best_so_far(rise, stagnates):
    """A step that is much worse does not count, nor what was gained before the window."""
    gains = [0.5 + rise * i if i % 3 else -9.0 for i in range(60)]
    smooth = [0.5 + rise * i for i in range(60)]
    assert policy().stagnates(history(*climbed([0.3, *smooth])), scribe()) is stagnates
    if stagnates:
        assert policy().stagnates(history(*climbed([0.3, *gains])), scribe())


@pytest.mark.parametrize(
    ("left", "branches"), [(3, 0), (4, 1), (15, 1), (16, 2), (30, 2), (31, 3), (50, 3)]
)
def test_the_number_of_branches_follows_from_the_steps_left(left, branches):
    flat = climbed([0.3, 0.4, 0.5, 0.6] + FLAT)
    (action,) = propose(policy(), flat, steps=len(flat) + left)
    if not branches:
        assert "branch" not in action.meta
    else:
        assert action.meta["forks"] == [3, 2, 1][:branches]


def test_branches_fork_from_the_best_kept_steps_else_from_the_baseline():
    (action,) = propose(policy(), climbed([0.3, 0.5] + FLAT))
    assert action.meta["forks"] == [1, 0, None]
    assert (action.op, action.parents) == ("improve", (1,))
    (action,) = propose(policy(), climbed([-0.3] * 50))
    assert action.meta["forks"] == [None, None, None]
    assert (action.op, action.parents) == ("draft", ())


def test_branches_take_turns_and_as_many_slots_as_there_are():
    flat = climbed([0.3, 0.4, 0.5] + FLAT)
    actions = propose(policy(), flat, k=4)
    assert [a.meta["branch"] for a in actions] == [0, 1, 2]
    assert [a.parents for a in actions] == [(2,), (1,), (0,)]
    chosen = policy(window=3, min_slope=0.1, few_left=(0, 1, 2))
    past = grow(chosen, chance(0.2), 40, scribe=scribe(40))
    turns = [n.meta["branch"] for n in past if "branch" in n.meta]
    assert turns == [i % 3 for i in range(len(turns))]
    assert len(turns) > 9


def test_it_never_goes_back_and_forks_once():
    flat = climbed([0.3] + FLAT)
    meta = {"idea": {"Name": "b"}, "branch": 0, "forks": [0, None, None]}
    rising = [node(len(flat) + i, 1.0 + i, "improve", (0,), meta=meta) for i in range(40)]
    (action,) = propose(policy(), [*flat, *rising])
    assert not policy().stagnates(history(*flat, *rising), scribe())
    assert action.meta["forks"] == [0, None, None]


def test_a_branch_has_to_beat_its_own_start_only():
    flat = climbed([0.3, 0.9] + FLAT)
    meta = {"idea": {"Name": "b"}, "branch": 1, "forks": [1, 0]}
    step = node(52, 0.95, "improve", (1,), meta=meta | {"branch": 0})
    kept = node(53, 0.4, "improve", (0,), meta=meta)
    turn = node(54, 0.1, "improve", (52,), meta=meta | {"branch": 0})
    (action,) = propose(policy(), [*flat, step, kept, turn])
    assert (action.meta["branch"], action.parents) == (1, (53,))


def test_first_ideas_of_branches_are_to_differ_from_their_siblings():
    flat = climbed([0.3, 0.4, 0.5] + FLAT)
    replies = iter(["one", "two", "three"])
    advisor = Judge(answer=lambda template: as_json({"Name": next(replies)}))
    actions = propose(policy(), flat, k=3, advisor=advisor)
    shown = [[i["Name"] for i in context["differ_from"]] for _, context in advisor.asked]
    assert shown == [[], ["one"], ["one", "two"]]
    begun = [
        node(len(flat) + i, 0.1, a.op, a.parents, meta=dict(a.meta)) for i, a in enumerate(actions)
    ]
    later = scribe()
    propose(policy(), [*flat, *begun[:1]], advisor=later)
    propose(policy(), [*flat, *begun], advisor=later)
    shown = [[i["Name"] for i in context["differ_from"]] for _, context in later.asked]
    assert shown == [["one"], []]


def branch(moves, utilities=None):
    """A branch whose k-th step is the text `moves[k]`."""
    values = utilities or [0.0] * len(moves)
    start = node(0, 0.5, snapshot={"a.py": "start of it all\n"})
    steps = [
        node(i + 1, value, "improve", (0,), snapshot={"a.py": text})
        for i, (text, value) in enumerate(zip(moves, values, strict=True))
    ]
    return Climb(start, 0.5, steps)


class Ruler:
    """An embedder whose vectors can be read off the text."""

    name = "ruler"

    def embed(self, texts):
        found = [[float(v) for v in t.split("#")[1].split()] if "#" in t else [0, 0] for t in texts]
        return np.array(found, dtype=float).reshape(len(texts), 2)


LINE = ["#0.1 0", "#0.2 0", "#0.1 0", "#0.2 0", "#0.3 0"]
CROSS = ["#1 0", "#0 1", "#-1 0", "#0 -1", "#1 0"]


@pytest.mark.parametrize(
    ("moves", "farthest", "hint"),
    [
        (LINE, 0.3, ""),  # far enough, on a line
        (LINE, 1.0, DEEPEN),  # reach 0.3 of 1.0
        (LINE, 0.99, ""),
        (CROSS, 1.0, COHERE),  # in all directions
        (CROSS, 9.0, CONSOLIDATE),
        (CROSS[:4], 9.0, ""),  # too early
    ],
)
def test_hints_follow_from_reach_and_dimension(moves, farthest, hint):
    chosen = policy(embedder=Ruler())
    assert chosen.hint(branch(moves), farthest, Scribe()) == hint


def test_a_branch_that_keeps_its_steps_is_given_no_hint():
    gains = [0.6, 0.7, 0.8, 0.9, 1.0]
    assert policy(embedder=Ruler()).hint(branch(CROSS, gains), 9.0, Scribe()) == ""
    two = [0.6, 0.7, 0.0, 0.0, 0.0]
    assert policy(embedder=Ruler()).hint(branch(CROSS, two), 9.0, Scribe()) == CONSOLIDATE


def test_hints_reach_the_idea_call():
    flat = climbed([0.3] + FLAT)
    meta = {"idea": {"Name": "b"}, "branch": 0, "forks": [0]}
    stuck = [node(len(flat) + i, 0.1, "improve", (0,), meta=meta) for i in range(6)]
    advisor = scribe()
    propose(policy(deepen_reach=2.0, cohere_dimension=99.0), [*flat, *stuck], advisor=advisor)
    assert [context["hint"] for _, context in advisor.asked] == [DEEPEN]


def test_on_the_simulator_it_switches_at_stagnation_and_only_there():
    """Every switch stands where the rule says, and is for good; not every run has one."""
    agent = load_experiment(compose_config(["agent=adaptive_search"])).agent
    chosen, switched = agent.policy, Counter()
    for density, seed in [(d, s) for d in DENSITIES for s in range(3)]:
        past = simulate(agent, make_landscape(DENSITIES[density], seed), seed=seed).history
        nodes = list(past)
        branched = [n.id for n in nodes if "branch" in n.meta]
        due = [i for i in range(97) if chosen.stagnates(history(*nodes[:i]), scribe())]
        assert branched[:1] == due[:1]
        assert branched == list(range(branched[0], 100)) if branched else not due
        switched[density] += bool(branched)
    assert 0 < sum(switched.values()) < 6
