"""Claude Code (npm package @anthropic-ai/claude-code, tried with 2.1) as an agent.

It gets tools to read and edit files, no shell: its shell stops after ten minutes, and nothing is to
be evaluated there. Evaluations are calls of our MCP tool.
"""

import json
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, PositiveInt
from pydantic.dataclasses import dataclass

from fml_hydra.external.install import folders_of, installed, started
from fml_hydra.external.programs import (
    Event,
    Launch,
    Place,
    Task,
    Told,
    number,
    section,
    tokens,
    words,
)
from fml_hydra.knobs import STRICT
from fml_hydra.sandbox import Mount
from fml_hydra.usage import Usage

_TOOL = "mcp__fml__evaluate"
_REFUSED = (401, 403)
"""Statuses it would ask again for ten times."""
_PROVIDER = "success"
"""The odd subtype of a result that is an error of the provider's, such as a refused key."""


@dataclass(frozen=True, config=STRICT)
class ClaudeCode:
    """How Claude Code is started and understood."""

    path: Annotated[str, AfterValidator(installed("npm install -g @anthropic-ai/claude-code"))]
    """Command or path."""
    model: str | None
    """Passed as --model; null: its default."""
    tools: tuple[str, ...]
    """Its own tools that it may use."""
    max_turns: PositiveInt
    """Model calls per launch."""
    tool_seconds: PositiveInt
    """How long it waits for an evaluation."""
    asks: ClassVar[Literal["mcp", "command"]] = "mcp"
    """Through MCP."""
    priced: ClassVar[bool] = True
    """It tells its cost at the end of a launch, and keeps a limit itself."""
    cumulative: ClassVar[bool] = False
    """Its tokens are those of one launch."""
    resumable: ClassVar[bool] = True
    """It keeps its conversations."""

    def mounts(self) -> list[Mount]:
        """Its installation."""
        return folders_of(self.path)

    def launch(self, place: Place, task: Task) -> Launch:
        """One conversation in print mode."""
        command, *arguments = place.server()
        milliseconds = self.tool_seconds * 1000
        server = {
            "command": command,
            "args": arguments,
            "env": {"FML_SOCKET": place.socket},
            "timeout": milliseconds,
        }
        argv = [*started(self.path), "-p", task.prompt]
        argv += ["--output-format", "stream-json", "--verbose", "--include-partial-messages"]
        argv += ["--mcp-config", f"{place.tools}/mcp.json", "--strict-mcp-config"]
        argv += ["--setting-sources", "", "--tools", ",".join(self.tools)]
        argv += ["--allowedTools", ",".join([_TOOL, *self.tools])]
        argv += ["--max-turns", str(self.max_turns)]
        argv += ["--model", self.model] if self.model else []
        argv += ["--resume", task.session] if task.session else []
        if task.dollars_left is not None:
            argv += ["--max-budget-usd", f"{task.dollars_left:.4f}"]
        env = {
            "MCP_CONNECTION_NONBLOCKING": "0",
            "MCP_TIMEOUT": "60000",
            "MCP_TOOL_TIMEOUT": str(milliseconds),
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
        }
        return Launch(tuple(argv), env, {"mcp.json": json.dumps({"mcpServers": {"fml": server}})})

    def read(self, event: Event, told: Told) -> None:
        """Tokens per message while it works, tokens and dollars of the whole at its end."""
        kind = event.get("type")
        told.session = words(event.get("session_id")) or told.session
        if kind == "system" and event.get("subtype") == "init":
            told.connected = _connected(event.get("mcp_servers"))
        elif kind == "system" and event.get("error_status") in _REFUSED:
            told.refused = f"{event.get('error_status')} {words(event.get('error'))}"
        elif kind == "stream_event":
            _message(section(event.get("event")), told)
        elif kind == "assistant":
            told.said += _texts(section(event.get("message")).get("content"))
        elif kind == "result":
            _result(event, told)


def _connected(servers: object) -> bool:
    listed = [section(s) for s in servers] if isinstance(servers, list) else []
    return any(s.get("name") == "fml" and s.get("status") == "connected" for s in listed)


def _message(event: Event, told: Told) -> None:
    """A message's tokens are guessed when it starts and known when it ends."""
    message = section(event.get("message"))
    if event.get("type") == "message_start":
        told.parts[str(message.get("id"))] = _usage(section(message.get("usage")))
    elif event.get("type") == "message_delta" and told.parts:
        newest = next(reversed(told.parts))
        usage = _usage(section(event.get("usage")))
        told.parts[newest] = Usage(
            usage.input or told.parts[newest].input,
            usage.cached or told.parts[newest].cached,
            usage.output,
        )
    told.usage = sum(told.parts.values(), Usage())


def _usage(usage: Event) -> Usage:
    cached = tokens(usage.get("cache_read_input_tokens"))
    written = tokens(usage.get("cache_creation_input_tokens"))
    fresh = tokens(usage.get("input_tokens"))
    return Usage(fresh + cached + written, cached, tokens(usage.get("output_tokens")))


def _texts(content: object) -> list[str]:
    blocks = [section(b) for b in content] if isinstance(content, list) else []
    return [str(b.get("text")) for b in blocks if b.get("type") == "text"]


def _result(event: Event, told: Told) -> None:
    models = [section(m) for m in section(event.get("modelUsage")).values()]
    if models:  # side calls to smaller models included
        told.usage = sum((_of_model(m) for m in models), Usage())
    if event.get("total_cost_usd") is not None:
        told.cost = number(event["total_cost_usd"])
    if event.get("is_error") and event.get("subtype") == _PROVIDER:
        told.error = words(event.get("result")) or "an error of the provider"


def _of_model(model: Event) -> Usage:
    names = ("inputTokens", "cacheReadInputTokens", "cacheCreationInputTokens", "outputTokens")
    fresh, cached, written, output = (tokens(model.get(name)) for name in names)
    return Usage(fresh + cached + written, cached, output)
