"""The client inside the sandbox: the MCP server and the command, against a real endpoint."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from fml_hydra.external import client
from fml_hydra.external.endpoint import CALLERS, Call, Endpoint

CLIENT = [sys.executable, "-I", str(Path(client.__file__))]
Answerer = Callable[[Call], dict[str, Any]]


@contextmanager
def answering(answer: Answerer) -> Iterator[dict[str, str]]:
    """An endpoint whose calls are answered one after the other; the client's environment."""
    endpoint = Endpoint()
    over = threading.Event()

    def serve() -> None:
        while not over.is_set():
            if call := endpoint.next(0.02):
                call.answer(answer(call))

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield {"FML_SOCKET": str(endpoint.address), "PATH": os.defpath}
    finally:
        over.set()
        thread.join()
        endpoint.close()


def echo(call: Call) -> dict[str, Any]:
    return {"status": "ok", "did": call.do, "note": call.note}


class Mcp:
    """A client of the MCP server."""

    def __init__(self, env: dict[str, str]) -> None:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen([*CLIENT, "--mcp"], env=env, **pipes)

    def __enter__(self) -> "Mcp":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.stdin.close()
        assert self.process.wait(10) == 0
        self.process.stdout.close()

    def write(self, *lines: str) -> None:
        self.process.stdin.write("".join(f"{line}\n" for line in lines))
        self.process.stdin.flush()

    def send(self, method: str, number: Any = None, **params: Any) -> None:
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        self.write(json.dumps(message if number is None else {**message, "id": number}))

    def answer(self) -> dict[str, Any]:
        return json.loads(self.process.stdout.readline())


def test_a_whole_conversation():
    with answering(echo) as env, Mcp(env) as mcp:
        mcp.send("initialize", 0, protocolVersion="2024-11-05", capabilities={})
        hello = mcp.answer()
        assert hello["id"] == 0
        assert hello["result"]["protocolVersion"] == "2024-11-05"
        assert "tools" in hello["result"]["capabilities"]
        mcp.send("notifications/initialized")  # no answer: the next one is to the list
        mcp.send("tools/list", "a")
        listed = mcp.answer()
        assert listed["id"] == "a"
        assert [tool["name"] for tool in listed["result"]["tools"]] == ["evaluate"]
        mcp.send("tools/call", 2, name="evaluate", arguments={"note": "née"})
        called = mcp.answer()["result"]
        assert called["isError"] is False
        said = json.loads(called["content"][0]["text"])
        assert said == {"status": "ok", "did": "evaluate", "note": "née"}


def test_an_unknown_protocol_is_answered_with_the_newest_known():
    with Mcp({}) as mcp:
        mcp.send("initialize", 1, protocolVersion="3000-01-01")
        assert mcp.answer()["result"]["protocolVersion"] == client.VERSIONS[0]


def test_a_ping_is_answered_while_an_evaluation_runs():
    def slow(call: Call) -> dict[str, Any]:
        time.sleep(0.5)
        return echo(call)

    with answering(slow) as env, Mcp(env) as mcp:
        mcp.send("tools/call", 1, name="evaluate", arguments={})
        mcp.send("ping", 2)
        assert [mcp.answer()["id"], mcp.answer()["id"]] == [2, 1]


def test_nonsense_is_refused_and_the_server_goes_on():
    with Mcp({}) as mcp:
        mcp.write("not json", "[]", "7", "", json.dumps({"id": 1, "result": {}}))
        assert [mcp.answer()["error"]["code"] for _ in range(3)] == [-32700, -32600, -32600]
        mcp.send("resources/list", 4)
        assert mcp.answer()["error"]["code"] == -32601
        mcp.send("tools/call", 5, name="rm")
        assert mcp.answer()["error"]["code"] == -32602
        mcp.send("ping", 6)
        assert mcp.answer() == {"jsonrpc": "2.0", "id": 6, "result": {}}


