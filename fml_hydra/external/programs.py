"""What is known of a program that is an agent: how it is started, what its event stream says.

One module per program implements `Program`. Not here: following a running one (`running`), what to
do when it ends (`agents.external`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from fml_hydra.sandbox import Mount
from fml_hydra.usage import Usage

Event = Mapping[str, Any]


@dataclass(frozen=True)
class Place:
    """Where a program finds things; all paths as it sees them."""

    repo: str
    """The working copy, writable; the program starts there."""
    home: str
    """Its home, writable, kept until the end of the run."""
    tools: str
    """`fml-eval`, its client, and TASK.md."""
    socket: str
    """The endpoint."""
    python: str
    """A Python interpreter."""
    walled: bool
    """Whether a sandbox closes files to it, so that its own may be switched off."""

    def server(self) -> list[str]:
        """The command of the stdio MCP server."""
        return [self.python, "-I", f"{self.tools}/client.py", "--mcp"]


@dataclass(frozen=True)
class Task:
    """What one launch is asked to do."""

    prompt: str
    """The words."""
    session: str = ""
    """The program's own session to go on with; empty for a new one."""
    steps_left: int = 0
    """Evaluations it may still ask for."""
    dollars_left: float | None = None
    """US dollars it may still spend; None means no limit."""


@dataclass(frozen=True)
class Launch:
    """How to start a program once."""

    argv: tuple[str, ...]
    """The command."""
    env: dict[str, str] = field(default_factory=dict)
    """Environment variables of its own."""
    files: dict[str, str] = field(default_factory=dict)
    """Files to be written among its tools first, by name."""


@dataclass
class Told:
    """What the event stream of one launch has said so far; None where it has not said it."""

    session: str = ""
    """The program's own name for the conversation."""
    connected: bool | None = None
    """Whether its MCP client reached our server."""
    usage: Usage | None = None
    """Tokens of the launch."""
    cost: float | None = None
    """US dollars of the launch."""
    said: list[str] = field(default_factory=list)
    """What the agent said, in order."""
    error: str = ""
    """Why it ended, in its words, if that was no free choice."""
    refused: str = ""
    """Why its provider will not serve it however often it asks."""
    parts: dict[str, Usage] = field(default_factory=dict)
    """Tokens of single messages, for programs that report those."""


@runtime_checkable
class Program(Protocol):
    """One kind of program."""

    @property
    def model(self) -> str | None:
        """The model it is told to use; None for its own choice."""
        ...

    @property
    def asks(self) -> Literal["mcp", "command"]:
        """How it is told to ask for an evaluation."""
        ...

    @property
    def priced(self) -> bool:
        """Whether it says what it costs, so that `budget.dollars` can be kept."""
        ...

    @property
    def cumulative(self) -> bool:
        """Whether the tokens it tells are those of its whole session, earlier launches included."""
        ...

    @property
    def resumable(self) -> bool:
        """Whether it can go on with a session of its own."""
        ...

    def mounts(self) -> list[Mount]:
        """What of this machine it needs, read-only."""
        ...

    def launch(self, place: Place, task: Task) -> Launch:
        """How to start it."""
        ...

    def read(self, event: Event, told: Told) -> None:
        """Take one event of its stream in; whatever else is in the stream is ignored."""
        ...


def beyond(usage: Usage, before: Usage) -> Usage:
    """What was spent since `before`."""
    names = ("input", "cached", "output", "reasoning")
    return Usage(*(max(0, getattr(usage, n) - getattr(before, n)) for n in names))


def number(value: object) -> float:
    """A finite, non-negative number from a stream nobody can trust; else 0."""
    good = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1e15
    return float(value) if good else 0.0  # type: ignore[arg-type]


def tokens(value: object) -> int:
    """A count of tokens; 0 if it is none."""
    return int(number(value))


def words(value: object, most: int = 1000) -> str:
    """A text from there that can be an argument, a variable or a file; empty if it is none."""
    text = value[:most].replace("\0", "") if isinstance(value, str) else ""
    return text.encode("utf-8", "replace").decode("utf-8")


def section(value: object) -> Event:
    """A JSON object, empty if it is none."""
    return value if isinstance(value, Mapping) else {}
