"""The offline program behind the LLM protocol: every purpose, and the same reply again."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from offline_toy import (
    FILES,
    IDEAS,
    MODEL,
    SETTINGS,
    ask,
    outcome,
    prompt,
    write_ideas,
)

from fml_hydra.edits import parse_edit
from fml_hydra.llm.base import LLM, Purpose
from fml_hydra.llm.offline import OfflineLLM, count_tokens
from fml_hydra.replies import parse_object


@pytest.fixture
def llm(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., OfflineLLM]:
    ideas = write_ideas(tmp_path_factory.mktemp("ideas"))
    return lambda **knobs: OfflineLLM(**{**SETTINGS, "ideas": ideas, **knobs})


# --- edits ----------------------------------------------------------------------------------------


def test_it_is_an_llm_and_pure(llm: Callable[..., OfflineLLM]):
    first, second = llm(error_rate=0.5), llm(error_rate=0.5)
    assert isinstance(first, LLM)
    replies = [first.complete(ask(seed, prompt())) for seed in range(20)]
    again = [second.complete(ask(seed, prompt())) for seed in reversed(range(20))]
    assert replies == again[::-1]
    assert len({reply.text for reply in replies}) > 5


def test_usage_counts_the_texts_exchanged(llm: Callable[..., OfflineLLM]):
    assert count_tokens("a_b = f(1.5)") == 8
    request = ask(0, prompt())
    reply = llm().complete(request)
    assert reply.usage.input == sum(count_tokens(m.content) for m in request.messages)
    assert reply.usage.output == count_tokens(reply.text)
    assert (reply.cost, reply.finish) == (0.0, "stop")


def test_two_hundred_edits_apply_and_compile(llm: Callable[..., OfflineLLM]):
    texts = [llm().complete(ask(seed, prompt())).text for seed in range(200)]
    assert {outcome(text)[0] for text in texts} == {"ok"}
    plans = [parse_edit(text, ["model.py"]).plan for text in texts]
    assert all(2 <= plan.count(". ") + 1 <= 4 for plan in plans)
    whole = sum("SEARCH" not in text for text in texts)
    mutants = sum("one value" in plan for plan in plans)
    pairs = sum("two ideas" in plan for plan in plans)
    assert 20 <= whole <= 60
    assert 35 <= mutants <= 85
    assert 8 <= pairs <= 40
    assert {name for name in IDEAS for plan in plans if f"The {name} idea" in plan} == {*IDEAS}


def test_whole_files_where_the_prompt_asks_for_them(llm: Callable[..., OfflineLLM]):
    text = prompt(Answer_format="For every file one fenced code block with the whole file.")
    replies = [llm(whole_rate=0.0).complete(ask(seed, text)).text for seed in range(20)]
    assert all("SEARCH" not in reply and outcome(reply)[0] == "ok" for reply in replies)


def test_ideas_that_are_in_are_not_proposed_again(llm: Callable[..., OfflineLLM]):
    files = dict(FILES)
    model = llm(mutation_rate=0.0, combine_rate=0.0)
    proposed = []
    for step in range(len(IDEAS)):
        status, files = outcome(model.complete(ask(step, prompt(files))).text, files)
        assert status == "ok"
        proposed.append(files["model.py"])
    for _, _, new in IDEAS.values():
        assert new in files["model.py"]
    reply = model.complete(ask(9, prompt(files))).text
    assert "one value" in reply  # nothing but mutations is left


def test_ideas_in_the_memory_come_last(llm: Callable[..., OfflineLLM]):
    memory = "".join(f"- Step 1: The {name} idea.\n" for name in IDEAS if name != "clip")
    model = llm(mutation_rate=0.0, combine_rate=0.0)
    for seed in range(20):
        assert "The clip idea" in model.complete(ask(seed, prompt(Earlier_attempts=memory))).text


def test_the_idea_asked_for_is_implemented_then_varied(llm: Callable[..., OfflineLLM]):
    model = llm(combine_rate=0.0)
    idea = json.dumps({"Name": "average", "Title": "t"})
    status, files = outcome(model.complete(ask(0, prompt(Idea=idea))).text)
    assert status == "ok"
    assert "average = 0.5 * (weight + velocity)" in files["model.py"]
    status, varied = outcome(model.complete(ask(1, prompt(files, Idea=idea))).text, files)
    assert status == "ok"
    assert "average = 0.5 *" not in varied["model.py"]
    assert "* (weight + velocity)" in varied["model.py"]


def test_a_mutation_asked_for_by_name_is_made(llm: Callable[..., OfflineLLM]):
    idea = parse_object(llm(mutation_rate=1.0).complete(ask(3, prompt(), purpose="idea")).text)
    assert idea is not None
    assert idea["Name"].startswith("mutate_")
    reply = llm().complete(ask(0, prompt(Idea=json.dumps(idea)))).text
    assert idea["Experiment"].split("`")[2].strip(". ") in reply


@pytest.mark.parametrize("folder", [None, Path("no/such/folder")])
def test_without_a_catalogue_it_mutates(folder: Path | None):
    model = OfflineLLM(ideas=folder, **SETTINGS)
    files = {"model.py": MODEL, "conf.yaml": "rate: 0.1\nseed: 3\ndeep: true\n"}
    after = [outcome(model.complete(ask(s, prompt(files))).text, files) for s in range(60)]
    assert {status for status, _ in after} == {"ok"}
    assert {path for _, new in after for path in files if new[path] != files[path]} == {*files}


@pytest.mark.parametrize(
    "text", ["", "## Files\n", "## Files\n### FILE: m.py\n```\n", "## Idea\n{"]
)
@pytest.mark.parametrize("purpose", ["edit", "repair", "idea", "analysis", "summary"])
def test_a_prompt_without_files_is_answered(
    llm: Callable[..., OfflineLLM], text: str, purpose: Purpose
):
    reply = llm(error_rate=1.0).complete(ask(0, text, purpose=purpose))
    assert reply.text
    assert (parse_object(reply.text) is not None) == (purpose == "idea")


def test_headings_inside_a_description_do_not_count(llm: Callable[..., OfflineLLM]):
    text = "## Task\nA task.\n\n## Files\nmodel.py\n\n## Error\nNameError\n\n## Idea\nnone\n\n"
    text += prompt(Idea='{"Name": "clip"}')
    assert "The clip idea" in llm().complete(ask(0, text)).text


def test_tuning_and_ablating(llm: Callable[..., OfflineLLM]):
    model = llm(mutation_rate=0.0)
    assert "one value" in model.complete(ask(0, prompt(Instruction="Tune the constants."))).text
    _, old, new = IDEAS["clip"]
    files = {"model.py": MODEL.replace(old, new)}
    text = prompt(files, Instruction="Ablate one part of the method.")
    assert outcome(model.complete(ask(0, text)).text, files) == ("ok", FILES)


# --- ideas and reports ----------------------------------------------------------------------------


def test_ideas_are_all_different(llm: Callable[..., OfflineLLM]):
    had: list[str] = []
    names: list[str] = []
    for seed in range(30):
        text = prompt(Earlier_ideas=f"[{', '.join(had)}]")
        idea = parse_object(llm().complete(ask(seed, text, purpose="idea")).text)
        assert idea is not None
        assert {"Title", "Experiment"} < set(idea)
        assert all(1 <= idea[k] <= 10 for k in ("Interestingness", "Feasibility", "Novelty"))
        had.append(json.dumps(idea))
        names.append(idea["Name"])
    assert len(set(names)) == 30
    assert {*IDEAS} <= {*names}
    assert any(name.startswith("mutate_") for name in names)


def test_a_reflection_keeps_the_idea_and_ends(llm: Callable[..., OfflineLLM]):
    first = llm().complete(ask(0, prompt(), purpose="idea")).text
    second = (
        llm().complete(ask(1, prompt(), first, "## Instruction\nReconsider.", purpose="idea")).text
    )
    assert parse_object(second) == parse_object(first)
    assert "I am done" in second
    assert "I am done" not in first


ANALYSIS = """You planned this step:

