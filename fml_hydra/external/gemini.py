"""Gemini CLI (npm package @google/gemini-cli, tried with 0.61) as an agent.

It evaluates with the command `fml-eval`, since its MCP is not reliable in headless mode. It tells
its tokens at the end of a launch only, and no cost.
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
class Gemini:
    """How Gemini CLI is started and understood."""

    path: Annotated[str, AfterValidator(installed("npm install -g @google/gemini-cli"))]
    """Command or path."""
    model: str | None
    """Passed as --model; null: its default."""
    disable: tuple[str, ...]
    """Its tools that are switched off."""
    tool_seconds: PositiveInt
    """How long its shell waits for an evaluation."""
    asks: ClassVar[Literal["mcp", "command"]] = "command"
    """By `fml-eval`."""
    priced: ClassVar[bool] = False
    """It tells no cost."""
    cumulative: ClassVar[bool] = False
    """Its tokens are those of one launch."""
    resumable: ClassVar[bool] = True
    """It keeps its conversations; the newest one is its own."""

    def mounts(self) -> list[Mount]:
        """Its installation."""
        return folders_of(self.path)

    def launch(self, place: Place, task: Task) -> Launch:
        """One conversation in headless mode."""
        settings = {
            "security": {"auth": {"selectedType": "gemini-api-key"}},
            "general": {"disableAutoUpdate": True},
            "privacy": {"usageStatisticsEnabled": False},
            "tools": {
                "exclude": list(self.disable),
                "shell": {"inactivityTimeout": self.tool_seconds},
            },
        }
        argv = [*started(self.path), "--output-format", "stream-json", "--skip-trust"]
        argv += ["--approval-mode", "yolo"]
        argv += ["--model", self.model] if self.model else []
        argv += ["--resume", "latest"] if task.session else []
        env = {
            "GEMINI_CLI_SYSTEM_SETTINGS_PATH": f"{place.tools}/settings.json",
            "GEMINI_CLI_NO_RELAUNCH": "true",
        }
        return Launch(
            (*argv, "--prompt", task.prompt), env, {"settings.json": json.dumps(settings)}
        )

    def read(self, event: Event, told: Told) -> None:
        """Tokens at the end."""
        kind = event.get("type")
        if kind == "init":
            told.session = words(event.get("session_id"))
        elif kind == "message" and event.get("role") == "assistant":
            told.said.append(str(event.get("content", "")))
        elif kind == "result":
            told.usage = _usage(section(event.get("stats")))
            if event.get("status") == "error":
                told.error = words(section(event.get("error")).get("message")) or "it failed"


def _usage(stats: Event) -> Usage:
    """Its `output_tokens` leave the thinking out, its total does not."""
    names = ("input_tokens", "cached", "output_tokens", "total_tokens")
    asked, cached, answered, total = (tokens(stats.get(name)) for name in names)
    thought = max(0, total - asked - answered)
    return Usage(asked, cached, answered + thought, thought)
