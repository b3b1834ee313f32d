"""Any command as an agent.

It gets the prompt as the last word, and these environment variables: FML_PROMPT (the same),
FML_TASK (a file with the same), FML_REPO, FML_SOCKET, FML_STEPS_LEFT; `fml-eval` is on its PATH. On
stdout it may report, one JSON object per line and all of it optional:

    {"usage": {"input": 900, "cached": 0, "output": 80, "reasoning": 0}, "cost": 0.01}   adds up
    {"session": "..."}      handed back as FML_SESSION when it is started again
    {"text": "..."}         what it thinks; kept with the step
"""

from pathlib import Path
from typing import ClassVar, Literal

from pydantic import field_validator
from pydantic.dataclasses import dataclass

from fml_hydra.external.install import folders_of, found, started
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


@dataclass(frozen=True, config=STRICT)
class Command:
    """A program that is started with a prompt and asks for evaluations by itself."""

    command: tuple[str, ...]
    """Words; {python} is an interpreter, {prompt} the prompt (the last word if it is not there)."""
    priced: bool = False
    """Whether it reports its cost, so that `budget.dollars` can be kept."""
    model: str | None = None
    """Name of the model in tables; it is not told."""
    asks: ClassVar[Literal["mcp", "command"]] = "command"
    """By `fml-eval`."""
    cumulative: ClassVar[bool] = False
    """Its tokens are those of one launch."""
    resumable: ClassVar[bool] = False
    """It is handed its own session; what it makes of it is its own affair."""

    @field_validator("command")
    @classmethod
    def _there(cls, command: tuple[str, ...]) -> tuple[str, ...]:
        if not command:
            raise ValueError("give the command that starts your agent: agent.program.command=[...]")
        if command[0] != "{python}":
            found(command[0], "")
        return command

    def mounts(self) -> list[Mount]:
        """The program's own installation, and files and folders that the command names."""
        paths = [path for path in map(_path, self.command[1:]) if path]
        return [
            *([] if self.command[0] == "{python}" else folders_of(self.command[0])),
            *(Mount(path, str(path)) for path in paths),
        ]

    def launch(self, place: Place, task: Task) -> Launch:
        """The command with its braces filled in."""
        argv = [self._word(word, place, task) for word in self.command]
        if self.command[0] != "{python}":
            argv[:1] = started(self.command[0])
        if not any("{prompt}" in word for word in self.command):
            argv.append(task.prompt)
        env = {
            "FML_PROMPT": task.prompt,
            "FML_SESSION": task.session,
            "FML_STEPS_LEFT": str(task.steps_left),
        }
        return Launch(tuple(argv), env)

    def _word(self, word: str, place: Place, task: Task) -> str:
        if path := _path(word):
            return str(path)
        return word.replace("{python}", place.python).replace("{prompt}", task.prompt)

    def read(self, event: Event, told: Told) -> None:
        """See the module's docstring."""
        if "usage" in event:
            usage = section(event["usage"])
            names = ("input", "cached", "output", "reasoning")
            told.usage = (told.usage or Usage()) + Usage(*(tokens(usage.get(n)) for n in names))
        if "cost" in event:
            told.cost = (told.cost or 0.0) + number(event["cost"])
        told.session = words(event.get("session")) or told.session
        if isinstance(event.get("text"), str):
            told.said.append(event["text"])


def _path(word: str) -> Path | None:
    """The file or folder a word names, as this process sees it; None if it names none."""
    path = Path(word).expanduser().absolute()
    return path if "/" in word and path.exists() else None
