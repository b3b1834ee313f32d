"""What the programs print, as recorded from the real ones, and what is understood of it."""

import json

import pytest

from fml_hydra.external.claude_code import ClaudeCode
from fml_hydra.external.codex import Codex
from fml_hydra.external.command import Command
from fml_hydra.external.gemini import Gemini
from fml_hydra.external.launches import Launches
from fml_hydra.external.programs import Place, Program, Task, Told
from fml_hydra.external.running import LINE_BYTES, Fold
from fml_hydra.journal import Journal
from fml_hydra.usage import Usage

CLAUDE = ClaudeCode("sh", "some-model", ("Read", "Edit"), 9, 60)
CODEX = Codex("sh", "some-model", "https://provider/v1", "KEY", ("goals",), 60)
GEMINI = Gemini("sh", None, ("web_fetch",), 60)
COMMAND = Command(("sh", "{prompt}"))
PLACE = Place("/agent/repo", "/agent/home", "/agent/tools", "/agent/tools/socket", "/py", True)


def told(program: Program, *events: object) -> Told:
    fold = Fold(program)
    fold.feed("".join(json.dumps(event) + "\n" for event in events).encode())
    return fold.told


def init(status: str) -> dict:
    servers = [{"name": "fml", "status": status}]
    return {"type": "system", "subtype": "init", "session_id": "s-1", "mcp_servers": servers}


def stream(**event: object) -> dict:
    return {"type": "stream_event", "session_id": "s-1", "event": event}


def started(name: str) -> dict:
    usage = {"input_tokens": 100, "output_tokens": 1, "cache_read_input_tokens": 50}
    return stream(type="message_start", message={"id": name, "usage": usage})


ENDED = stream(
    type="message_delta",
    usage={"input_tokens": 100, "output_tokens": 20, "cache_read_input_tokens": 50},
)
SPOKE = {"type": "assistant", "message": {"content": [{"type": "text", "text": "I see."}]}}
RESULT = {
    "type": "result",
    "subtype": "success",
    "is_error": False,
    "total_cost_usd": 0.0041,
    "usage": {"input_tokens": 400, "cache_read_input_tokens": 200, "output_tokens": 80},
    "modelUsage": {
        "large": {"inputTokens": 400, "outputTokens": 80, "cacheReadInputTokens": 200},
        "small": {"inputTokens": 10, "outputTokens": 2, "cacheReadInputTokens": 0},
    },
}


@pytest.mark.parametrize(("status", "connected"), [("connected", True), ("failed", False)])
def test_claude_says_whether_it_reached_our_server(status, connected):
    assert told(CLAUDE, init(status)).connected is connected
    assert told(CLAUDE, {"type": "system", "subtype": "init"}).connected is False
    assert told(CLAUDE, {"type": "system", "subtype": "status"}).connected is None


def test_claude_s_tokens_are_known_message_by_message_and_its_dollars_at_the_end():
    events = [init("connected"), started("a"), SPOKE, ENDED, started("b")]
    during = told(CLAUDE, *events)
    assert during.usage == Usage(input=300, cached=100, output=21)
    assert (during.cost, during.session, during.said) == (None, "s-1", ["I see."])
    after = told(CLAUDE, *events, RESULT)
    assert after.usage == Usage(input=610, cached=200, output=82)
    assert after.cost == 0.0041
    assert not after.error


def test_a_provider_that_refuses_is_told_from_an_agent_that_stops():
    refused = {**RESULT, "is_error": True, "result": "Invalid API key"}
    assert told(CLAUDE, refused).error == "Invalid API key"
    assert not told(CLAUDE, {**RESULT, "is_error": True, "subtype": "error_max_turns"}).error


def test_codex_tells_tokens_at_the_end_of_a_turn_and_no_cost():
    usage = {"input_tokens": 450, "cached_input_tokens": 150, "output_tokens": 60}
    usage |= {"reasoning_output_tokens": 15}
    item = {"id": "item_3", "type": "agent_message", "text": "done"}
    after = told(
        CODEX,
        {"type": "thread.started", "thread_id": "t-1"},
        {"type": "item.completed", "item": item},
        {"type": "turn.completed", "usage": usage},
    )
    assert after.usage == Usage(450, 150, 60, 15)
    assert (after.session, after.said, after.cost) == ("t-1", ["done"], None)
    failed = told(CODEX, {"type": "turn.failed", "error": {"message": "401"}})
    assert failed.error == "401"


