"""Codex (npm package @openai/codex, tried with 0.171) as an agent.

It tells its tokens at the end of a turn only, and no cost: what it spends is known per launch, not
per step. Behind our walls its own sandbox is off, which cannot be set up inside another one.
"""

import json
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, PositiveInt
from pydantic.dataclasses import dataclass

from fml_hydra.external.install import folders_of, installed, started
from fml_hydra.external.programs import Event, Launch, Place, Task, Told, section, tokens, words
from fml_hydra.knobs import STRICT
from fml_hydra.sandbox import Mount
from fml_hydra.usage import Usage


@dataclass(frozen=True, config=STRICT)
class Codex:
    """How Codex is started and understood."""

    path: Annotated[str, AfterValidator(installed("npm install -g @openai/codex"))]
    """Command or path."""
    model: str | None
    """Passed as --model; null: its default."""
    base_url: str
    """Where a model is asked, by OpenAI's responses API."""
    key: str
    """Environment variable with the key; it has to be passed on by `pass_env`."""
    disable: tuple[str, ...]
    """Its features that are switched off."""
    tool_seconds: PositiveInt
    """How long it waits for an evaluation."""
    asks: ClassVar[Literal["mcp", "command"]] = "mcp"
    """Through MCP."""
    priced: ClassVar[bool] = False
    """It tells no cost."""
    cumulative: ClassVar[bool] = True
    """Its tokens are those of the whole session."""
    resumable: ClassVar[bool] = True
    """It keeps its conversations."""

    def mounts(self) -> list[Mount]:
        """Its installation."""
        return folders_of(self.path)

    def launch(self, place: Place, task: Task) -> Launch:
        """One turn of `codex exec`."""
        command, *arguments = place.server()
        server = {
            "command": command,
            "args": arguments,
            "env": {"FML_SOCKET": place.socket},
            "startup_timeout_sec": 60,
            "tool_timeout_sec": self.tool_seconds,
            "required": True,
            "default_tools_approval_mode": "approve",
        }
        provider = {
            "name": "fml",
            "base_url": self.base_url,
            "env_key": self.key,
            "wire_api": "responses",
        }
        settings = {
            "mcp_servers.fml": server,
            "model_providers.fml": provider,
            "model_provider": "fml",
            "web_search": "disabled",
        }
        argv = [*started(self.path), "exec", "--json", "--skip-git-repo-check"]
        argv += ["--ignore-user-config", "--sandbox"]
        argv += ["danger-full-access" if place.walled else "workspace-write"]
        for name, value in settings.items():
            argv += ["-c", f"{name}={_toml(value)}"]
        for feature in self.disable:
            argv += ["--disable", feature]
        argv += ["--model", self.model] if self.model else []
        argv += ["resume", task.session] if task.session else []
        return Launch((*argv, task.prompt))

    def read(self, event: Event, told: Told) -> None:
        """Tokens at the end of a turn."""
        kind, item = event.get("type"), section(event.get("item"))
        if kind == "thread.started":
            told.session = words(event.get("thread_id"))
        elif kind == "turn.completed":
            told.usage = _usage(section(event.get("usage")))
        elif kind == "turn.failed":
            told.error = words(section(event.get("error")).get("message")) or "the turn failed"
        elif kind == "item.completed" and item.get("type") in ("agent_message", "reasoning"):
            told.said.append(str(item.get("text", "")))


def _usage(usage: Event) -> Usage:
    names = ("input_tokens", "cached_input_tokens", "output_tokens", "reasoning_output_tokens")
    return Usage(*(tokens(usage.get(name)) for name in names))


def _toml(value: object) -> str:
    """A TOML value; JSON's strings, numbers and lists are TOML's."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_toml(inner)}" for key, inner in value.items()) + "}"
    return json.dumps(value)
