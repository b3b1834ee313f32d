"""A server on loopback that speaks the providers' APIs, well, or badly in every way they do.

`script` says how the next requests are answered, one entry each; after that all is well.
"""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Act = Callable[["Handler"], None]


@dataclass
class FakeApi:
    """What the server is to do, and what it was asked."""

    url: str = ""
    text: str | Callable[[dict[str, Any]], str] = "hello"
    script: list[Act] = field(default_factory=list)
    finish: str = "stop"
    usage: bool = True
    pause: float = 0.0
    seen: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    api: FakeApi

    def log_message(self, *args: object) -> None:
        pass

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        with self.api.lock:
            self.api.seen.append(body)
            self.api.headers.append({k.lower(): v for k, v in self.headers.items()})
            self.api.times.append(time.monotonic())
            act = self.api.script.pop(0) if self.api.script else well
        act(self)

    def answer(self) -> dict[str, Any]:
        """A good answer in the API that was asked."""
        api, asked = self.api, self.api.seen[-1]
        text = api.text(asked) if callable(api.text) else api.text
        path = self.path.partition("?")[0]
        form = next(make for end, make in FORMS.items() if end in path)
        return form(text, api.finish, api.usage, asked)

    def send(self, status: int, data: Any, kind: str = "application/json", **headers: str) -> None:
        raw = data if isinstance(data, bytes) else json.dumps(data).encode()
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(raw)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(raw)

    def hang_up(self) -> None:
        self.close_connection = True
        self.connection.shutdown(2)


def _chat(text: str, finish: str, usage: bool, asked: dict[str, Any]) -> dict[str, Any]:
    told = {"prompt_tokens": 1000, "completion_tokens": 200, "total_tokens": 1200}
    told |= {"prompt_tokens_details": {"cached_tokens": 600}}
    told |= {"completion_tokens_details": {"reasoning_tokens": 150}}
    message = {"role": "assistant", "content": text}
    answer = {"id": "x", "object": "chat.completion", "created": 1, "model": asked["model"]}
    answer["choices"] = [{"index": 0, "message": message, "finish_reason": finish}]
    return answer | ({"usage": told} if usage else {})


def _responses(text: str, finish: str, usage: bool, asked: dict[str, Any]) -> dict[str, Any]:
    told = {"input_tokens": 1000, "output_tokens": 200, "total_tokens": 1200}
    told |= {"input_tokens_details": {"cached_tokens": 600}}
    told |= {"output_tokens_details": {"reasoning_tokens": 150}}
    part = {"type": "output_text", "text": text, "annotations": []}
    message = {"type": "message", "id": "m", "role": "assistant", "status": "completed"}
    answer: dict[str, Any] = {"id": "r", "object": "response", "created_at": 1, "error": None}
    answer |= {"model": asked["model"], "output": [message | {"content": [part]}], "tools": []}
    answer |= {"parallel_tool_calls": True, "tool_choice": "auto", "metadata": {}}
    reason = {"length": "max_output_tokens", "content_filter": "content_filter"}.get(finish)
    answer["status"] = "incomplete" if reason else "completed"
    answer["incomplete_details"] = {"reason": reason} if reason else None
    return answer | ({"usage": told} if usage else {})


def _messages(text: str, finish: str, usage: bool, asked: dict[str, Any]) -> dict[str, Any]:
    told = {"input_tokens": 300, "cache_read_input_tokens": 600, "output_tokens": 200}
    told |= {"cache_creation_input_tokens": 100}
    answer = {"id": "m", "type": "message", "role": "assistant", "model": asked["model"]}
    answer["content"] = [{"type": "text", "text": text}]
    stops = {"stop": "end_turn", "length": "max_tokens", "content_filter": "refusal"}
    return answer | {"stop_reason": stops[finish], "stop_sequence": None, "usage": told}


def _gemini(text: str, finish: str, usage: bool, asked: dict[str, Any]) -> dict[str, Any]:
    told = {"promptTokenCount": 1000, "candidatesTokenCount": 50, "totalTokenCount": 1200}
    told |= {"cachedContentTokenCount": 600, "thoughtsTokenCount": 150}
    stops = {"stop": "STOP", "length": "MAX_TOKENS", "content_filter": "SAFETY"}
    content = {"role": "model", "parts": [{"text": text}]}
    candidate = {"index": 0, "content": content, "finishReason": stops[finish]}
    answer = {"candidates": [candidate], "modelVersion": "gemini-2.5-pro"}
    return answer | ({"usageMetadata": told} if usage else {})


FORMS = {
    "/chat/completions": _chat,
    "/responses": _responses,
    "/messages": _messages,
    ":generateContent": _gemini,
}


# --- how a request is answered


def well(handler: Handler) -> None:
    time.sleep(handler.api.pause)
    handler.send(200, handler.answer())


def error(status: int, message: str = "no", **more: str) -> Act:
    """An error as OpenAI writes it; `more` are fields of it, or headers with a capital letter."""
    headers = {k: v for k, v in more.items() if k[0].isupper()}
    told = {"message": message, "type": "t", **{k: v for k, v in more.items() if k not in headers}}
    return lambda handler: handler.send(status, {"error": told}, **headers)


def raw(status: int, data: bytes, kind: str = "application/json") -> Act:
    return lambda handler: handler.send(status, data, kind)


def cut(handler: Handler) -> None:
    """The connection is closed in the middle of the answer."""
    data = json.dumps(handler.answer()).encode()
    handler.send_response(200)
    handler.send_header("content-type", "application/json")
    handler.send_header("content-length", str(len(data)))
    handler.end_headers()
    handler.wfile.write(data[: len(data) // 2])
    handler.wfile.flush()
    handler.hang_up()


def close(handler: Handler) -> None:
    """The connection is closed without an answer."""
    handler.hang_up()


def stall(seconds: float) -> Act:
    """Nothing comes, for a while."""

    def act(handler: Handler) -> None:
        time.sleep(seconds)
        handler.hang_up()

    return act


def trickle(seconds: float) -> Act:
    """A byte now and then, so that no single read takes long."""

    def act(handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header("content-type", "application/json")
        handler.send_header("content-length", "100000")
        handler.end_headers()
        until = time.monotonic() + seconds
        try:
            while time.monotonic() < until:
                handler.wfile.write(b" ")
                handler.wfile.flush()
                time.sleep(0.05)
        except OSError:
            return  # the client hung up, as it should
        handler.hang_up()

    return act


def with_usage_only(handler: Handler) -> None:
    """A bill without an answer."""
    handler.send(200, handler.answer() | {"choices": []})


@contextmanager
def serving(**knobs: Any) -> Iterator[FakeApi]:
    """A server of one's own."""
    api = FakeApi(**knobs)
    handler = type("Bound", (Handler,), {"api": api})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    api.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield api
    finally:
        server.shutdown()
        server.server_close()
