"""The mistakes of the offline program, and how it repairs code that failed."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from offline_toy import (
    FILES,
    IDEAS,
    MODEL,
    SETTINGS,
    STATUS,
    ask,
    outcome,
    prompt,
    run,
    write_ideas,
)
from pydantic import ValidationError

from fml_hydra.edits import parse_edit, syntax_error
from fml_hydra.errors import TaskError
from fml_hydra.llm.offline import OfflineLLM


@pytest.fixture
def llm(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., OfflineLLM]:
    ideas = write_ideas(tmp_path_factory.mktemp("ideas"))
    return lambda **knobs: OfflineLLM(**{**SETTINGS, "ideas": ideas, **knobs})


# --- mistakes -------------------------------------------------------------------------------------


@pytest.mark.parametrize("whole", [0.0, 1.0])
@pytest.mark.parametrize("kind", STATUS)
def test_every_mistake_ends_in_its_status(
    llm: Callable[..., OfflineLLM], kind: str, whole: float, tmp_path: Path
):
    model = llm(error_rate=1.0, errors={kind: 1.0}, whole_rate=whole, mutation_rate=0.5)
    found = [outcome(model.complete(ask(seed, prompt())).text) for seed in range(40)]
    assert {status for status, _ in found} == {STATUS[kind]}
    if kind == "name":
        ends = [run(after["model.py"], tmp_path) for _, after in found[:8]]
        assert all(end.returncode and "NameError" in end.stderr for end in ends)


def test_mistakes_come_as_often_as_the_knob_says(llm: Callable[..., OfflineLLM]):
    shares = {"search": 1.0, "wrong_file": 3.0}
    model = llm(error_rate=0.4, errors=shares)
    counts = Counter(outcome(model.complete(ask(s, prompt())).text)[0] for s in range(200))
    assert set(counts) == {"ok", "edit_failed", "protected"}
    assert 95 <= counts["ok"] <= 145
    assert counts["protected"] > 2 * counts["edit_failed"]


def test_a_repair_is_mostly_right(llm: Callable[..., OfflineLLM]):
    model = llm(error_rate=0.4, errors={"search": 1.0})
    request = [
        ask(s, prompt(), "no code", "## Error\nno code", purpose="repair") for s in range(100)
    ]
    counts = Counter(outcome(model.complete(r).text)[0] for r in request)
    assert 80 <= counts["ok"] < 100
    assert counts.total() == counts["ok"] + counts["edit_failed"]


@pytest.mark.parametrize(
    ("knobs", "words"),
    [
        ({"error_rate": 1.5}, "error_rate"),
        ({"errors": {"typo": 1.0}}, "typo"),
        ({"errors": {"name": 0.0}}, "above 0"),
        ({"errors": {"name": -1.0}}, "errors"),
        ({"temperature": 1.0}, "temperature"),
    ],
)
def test_wrong_knobs_are_named(
    llm: Callable[..., OfflineLLM], knobs: dict[str, object], words: str
):
    with pytest.raises(ValidationError, match=words):
        llm(**knobs)


def test_a_broken_catalogue_is_an_error_of_the_task(tmp_path: Path):
    (tmp_path / "bad.md").write_text("nothing")
    with pytest.raises(TaskError, match=r"bad\.md"):
        OfflineLLM(ideas=tmp_path, **SETTINGS).complete(ask(0, prompt()))


# --- debugging ------------------------------------------------------------------------------------


def debugged(model: OfflineLLM, files: dict[str, str], error: str, seed: int = 0) -> dict[str, str]:
    status, after = outcome(model.complete(ask(seed, prompt(files, Error=error))).text, files)
    assert status == "ok"
    return after


def test_crashes_it_makes_are_mostly_repaired(llm: Callable[..., OfflineLLM], tmp_path: Path):
    faulty = llm(error_rate=1.0, errors={"name": 1.0})
    repaired = []
    for seed in range(12):
        reply = faulty.complete(ask(seed, prompt())).text
        if "The scale idea" in reply:  # that would be two mistakes at once
            continue
        _, files = outcome(reply)
        crash = run(files["model.py"], tmp_path)
        assert crash.returncode
        after = debugged(llm(), files, crash.stderr, seed)
        repaired.append(run(after["model.py"], tmp_path).returncode == 0)
    assert len(repaired) >= 6
    assert sum(repaired) >= 0.8 * len(repaired)


def test_an_idea_that_crashes_is_taken_out(llm: Callable[..., OfflineLLM], tmp_path: Path):
    _, old, new = IDEAS["scale"]
    files = {"model.py": MODEL.replace(old, new)}
    crash = run(files["model.py"], tmp_path)
    assert "NameError" in crash.stderr
    assert debugged(llm(), files, crash.stderr) == FILES


def test_a_missing_bracket_is_put_in(llm: Callable[..., OfflineLLM]):
    files = {"model.py": MODEL.replace("range(CONFIG", "range((CONFIG")}
    after = debugged(llm(), files, f"The edited file does not compile: {syntax_error(files)}")
    assert syntax_error(after) is None


def test_a_mutation_told_in_the_memory_is_reverted(llm: Callable[..., OfflineLLM]):
    model = llm(mutation_rate=1.0)
    reply = model.complete(ask(1, prompt())).text
    _, files = outcome(reply)
    plan = parse_edit(reply, ["model.py"]).plan.replace("\n", " ")
    text = prompt(files, Earlier_attempts=f"- Step 4: {plan}", Error="ValueError: diverged")
    assert outcome(model.complete(ask(0, text)).text, files) == ("ok", FILES)


def test_an_unknown_crash_leads_to_a_mutation_of_the_line_named(llm: Callable[..., OfflineLLM]):
    error = 'Traceback:\n  File "/slot/model.py", line 3, in <module>\nOverflowError: too large'
    after = debugged(llm(), FILES, error)
    changed = [
        i
        for i, (a, b) in enumerate(
            zip(MODEL.split("\n"), after["model.py"].split("\n"), strict=True)
        )
        if a != b
    ]
    assert changed == [2]
