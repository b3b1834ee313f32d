"""Random search drafts from the baseline only, and is shown nothing of what came before."""

import random
import re

from folding import chance, grow, history, node

from fml_hydra.agents.random_search import RandomSearch
from fml_hydra.config import load_experiment
from fml_hydra.overrides import compose_config
from fml_hydra.simulation import DENSITIES, SyntheticLLM, make_landscape, simulate
from fml_hydra.testing import ScriptedLLM


def test_proposes_drafts_whatever_happened():
    past = history(node(0, 0.5), node(1), node(2, 0.9))
    actions = RandomSearch().propose(past, 3, random.Random(0), None)
    assert [(a.op, a.parents) for a in actions] == [("draft", ())] * 3
    assert all(not n.parents for n in grow(RandomSearch(), chance(0.5), 20, k=4))


def test_prompts_tell_nothing_of_earlier_steps():
    landscape = make_landscape(DENSITIES["dense"], 0)
    seen: list[str] = []

    def answer(request):
        if request.purpose == "edit":
            seen.append(request.messages[-1].content)
        return SyntheticLLM(landscape.space).complete(request).text

    agent = load_experiment(compose_config(["agent=random_search"])).agent
    simulate(agent, landscape, steps=6, llm=ScriptedLLM(answer))
    assert len(seen) == 6
    assert len(set(seen)) == 1
    assert not re.search(r"Step \d", seen[0])