def test_gemini_s_thinking_is_what_its_total_has_beyond_its_parts():
    stats = {"total_tokens": 510, "input_tokens": 450, "output_tokens": 45, "cached": 150}
    after = told(
        GEMINI,
        {"type": "init", "session_id": "g-1"},
        {"type": "message", "role": "user", "content": "do it"},
        {"type": "message", "role": "assistant", "content": "done", "delta": True},
        {"type": "result", "status": "success", "stats": stats},
    )
    assert after.usage == Usage(input=450, cached=150, output=60, reasoning=15)
    assert (after.session, after.said) == ("g-1", ["done"])


@pytest.mark.parametrize("program", [CLAUDE, CODEX, GEMINI, COMMAND])
def test_nonsense_in_a_stream_is_passed_over(program):
    fold = Fold(program)
    events = [
        {"type": kind, "usage": odd, "item": odd, "event": odd, "stats": odd, "message": odd}
        | {"mcp_servers": odd, "modelUsage": odd, "cost": odd, "session": odd, "text": odd}
        for kind in ("result", "turn.completed", "stream_event", "assistant", "item.completed")
        for odd in (None, 7, -1, "x", [], [3], {}, {"usage": {"input_tokens": "many"}}, True)
    ]
    fold.feed(b"\xff\xfe\n{\n{}\n[1]\n" + "\n".join(map(json.dumps, events)).encode() + b"\n")
    fold.feed(b"x" * (LINE_BYTES + 9) + b"\n")
    fold.feed(b"[" * 100_000 + b"\n")
    fold.feed(b'{"a":' * 100_000 + b"\n")
    usage = fold.told.usage or Usage()
    assert (usage.input, usage.output) == (0, 0)
    assert (fold.told.cost or 0) in (0, 35)  # one of the odd values is a price, five times over


def test_a_stream_may_come_in_any_pieces():
    data = (json.dumps(init("connected")) + "\n" + json.dumps(RESULT) + "\n").encode()
    fold = Fold(CLAUDE)
    for byte in data:
        fold.feed(bytes([byte]))
    assert fold.told.cost == 0.0041


def test_claude_gets_our_server_no_shell_and_what_is_left_of_the_money():
    launch = CLAUDE.launch(PLACE, Task("do it", "s-1", 3, 1.5))
    argv = " ".join(launch.argv)
    assert "--resume s-1" in argv
    assert "--max-budget-usd 1.5000" in argv
    assert "--model some-model" in argv
    assert "--tools Read,Edit --allowedTools mcp__fml__evaluate,Read,Edit" in argv
    server = json.loads(launch.files["mcp.json"])["mcpServers"]["fml"]
    assert [server["command"], *server["args"]] == PLACE.server()
    assert server["env"] == {"FML_SOCKET": PLACE.socket}
    assert server["timeout"] == 60_000


@pytest.mark.parametrize(("walled", "own"), [(True, "danger-full-access"), (False, "workspace")])
def test_codex_sandboxes_itself_only_where_we_do_not(walled, own):
    place = Place("/r", "/h", "/t", "/s", "/py", walled)
    words = CODEX.launch(place, Task("do it")).argv
    assert words[words.index("--sandbox") + 1].startswith(own)
    assert "resume" not in words
    assert CODEX.launch(place, Task("go on", "t-1")).argv[-3:] == ("resume", "t-1", "go on")


def test_a_command_gets_the_prompt_where_it_wants_it():
    assert COMMAND.launch(PLACE, Task("do it")).argv[-1] == "do it"
    plain = Command(("{python}", "x.py")).launch(PLACE, Task("do it", "s", 4))
    assert plain.argv == ("/py", "x.py", "do it")
    assert plain.env["FML_STEPS_LEFT"] == "4"


def test_tokens_of_a_whole_session_are_counted_once(tmp_path):
    """Codex tells in each launch what all of its session has used."""
    journal = Journal(tmp_path / "journal.jsonl")
    launches = Launches(journal, CODEX, tmp_path / "events")
    for used in (100, 250):
        launches.begin()
        launches.met(Told(session="t-1"))
        told_now = Told(session="t-1", usage=Usage(input=used))
        assert launches.total(told_now).usage == Usage(input=used)
        path = tmp_path / f"events/{launches.number:03d}.jsonl"
        path.parent.mkdir(exist_ok=True)
        thread = {"type": "thread.started", "thread_id": "t-1"}
        end = {"type": "turn.completed", "usage": {"input_tokens": used}}
        path.write_text(f"{json.dumps(thread)}\n{json.dumps(end)}\n")
        launches.settle()
    journal.close()
    notes = journal.state.notes
    assert notes["launch/001"]["usage"]["input"] == 150
    assert notes["spend"]["usage"]["input"] == 250
    assert notes["spend"]["cost"] is None