def test_an_endpoint_that_is_gone_is_an_error_of_the_tool_not_of_the_protocol():
    with Mcp({"FML_SOCKET": "/nowhere"}) as mcp:
        mcp.send("tools/call", 1, name="evaluate", arguments={"note": ""})
        result = mcp.answer()["result"]
    assert result["isError"] is True
    assert "no answer from the endpoint" in result["content"][0]["text"]


def run(env: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*CLIENT, *words], env=env, capture_output=True, text=True, timeout=60)


def test_the_command_prints_the_answer_and_tells_the_budget_by_its_exit_code():
    def answer(call: Call) -> dict[str, Any]:
        return echo(call) | ({"status": "budget_exhausted"} if call.note == "over" else {})

    with answering(answer) as env:
        done = run(env, "two", "words")
        assert json.loads(done.stdout)["note"] == "two words"
        assert done.returncode == 0
        assert json.loads(run(env, "--status").stdout)["did"] == "status"
        assert run(env, "over").returncode == client.EXHAUSTED
    gone = run(env, "x")
    assert gone.returncode == 1
    assert "no answer" in gone.stderr
    assert run({}, "x").returncode == 1
    assert "fml-eval" in run({}, "--help").stdout


def test_the_client_needs_nothing_but_old_python(tmp_path):
    """A copy under another name, and none of this package on its path."""
    copy = tmp_path / "c.py"
    copy.write_text(Path(client.__file__).read_text())
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(copy), "--help"], capture_output=True, cwd=tmp_path
    )
    assert done.returncode == 0
    compile(copy.read_text(), "client.py", "exec", dont_inherit=True)


def raw(address: str, data: bytes) -> bytes:
    import socket

    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(20)
        connection.connect(address)
        connection.sendall(data)
        return connection.makefile("rb").readline()


@pytest.mark.parametrize("line", [b"\n", b"{\n", b"[1]\n", b'{"do": "rm"}\n', b"\xff\n"])
def test_a_malformed_request_is_told_so(line):
    with answering(echo) as env:
        assert "not a request" in json.loads(raw(env["FML_SOCKET"], line))["error"]
        assert json.loads(raw(env["FML_SOCKET"], b'{"do": "status"}\n'))["status"] == "ok"


def test_a_caller_that_has_gone_is_not_served():
    import socket

    endpoint = Endpoint()
    try:
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(str(endpoint.address))
        connection.sendall(b'{"do": "evaluate"}\n')
        while endpoint._calls.empty():
            time.sleep(0.01)
        connection.close()
        assert endpoint.next(0.5) is None
    finally:
        endpoint.close()


def test_closing_turns_away_whoever_waits_and_leaves_nothing_behind():
    endpoint = Endpoint()
    got: list[bytes] = []
    ask = threading.Thread(
        target=lambda: got.append(raw(str(endpoint.address), b'{"do": "evaluate"}\n'))
    )
    ask.start()
    while endpoint._calls.empty():
        time.sleep(0.01)
    endpoint.close()
    ask.join(20)
    assert json.loads(got[0]) == {"error": "the run is over"}
    assert not endpoint.folder.exists()


def test_a_flood_of_callers_costs_no_more_than_a_few_threads():
    import socket

    endpoint = Endpoint()
    before = threading.active_count()
    connections = [socket.socket(socket.AF_UNIX) for _ in range(3 * CALLERS)]
    try:
        for connection in connections:
            connection.setblocking(False)
            with suppress(BlockingIOError):  # nobody takes it, which is as good
                connection.connect(str(endpoint.address))
        time.sleep(0.3)
        assert threading.active_count() - before <= CALLERS
    finally:
        for connection in connections:
            connection.close()
        endpoint.close()


def test_a_long_temporary_folder_does_not_break_the_socket(tmp_path, monkeypatch):
    import tempfile

    deep = tmp_path / ("x" * 120)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    endpoint = Endpoint()
    endpoint.close()
    assert not endpoint.folder.is_relative_to(deep)
    assert not list(deep.iterdir())
