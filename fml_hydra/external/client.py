"""What runs inside an agent's sandbox: the command `fml-eval`, and a stdio MCP server.

    fml-eval [NOTE]      evaluate the working copy; costs one step; prints one JSON object
    fml-eval --status    steps left and the best so far; free
    fml-eval --mcp       serve the tool `evaluate(note)` to a Model Context Protocol client

Exit codes: 0 answered, 1 the endpoint cannot be reached or refused, 3 the budget is exhausted.
Nothing is evaluated in here: requests go to the unix socket named by FML_SOCKET. Standard library
only and nothing of this package, so that a copy of this one file works under any Python 3.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
from typing import IO, Any

VERSIONS = ("2025-06-18", "2025-03-26", "2024-11-05")
"""Protocol revisions whose parts used here are the same, newest first."""
TOOL = {
    "name": "evaluate",
    "description": (
        "Evaluate the files of the working copy as they are now. Costs one step of the budget. "
        "Returns JSON: status, metric, best, steps_left, feedback."
    ),
    "inputSchema": {
        "type": "object",
        "properties": {
            "note": {"type": "string", "description": "What was changed and why, in a sentence."}
        },
        "required": ["note"],
    },
}
EXHAUSTED = 3


class Unreachable(Exception):
    """The endpoint is not there (any more)."""


def ask(request: dict[str, Any]) -> dict[str, Any]:
    """One request to the endpoint, one answer; waits as long as an evaluation takes."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            connection.connect(os.environ["FML_SOCKET"])
            connection.sendall(json.dumps(request).encode() + b"\n")
            with connection.makefile("rb") as answers:
                answer: dict[str, Any] = json.loads(answers.readline().decode())
                return answer
        except KeyError as error:
            raise Unreachable("FML_SOCKET is not set") from error
        except (OSError, ValueError) as error:
            raise Unreachable(f"no answer from the endpoint: {error}") from error


def command(words: list[str]) -> int:
    """The command line; returns the exit code."""
    request = {"do": "evaluate", "note": " ".join(words)}
    if words == ["--status"]:
        request = {"do": "status"}
    elif words in (["--help"], ["-h"]):
        sys.stdout.write(__doc__ or "")
        return 0
    try:
        answer = ask(request)
    except Unreachable as error:
        sys.stderr.write(f"fml-eval: {error}\n")
        return 1
    sys.stdout.write(json.dumps(answer, indent=2) + "\n")
    if answer.get("status") == "budget_exhausted":
        return EXHAUSTED
    return 1 if "error" in answer else 0


class Server:
    """JSON-RPC over stdin and stdout; a call runs in a thread, so that a ping is answered."""

    def __init__(self, out: IO[str]) -> None:
        self._out = out
        self._lock = threading.Lock()

    def serve(self, lines: IO[str]) -> None:
        """Answer until the client closes stdin."""
        for line in lines:
            if line.strip():
                self._take(line)

    def _take(self, line: str) -> None:
        try:
            message = json.loads(line)
        except ValueError:
            self._fail(None, -32700, "not JSON")
            return
        if not isinstance(message, dict) or not isinstance(message.get("method"), str):
            if not (isinstance(message, dict) and ("result" in message or "error" in message)):
                self._fail(None, -32600, "not a request")
            return
        if "id" not in message:  # a notification
            return
        params = message.get("params")
        self._answer(message["id"], message["method"], params if isinstance(params, dict) else {})

    def _answer(self, number: Any, method: str, params: dict[str, Any]) -> None:
        if method == "initialize":
            self._send(number, self._hello(params))
        elif method == "ping":
            self._send(number, {})
        elif method == "tools/list":
            self._send(number, {"tools": [TOOL]})
        elif method != "tools/call":
            self._fail(number, -32601, f"unknown method {method}")
        elif params.get("name") != TOOL["name"]:
            self._fail(number, -32602, f"unknown tool {params.get('name')!r}")
        else:
            threading.Thread(target=self._call, args=(number, params), daemon=True).start()

    def _hello(self, params: dict[str, Any]) -> dict[str, Any]:
        wanted = params.get("protocolVersion")
        return {
            "protocolVersion": wanted if wanted in VERSIONS else VERSIONS[0],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "fml", "version": "1"},
        }

    def _call(self, number: Any, params: dict[str, Any]) -> None:
        arguments = params.get("arguments")
        note = arguments.get("note", "") if isinstance(arguments, dict) else ""
        try:
            answer = ask({"do": "evaluate", "note": str(note)})
        except Unreachable as error:
            answer = {"error": str(error)}
        content = [{"type": "text", "text": json.dumps(answer)}]
        self._send(number, {"content": content, "isError": "error" in answer})

    def _send(self, number: Any, result: dict[str, Any]) -> None:
        self._write({"jsonrpc": "2.0", "id": number, "result": result})

    def _fail(self, number: Any, code: int, message: str) -> None:
        error = {"code": code, "message": message}
        self._write({"jsonrpc": "2.0", "id": number, "error": error})

    def _write(self, message: dict[str, Any]) -> None:
        with self._lock:
            self._out.write(json.dumps(message) + "\n")
            self._out.flush()


def main(words: list[str]) -> int:
    """The command's entry; returns the exit code."""
    if words == ["--mcp"]:
        Server(sys.stdout).serve(sys.stdin)
        return 0
    return command(words)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
