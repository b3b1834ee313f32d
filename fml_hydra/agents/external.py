"""An agent that is a program of its own: Claude Code, Codex, Gemini, or any command.

It drives itself and asks for evaluations at one endpoint; each is a step of the session like any
other. This is its configuration; the package `fml_hydra.external` holds the rest.
"""

from contextlib import closing
from pathlib import Path

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt, model_validator
from pydantic.dataclasses import dataclass

from fml_hydra.data import Source, installed_copies
from fml_hydra.errors import ConfigError
from fml_hydra.external.endpoint import Endpoint
from fml_hydra.external.programs import Program
from fml_hydra.external.room import passed_on
from fml_hydra.external.visit import Guest, Rules, Visit
from fml_hydra.knobs import STRICT
from fml_hydra.prompts import Prompts
from fml_hydra.sandbox import Mount, SandboxPolicy, open_sandbox
from fml_hydra.session import Session


@dataclass(frozen=True, config=STRICT)
class ExternalAgent:
    """Starts a program and spends the session's budget on what it asks for."""

    name: str
    """Name in tables and tags."""
    prompts: Prompts
    """The templates; `external` and `external_again` are used."""
    sandbox: SandboxPolicy
    """The walls around the program itself."""
    program: Program
    """Which program, and how it is started."""
    network: bool
    """Whether it may use the network: all that this machine can reach."""
    resumes: NonNegativeInt
    """How often it is started again when it stops with steps left."""
    idle_seconds: PositiveFloat
    """It is ended when it says nothing for so long while no evaluation runs."""
    seconds: PositiveFloat
    """Most wall time of one launch."""
    grace_seconds: PositiveFloat
    """How long it may go on once the steps are used up, to say its last word."""
    memory_mb: PositiveInt
    """Memory of the program and of all it starts."""
    pass_env: tuple[str, ...] = ()
    """Environment variables of ours that it gets; no others."""
    env: dict[str, str] = Field(default_factory=dict)
    """Environment variables with fixed values."""
    show: tuple[Path, ...] = ()
    """Further files and folders it may read, under their own paths."""
    sources: dict[str, Source] | None = None
    """The task's raw data; installed copies of it hold labels and are hidden."""

    @model_validator(mode="after")
    def _has_words(self) -> "ExternalAgent":
        if missing := {"external", "external_again"} - set(self.prompts.templates):
            raise ValueError(f"prompt {self.prompts.name!r} lacks {', '.join(sorted(missing))}")
        return self

    @property
    def llm_name(self) -> str:
        """The model in tables: a program brings its own."""
        return self.program.model or "own"

    def run(self, session: Session) -> None:
        """Serve the program until the budget is gone, or until it has stopped too often."""
        if session.budget.dollars is not None and not self.program.priced:
            raise ConfigError(f"budget.dollars cannot be kept: {self.name} does not tell its cost")
        with closing(Endpoint()) as endpoint:
            sandbox = open_sandbox(self.sandbox)
            Visit(session, self._guest(), self._rules(), sandbox, endpoint).stay()

    def _guest(self) -> Guest:
        shown = [path.expanduser().absolute() for path in self.show]
        return Guest(
            self.name,
            self.program,
            self.prompts,
            [*self.program.mounts(), *(Mount(path, str(path)) for path in shown)],
            {**passed_on(self.pass_env), **self.env},
            installed_copies(self.sources or {}),
        )

    def _rules(self) -> Rules:
        limits = self.sandbox.limits(self.seconds, self.memory_mb)
        return Rules(limits, self.network, self.resumes, self.idle_seconds, self.grace_seconds)
