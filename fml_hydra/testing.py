"""For authors of agents: a toy task and a scripted LLM to try them with.

Nothing here is used by a run.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fml_hydra.llm.base import Reply, Request
from fml_hydra.skeleton import write_skeleton
from fml_hydra.usage import Usage


def write_toy_task(folder: Path) -> Path:
    """Write a task whose evaluation takes a tenth of a second: `conf/task/toy.yaml`, `tasks/toy/`.

    Run it with `--config-dir FOLDER/conf tasks_dir=FOLDER/tasks task=toy`.
    """
    write_skeleton(folder, "toy")
    return folder


@dataclass(frozen=True)
class ScriptedLLM:
    """Answers by a function of the request; counts words as tokens."""

    answer: Callable[[Request], str]
    """From request to text."""
    name: str = "scripted"
    """Name in tables and tags."""

    def complete(self, request: Request) -> Reply:
        """Answer `request`."""
        text = self.answer(request)
        asked = sum(len(m.content.split()) for m in request.messages)
        return Reply(text, Usage(input=asked, output=len(text.split())), 0.0)


def as_json(value: object) -> str:
    """A fenced JSON block, as models write it."""
    return f"```json\n{json.dumps(value)}\n```"