Set `rate = 7`.

It ended with status `{}`:

{}

What was tried?"""


@pytest.mark.parametrize(
    ("status", "feedback", "expected"),
    [
        (
            "ok",
            "loss = 0.5 (lower is better; baseline 0.75); accuracy = 0.9",
            "The step ended with status ok. The report has loss = 0.5, accuracy = 0.9. "
            "This loss is better than the baseline's, 0.75.",
        ),
        (
            "ok",
            "accuracy = 0.5 (higher is better; baseline 0.75)",
            "The step ended with status ok. The report has accuracy = 0.5. "
            "This accuracy is worse than the baseline's, 0.75.",
        ),
        (
            "crash",
            "exit code 1\nTraceback\nValueError: bad shape",
            "The step ended with status crash. There is no number to judge it by. "
            "The last thing it says is: ValueError: bad shape",
        ),
    ],
)
def test_an_analysis_says_what_the_report_says(
    llm: Callable[..., OfflineLLM], status: str, feedback: str, expected: str
):
    request = ask(0, ANALYSIS.format(status, feedback), purpose="analysis")
    assert llm().complete(request).text == expected
    assert llm().complete(replace(request, purpose="summary")).text == expected


def test_an_idea_is_completed_now_and_then(llm: Callable[..., OfflineLLM]):
    text = (
        ANALYSIS.format("ok", "loss = 0.5")
        + " If no further run is needed, end with ALL_COMPLETED."
    )
    ends = [
        llm().complete(ask(s, text, purpose="analysis")).text.endswith("ALL_COMPLETED")
        for s in range(100)
    ]
    assert 10 <= sum(ends) <= 40
