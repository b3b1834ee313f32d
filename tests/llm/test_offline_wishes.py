"""The offline program at the operators that show two solutions, and at ideas of taking out."""

import json
from collections.abc import Callable

import pytest
from offline_toy import FILES, IDEAS, MODEL, SETTINGS, ask, outcome, prompt, write_ideas

from fml_hydra.edits import parse_edit, render_files
from fml_hydra.llm.offline import OfflineLLM
from fml_hydra.llm.program.reading import read_request
from fml_hydra.replies import parse_object

COMBINE = "Combine two solutions: edit the one above."


@pytest.fixture
def llm(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., OfflineLLM]:
    ideas = write_ideas(tmp_path_factory.mktemp("ideas"))
    return lambda **knobs: OfflineLLM(**{**SETTINGS, "ideas": ideas, **knobs})


def having(*names: str, text: str = MODEL) -> dict[str, str]:
    for name in names:
        text = text.replace(*IDEAS[name][1:])
    return {"model.py": text}


def crossing(first: dict[str, str], *others: dict[str, str]) -> str:
    shown = {
        f"Other_solution_{7 + i}": f"Step {i}: loss = 0.5\n{render_files(files)}"
        for i, files in enumerate(others)
    }
    return prompt(first, **shown, Instruction=COMBINE)


def test_other_solutions_are_read_apart_from_the_one_to_edit():
    request = ask(0, crossing(having("clip"), having("average"), FILES))
    asked = read_request(request)
    assert asked.files == having("clip")
    assert asked.others == [having("average"), FILES]


def test_crossover_brings_in_an_idea_of_the_other_solution(llm: Callable[..., OfflineLLM]):
    first, second = having("clip"), having("clip", "average")
    for seed in range(10):
        reply = llm(mutation_rate=1.0).complete(ask(seed, crossing(first, second))).text
        assert outcome(reply, first) == ("ok", having("clip", "average"))
        plan = parse_edit(reply, ["model.py"]).plan
        assert plan.startswith("This is in the other solution. I try this idea: The average idea")


def test_crossover_takes_over_a_passage_where_there_is_no_idea(llm: Callable[..., OfflineLLM]):
    second = {
        "model.py": MODEL.replace('"epochs": 20', '"epochs": 40').replace("0.0, 0.0", "0.0, 0.7")
    }
    found = {
        outcome(llm().complete(ask(s, crossing(FILES, second))).text)[1]["model.py"]
        for s in range(20)
    }
    one = MODEL.replace('"epochs": 20', '"epochs": 40')
    other = MODEL.replace("0.0, 0.0", "0.0, 0.7")
    assert found == {one, other}


def test_crossover_with_an_equal_solution_tries_something_else(llm: Callable[..., OfflineLLM]):
    reply = llm().complete(ask(0, crossing(FILES, FILES))).text
    assert outcome(reply)[0] == "ok"


def test_ideas_for_ablation_are_the_parts_that_are_in_each_once(llm: Callable[..., OfflineLLM]):
    files, had, names = having("clip", "average"), [], []
    for seed in range(3):
        text = prompt(
            files, Earlier_ideas=f"[{', '.join(had)}]", Instruction="Ablate it: which part?"
        )
        idea = parse_object(llm().complete(ask(seed, text, purpose="idea")).text)
        had, names = [*had, json.dumps(idea)], [*names, idea["Name"]]
    assert set(names[:2]) == {"clip", "average"}
    assert names[2].startswith("mutate_")


def test_an_ablation_takes_out_the_part_its_idea_names(llm: Callable[..., OfflineLLM]):
    files = having("clip", "average")
    for seed in range(5):
        text = prompt(files, Idea='{"Name": "clip"}', Instruction="Ablate it as the idea says.")
        assert outcome(llm().complete(ask(seed, text)).text, files) == ("ok", having("average"))


def test_ideas_for_tuning_are_values(llm: Callable[..., OfflineLLM]):
    for seed in range(5):
        text = prompt(Instruction="Tune it: which setting?")
        idea = parse_object(llm().complete(ask(seed, text, purpose="idea")).text)
        assert idea["Name"].startswith("mutate_")
        edit = prompt(Idea=json.dumps(idea), Instruction="Tune it as the idea says.")
        plan = parse_edit(llm().complete(ask(seed, edit)).text, ["model.py"]).plan
        assert plan.startswith("I change one value")
