"""A key in the environment, really sent to a provider that echoes it, is written nowhere."""

import base64
import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from fml_hydra.config import load_experiment
from fml_hydra.errors import ConfigError
from fml_hydra.jsonl import read_records
from fml_hydra.overrides import compose_config

pytest.importorskip("pydantic_ai")
KEY = "sk-proj-PlantedKey0123456789abcdefABCDEF"
LEAK = """I look around first.

<<<<<<< SEARCH
STEPS = 20
=======
STEPS = 21
import os, sys
print(dict(os.environ))
print([open(f"/proc/{p}/environ").read() for p in os.listdir("/proc") if p.isdigit()])
>>>>>>> REPLACE
"""


class Echo(BaseHTTPRequestHandler):
    """An OpenAI-compatible server that repeats the key it was sent, in errors and in answers."""

    keys: list[str]
    refuses: bool

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.keys.append(self.headers["authorization"])
        if self.refuses or len(self.keys) == 1:
            told = f"Incorrect API key provided: {self.headers['authorization']} ({KEY})"
            self.send(401 if self.refuses else 503, {"error": {"message": told, "code": KEY}})
            return
        message = {"role": "assistant", "content": LEAK}
        answer = {"id": "x", "object": "chat.completion", "created": 1, "model": "small"}
        answer["choices"] = [{"index": 0, "message": message, "finish_reason": "stop"}]
        answer["usage"] = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        self.send(200, answer)

    def send(self, status: int, data: object) -> None:
        body = json.dumps(data).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None: ...


@pytest.fixture
def provider() -> Iterator[tuple[type[Echo], list[str]]]:
    """A provider, and the words that lead to it."""
    handler = type("Bound", (Echo,), {"keys": [], "refuses": False})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    words = ["llm=openai_compatible", "llm.model=small", "llm.key=OPENAI_API_KEY"]
    words += [f"llm.base_url=http://127.0.0.1:{server.server_port}/v1", "budget.steps=1"]
    yield handler, words
    server.shutdown()
    server.server_close()


def secrets() -> list[bytes]:
    """The key, its heart, and how a header for basic authorization would spell it."""
    plain = [KEY.encode(), KEY[8:20].encode()]
    return [*plain, *(base64.b64encode(text) for text in (plain[0], b":" + plain[0]))]


def where_it_is(folder: Path) -> list[str]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    found = [str(p) for p in files if any(s in p.read_bytes() for s in secrets())]
    return found + [str(p) for p in folder.rglob("*") if KEY[8:20] in p.name]


def test_a_run_with_a_key(provider, tracked, root, look, monkeypatch, capfd, caplog):
    """Files, journal, MLflow's database with its params, tags and spans, logs, the terminal."""
    handler, model = provider
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with caplog.at_level(logging.DEBUG):
        run = tracked(*model)
        run.run()
    assert run.problem == ""
    assert set(handler.keys) == {f"Bearer {KEY}"}, "the key was really used"
    assert len(handler.keys) > 1, "after an error that repeats it"
    said = "".join([*capfd.readouterr(), caplog.text]).encode()
    assert not any(secret in said for secret in secrets())
    assert where_it_is(root.parent) == []
    seen = look()
    (step,) = seen.steps()
    assert "PATH" in seen.text(step, "stdout.txt"), "the candidate did look around"
    (shown,) = seen.client.search_traces(locations=[seen.store.experiment_id])
    assert "STEPS = 21" in str(shown.data.spans[1].outputs)


def test_a_refused_key(provider, words, root):
    """The whole command, with the status file of its run and the table at the end."""
    handler, model = provider
    handler.refuses = True
    done = subprocess.run(
        [sys.executable, "-m", "fml_hydra", *words("tracking=none", *model)],
        cwd=root.parent,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env=os.environ | {"OPENAI_API_KEY": KEY},
    )
    assert set(handler.keys) == {f"Bearer {KEY}"}
    assert done.returncode == 1
    assert "authentication" in done.stdout
    assert not any(secret in (done.stdout + done.stderr).encode() for secret in secrets())
    assert where_it_is(root.parent) == []
    (folder,) = (root / "runs").iterdir()
    (pause,) = [e for e in read_records(folder / "journal.jsonl")[0] if e["e"] == "pause"]
    assert pause["reason"] == "infra"


def test_a_planted_key_would_be_found(tmp_path):
    assert where_it_is(tmp_path) == []
    (tmp_path / "a.txt").write_text(f"x{KEY}y")
    (tmp_path / f"b{KEY}").touch()
    assert len(where_it_is(tmp_path)) == 2


def test_a_key_in_the_configuration_is_refused_without_repeating_it(words):
    given = ["llm=openai_compatible", "llm.model=small", "llm.base_url=http://127.0.0.1:1/v1"]
    given.append(f"llm.key={KEY}")
    with pytest.raises(ConfigError) as caught:
        load_experiment(compose_config(words(*given)))
    assert KEY not in str(caught.value)
