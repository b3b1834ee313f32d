"""Model servers on loopback that speak as much of three providers' APIs as their CLIs need.

A script says what the model does, move by move; each request of the agent's own conversation gets
the next one. Requests beside it (titles, token counts) get an empty answer.
"""

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Json = dict[str, Any]


class Say(str):
    """The model says this and ends its turn."""


class Use:
    """The model calls a tool; `arguments` may depend on the request."""

    def __init__(self, tool: str, arguments: Json | Callable[[Json], Json]) -> None:
        self.tool, self.arguments = tool, arguments

    def filled(self, request: Json) -> Json:
        return self.arguments(request) if callable(self.arguments) else self.arguments


class Hang:
    """The model never answers."""


class Fail:
    """The provider answers with this status."""

    def __init__(self, status: int) -> None:
        self.status = status


Move = Say | Use | Hang | Fail


class Script:
    """Moves in order; the last one again and again."""

    def __init__(self, moves: Sequence[Move]) -> None:
        self.moves = list(moves)
        self.at = 0
        self.requests: list[Json] = []
        self._lock = threading.Lock()

    def next(self, request: Json) -> Move:
        with self._lock:
            self.requests.append(request)
            move = self.moves[min(self.at, len(self.moves) - 1)]
            self.at += 1
            return move


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    script: Script
    log: list[str]

    def log_message(self, *args: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self._json({})

    def do_GET(self) -> None:
        self.log.append(self.path)
        self._json({})

    def do_POST(self) -> None:
        self.log.append(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        request = json.loads(body or b"{}")
        if self.path.startswith("/v1/messages/count_tokens"):
            self._json({"input_tokens": 10})
        elif self.path.startswith("/v1/messages"):
            self._answer(request, anthropic, bool(request.get("tools")))
        elif self.path.endswith("/responses"):
            self._answer(request, openai, bool(request.get("tools")))
        elif "generateContent" in self.path or "streamGenerateContent" in self.path:
            self._answer(request, gemini, bool(request.get("tools")))
        else:
            self._json({})

    def _answer(self, request: Json, speak: Any, own: bool) -> None:
        move: Move = self.script.next(request) if own else Say("ok")
        if isinstance(move, Hang):
            time.sleep(600)
        elif isinstance(move, Fail):
            self._json({"type": "error", "error": {"message": "no", "type": "x"}}, move.status)
        elif speak is anthropic and not request.get("stream"):
            self._json(anthropic_message(request, move))
        else:
            self._stream(speak(request, move))

    def _stream(self, events: Iterator[Json]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for event in events:
            name = f"event: {event['type']}\n" if "type" in event else ""
            self.wfile.write(f"{name}data: {json.dumps(event)}\n\n".encode())
        self.wfile.flush()
        self.close_connection = True

    def _json(self, value: Json, status: int = 200) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def anthropic_message(request: Json, move: Say | Use) -> Json:
    usage = {"input_tokens": 100, "output_tokens": 20, "cache_read_input_tokens": 50}
    usage |= {"cache_creation_input_tokens": 0}
    block: Json = {"type": "text", "text": str(move)}
    if isinstance(move, Use):
        name = f"toolu_{time.time_ns()}"
        arguments = move.filled(request)
        block = {"type": "tool_use", "id": name, "name": move.tool, "input": arguments}
    return {
        "id": f"msg_{time.time_ns()}",
        "type": "message",
        "role": "assistant",
        "model": request.get("model", "fake"),
        "content": [block],
        "stop_reason": "tool_use" if isinstance(move, Use) else "end_turn",
        "stop_sequence": None,
        "usage": usage,
    }


def anthropic(request: Json, move: Say | Use) -> Iterator[Json]:
    """The messages API, streamed."""
    whole = anthropic_message(request, move)
    block = whole["content"][0]
    first = {**whole["usage"], "output_tokens": 1}
    start = {**whole, "content": [], "stop_reason": None, "usage": first}
    yield {"type": "message_start", "message": start}
    if block["type"] == "text":
        empty, delta = {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
    else:
        empty = {**block, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
    yield {"type": "content_block_start", "index": 0, "content_block": empty}
    yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    stop = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": stop, "usage": whole["usage"]}
    yield {"type": "message_stop"}


def openai(request: Json, move: Say | Use) -> Iterator[Json]:
    """The responses API, streamed."""
    number = f"resp_{time.time_ns()}"
    item: Json
    if isinstance(move, Use):
        arguments = move.filled(request)
        call = {"call_id": f"call_{time.time_ns()}", "id": f"fc_{time.time_ns()}"}
        namespace, _, name = move.tool.rpartition("/")
        where = {"namespace": namespace} if namespace else {}
        item = {"type": "function_call", "name": name, **where, **call}
        item |= {"arguments": json.dumps(arguments)}
        if "input" in arguments and name == "apply_patch":
            item = {"type": "custom_tool_call", "name": name, **call, "input": arguments["input"]}
    else:
        text = {"type": "output_text", "text": str(move), "annotations": []}
        item = {"type": "message", "role": "assistant", "id": "m", "content": [text]}
    usage = {
        "input_tokens": 150,
        "input_tokens_details": {"cached_tokens": 50},
        "output_tokens": 20,
        "output_tokens_details": {"reasoning_tokens": 5},
        "total_tokens": 170,
    }
    response = {"id": number, "object": "response", "status": "in_progress", "output": []}
    yield {"type": "response.created", "response": response}
    yield {"type": "response.output_item.added", "output_index": 0, "item": item}
    yield {"type": "response.output_item.done", "output_index": 0, "item": item}
    done = {**response, "status": "completed", "output": [item], "usage": usage}
    yield {"type": "response.completed", "response": done}


def gemini(request: Json, move: Say | Use) -> Iterator[Json]:
    """The generateContent API, streamed."""
    part: Json = {"text": str(move)}
    if isinstance(move, Use):
        part = {"functionCall": {"name": move.tool, "args": move.filled(request)}}
    yield {
        "candidates": [
            {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
        ],
        "usageMetadata": {
            "promptTokenCount": 150,
            "cachedContentTokenCount": 50,
            "candidatesTokenCount": 15,
            "thoughtsTokenCount": 5,
            "totalTokenCount": 170,
        },
        "modelVersion": "fake",
    }


class Models:
    """A running server."""

    def __init__(self, url: str, script: Script, log: list[str]) -> None:
        self.url, self.script, self.log = url, script, log


@contextmanager
def served(moves: Sequence[Move]) -> Iterator[Models]:
    """A server for the time of the block."""
    script, log = Script(moves), []
    handler = type("Handler", (_Handler,), {"script": script, "log": log})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield Models(f"http://127.0.0.1:{server.server_address[1]}", script, log)
    finally:
        server.shutdown()
        server.server_close()
