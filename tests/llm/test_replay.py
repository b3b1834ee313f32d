"""A recording in the place of a model: the recorded answers, and never another."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import ValidationError

from fml_hydra.calls import CallLog
from fml_hydra.errors import ConfigError, Divergence, InfraError, JournalError
from fml_hydra.llm.base import LLM, Message, ProviderError, Reply, Request, Usage
from fml_hydra.llm.replay import DIFF_LINES, ReplayLLM, find_run
from fml_hydra.usage import Spend

PROMPT = "\n".join(f"line {i}" for i in range(1, 40))
SYSTEM = Message("system", "be kind")


def request(text: str = PROMPT, seed: int = 7, purpose: str = "edit", **more) -> Request:
    return Request((SYSTEM, Message("user", text)), purpose, seed, **more)


class Priced:
    name = "priced"

    def complete(self, asked: Request) -> Reply:
        usage = Usage(10, 4, 5, 2, 1)
        return Reply(f"to {asked.seed}", usage, 0.25, "length", 1.5, "priced-2026", ("noted",))


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """Three calls of a run, in its folder."""
    folder = tmp_path / "runs" / "toy.aide.s0"
    log = CallLog(folder / "calls.jsonl")
    log.ask(Priced(), "0/0", request())
    log.ask(Priced(), "0/1", request("what now?", seed=8, purpose="analysis"))
    log.ask(Priced(), "p1/0", request("give JSON", seed=9, purpose="idea", schema={"a": 1}))
    log.close()
    (folder / "journal.jsonl").touch()
    (folder / "mlflow.json").write_text(json.dumps({"run_id": "f" * 32}))
    return folder


def divergence(recording: Path, asked: Request) -> Divergence:
    with pytest.raises(Divergence) as caught:
        ReplayLLM.of(recording).complete(asked)
    assert "\n" not in str(caught.value)
    return caught.value


def test_every_recorded_call_is_answered_as_it_was_at_the_price_of_then(recording):
    llm = ReplayLLM.of(recording)
    assert isinstance(llm, LLM)
    for asked in (
        request(),
        request("what now?", seed=8, purpose="analysis"),
        request("give JSON", seed=9, purpose="idea", schema={"a": 1}),
    ):
        assert llm.complete(asked) == Priced().complete(asked)


def test_a_changed_line_is_named_with_its_call_and_shown_in_a_short_diff(recording):
    text = PROMPT.replace("line 17", "line xvii").replace("line 39", "another end")
    error = divergence(recording, request(text))
    assert str(error) == (
        "call 0/0 (edit) is not the recorded one: message 2 (user), line 17: 'line xvii', "
        "recorded 'line 17'"
    )
    assert error.call == "0/0"
    assert error.diff.splitlines() == [
        "--- recorded",
        "+++ now",
        "@@ -15,5 +15,5 @@",
        " line 15",
        " line 16",
        "-line 17",
        "+line xvii",
        " line 18",
        " line 19",
    ]


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (request(PROMPT + "\nmore"), "line 40: 'more', recorded ''"),
        (request(PROMPT[:-8]), "line 39: '', recorded 'line 39'"),
        (request(PROMPT + " "), "line 39: 'line 39 ', recorded 'line 39'"),
        (request(purpose="repair"), "call 0/0 (repair) is not the recorded one: that was for edit"),
        (replace(request(), messages=(SYSTEM,)), "1 messages, recorded 2"),
        (
            replace(request(), messages=(replace(SYSTEM, role="user"), request().messages[1])),
            "message 1 is of role user, recorded system",
        ),
        (request(schema={"type": "object"}), "in another JSON schema"),
    ],
)
def test_what_else_may_differ(recording, asked, words):
    assert words in str(divergence(recording, asked))


def test_a_difference_far_to_the_right_is_still_shown(recording):
    log = CallLog(recording / "calls.jsonl")
    log.ask(Priced(), "2/0", request("x" * 5000 + "old", seed=99))
    log.close()
    error = divergence(recording, request("x" * 5000 + "new", seed=99))
    assert "xnew', recorded '...xxx" in str(error)
    assert len(str(error)) < 250


def test_a_diff_that_goes_on_is_cut(recording):
    error = divergence(recording, request("\n".join("abcdefghijklmnopqrstuvwxyz")))
    assert error.diff.splitlines()[-1] == "..."
    assert len(error.diff.splitlines()) == DIFF_LINES + 1


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (request(seed=1), "call 0/0 asks the same with another sampling seed: is `seed=`"),
        (
            request("what then?", seed=1, purpose="analysis"),
            "the nearest is another: call 0/1 (analysis) is not the recorded one: message 2 "
            "(user), line 1: 'what then?', recorded 'what now?'",
        ),
        (request(seed=1, purpose="summary"), "no call of the recording is for summary"),
    ],
)
def test_a_call_that_was_not_recorded(recording, asked, words):
    error = divergence(recording, asked)
    assert str(error).startswith(f"a call ({asked.purpose}) that was not recorded; ")
    assert words in str(error)


def test_of_two_recorded_prompts_of_one_call_either_is_answered(recording):
    """A resumed run may ask a call again with another prompt."""
    log = CallLog(recording / "calls.jsonl")
    log.ask(Priced(), "0/0", request("another prompt"))
    log.close()
    llm = ReplayLLM.of(recording)
    assert (
        llm.complete(request("another prompt"))
        == llm.complete(request())
        == Priced().complete(request())
    )


def test_the_bill_of_failed_attempts_is_no_answer(recording):
    class Away:
        name = "away"

        def complete(self, asked: Request) -> Reply:
            raise ProviderError("503", Spend(Usage(5), 0.1))

    log = CallLog(recording / "calls.jsonl")
    with pytest.raises(InfraError):
        log.ask(Away(), "3/0", request("costly", seed=33, purpose="summary"))
    log.close()
    assert '"failed"' in (recording / "calls.jsonl").read_text()
    asked = request("costly", seed=33, purpose="summary")
    assert "was not recorded" in str(divergence(recording, asked))


@pytest.mark.parametrize("given", ["{}", "{}/calls.jsonl", "toy.aide.s0", "f" * 32])
def test_ways_to_name_a_recording(recording, given):
    root = recording.parent.parent
    llm = ReplayLLM("replay", root, given.format(recording))
    assert llm.recording == recording / "calls.jsonl"


def test_a_run_that_is_not_there_is_told_with_the_nearest_name(recording):
    with pytest.raises(ConfigError, match=r"did you mean toy.aide.s0\?"):
        find_run("toy.aide.s1", recording.parent.parent)
    with pytest.raises(ConfigError, match="no such path"):
        find_run("", recording.parent.parent)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (None, "there is no calls.jsonl"),
        ('{"e": "open"}\n', "line 1 is not a recorded call: it lacks cost, key, messages"),
    ],
)
def test_a_folder_that_holds_no_recording(tmp_path, text, complaint):
    if text is not None:
        (tmp_path / "calls.jsonl").write_text(text)
    with pytest.raises(ValidationError, match=complaint):
        ReplayLLM.of(tmp_path)


def test_a_damaged_recording_names_the_line(recording):
    path = recording / "calls.jsonl"
    path.write_text("nonsense\n" + path.read_text())
    with pytest.raises(JournalError, match="calls.jsonl:1"):
        ReplayLLM.of(recording)


def test_a_run_with_the_recording_equals_the_recorded_one(cell, tmp_path):
    """As a user types it: `llm=replay llm.recording=FOLDER`."""
    words = ("agent=aide", "agent.policy.num_drafts=1", "budget.steps=3", "seed=5")
    first = cell(*words, folder=tmp_path / "first")
    first.run()
    again = cell(*words, "llm=replay", f"llm.recording={tmp_path}/first", folder=tmp_path / "again")
    again.run()
    then, now = (list(run.state().history()) for run in (first, again))
    assert [n.outcome() for n in then] == [n.outcome() for n in now]
    assert sum(n.usage.total for n in now) > 0
    assert now[0].seconds_llm == then[0].seconds_llm
    assert again.state().header["llm"] == "replay"


def test_a_run_that_leaves_the_recording_is_put_down(cell, tmp_path):
    words = ("agent=aide", "budget.steps=2", "seed=5")
    cell(*words, "agent.policy.num_drafts=2", folder=tmp_path / "first").run()
    other = cell(
        *words,
        "agent.policy.num_drafts=1",
        "llm=replay",
        f"llm.recording={tmp_path}/first",
        folder=tmp_path / "other",
    )
    with pytest.raises(Divergence, match=r"call 1/0 \(\w+\) is not the recorded one"):
        other.run()
    state = other.state()
    assert list(state.nodes) == [0]
    assert state.paused is not None
    assert state.paused["detail"].startswith("Divergence: call 1/0")


def test_a_bad_recording_is_one_clear_line_before_anything_runs(cell):
    with pytest.raises(ConfigError, match=r"llm.recording .*no such path, and no run in .*'nix'$"):
        cell("llm=replay", "llm.recording=nix")
    with pytest.raises(ConfigError, match="recording"):
        cell("llm=replay")
