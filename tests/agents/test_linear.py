"""Linear refinement: always the newest state, and the conversation so far as memory."""

import random

import pytest
from folding import history, node

from fml_hydra.agents.linear import LastState
from fml_hydra.config import load_experiment
from fml_hydra.edits import apply_edit, parse_edit
from fml_hydra.overrides import compose_config
from fml_hydra.simulation import DENSITIES, SyntheticLLM, behaviour, make_landscape, simulate
from fml_hydra.simulation.method import FILE
from fml_hydra.testing import ScriptedLLM

LANDSCAPE = make_landscape(DENSITIES["dense"], 0)


def agent(*words: str):
    return load_experiment(compose_config(["agent=linear", *words])).agent


@pytest.fixture
def talked():
    """Runs the agent; the run, and the messages of every first call for an edit."""

    def build(steps: int, *words: str):
        seen = []

        def answer(request):
            if request.purpose == "edit":
                seen.append(request.messages)
            return SyntheticLLM(LANDSCAPE.space).complete(request).text

        run = simulate(agent(*words), LANDSCAPE, steps=steps, seed=2, llm=ScriptedLLM(answer))
        return run, seen

    return build


def test_it_goes_on_from_the_newest_step_good_or_not():
    rng = random.Random(0)
    propose = LastState().propose
    assert [(a.op, a.parents) for a in propose(history(), 4, rng, None)] == [("draft", ())]
    good = history(node(0, 0.9), node(1, 0.1))
    assert [(a.op, a.parents) for a in propose(good, 4, rng, None)] == [("improve", (1,))]
    bad = history(node(0, 0.9), node(1))
    assert [(a.op, a.parents) for a in propose(bad, 4, rng, None)] == [("debug", (1,))]


def test_its_tree_is_one_line_on_any_number_of_slots():
    for slots in (1, 4):
        shape = behaviour(simulate(agent(), LANDSCAPE, steps=20, slots=slots).history)
        assert (shape.depth, shape.width, shape.leaves) == (20, 1, 1)


def test_the_conversation_holds_every_edit_and_every_result(talked):
    run, seen = talked(8)
    nodes = list(run.history)
    for count, messages in enumerate(seen):
        roles = [m.role for m in messages]
        assert roles == ["system", *["user", "assistant"] * count, "user"]
        replies = [m.content for m in messages if m.role == "assistant"]
        results = [m.content for m in messages if m.role == "user"][1:]
        for step, reply, result in zip(nodes, replies, results, strict=False):
            assert step.plan in reply
            assert f"Step {step.id} ended with status `{step.status}`" in result
            assert step.feedback in result


def test_the_edits_of_the_conversation_lead_to_the_file_that_is_shown(talked):
    run, seen = talked(8)
    files = {FILE: LANDSCAPE.space.text()}
    for message in seen[-1]:
        if message.role == "assistant" and "### FILE" in message.content:
            files = apply_edit(parse_edit(message.content, [FILE]), files)
    assert files[FILE] == run.history[6].snapshot[FILE]
    assert files[FILE] in seen[-1][-1].content


def test_earlier_messages_stay_as_they_were_so_that_a_provider_can_cache_them(talked):
    _, seen = talked(8)
    for before, after in zip(seen, seen[1:], strict=False):
        assert after[: len(before) - 1] == before[:-1] or len(before) == 2
        assert after[0] == before[0]


def test_only_the_newest_turns_are_kept_when_asked_for(talked):
    run, seen = talked(8, "agent.turns=2")
    assert [len(messages) for messages in seen] == [2, 4, *[6] * 6]
    assert seen[-1][2].content.startswith(run.history[5].plan)
