"""The language-model contract: messages in, text and usage out.

Not here: prompts (conf/prompt), recording (session), prices (the providers' modules).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

from fml_hydra.errors import InfraError
from fml_hydra.usage import Purpose, Spend, Usage

__all__ = [
    "LLM",
    "Finish",
    "Forecasts",
    "Message",
    "ProviderError",
    "Purpose",
    "Reply",
    "Request",
    "Role",
    "Schema",
    "Usage",
]

Role = Literal["system", "user", "assistant"]
Finish = Literal["stop", "length", "refused"]
Schema = Mapping[str, Any]
"""A JSON schema."""


@dataclass(frozen=True)
class Message:
    """One message of a conversation."""

    role: Role
    """Who speaks."""
    content: str
    """What is said."""


@dataclass(frozen=True)
class Request:
    """What is asked of a model."""

    messages: tuple[Message, ...]
    """The conversation so far, oldest first."""
    purpose: Purpose
    """What the answer is for; spend is reported by purpose."""
    seed: int
    """Sampling seed; equal requests to a deterministic model give equal replies."""
    schema: Schema | None = None
    """JSON schema of the reply (an object); None for free text. A model that knows no schemas is
    asked without, so the reply has to be read with care all the same."""


@dataclass(frozen=True)
class Reply:
    """What a model answered."""

    text: str
    """The answer."""
    usage: Usage
    """Tokens, failed attempts and retries included."""
    cost: float | None
    """US dollars; None when the price is unknown (never 0 then)."""
    finish: Finish = "stop"
    """Why the model stopped; `length` means the answer is cut off."""
    seconds: float = 0.0
    """Wall time of the call, failed attempts included, `waited` not."""
    model: str = ""
    """The version that answered, as the provider names it; empty if it does not."""
    notes: tuple[str, ...] = ()
    """What else happened: failed attempts, parameters dropped, parts of the prompt left out."""
    waited: float = 0.0
    """Seconds of waiting for a provider that was away, or for a rate limit."""


class ProviderError(InfraError):
    """The provider will not answer; `spend` is what its failed attempts have cost."""

    def __init__(self, message: str, spend: Spend = Spend()) -> None:  # noqa: B008  # frozen
        super().__init__(message)
        self.spend = spend


@runtime_checkable
class LLM(Protocol):
    """Turns a conversation into an answer."""

    @property
    def name(self) -> str:
        """Name in tables and tags."""
        ...

    def complete(self, request: Request) -> Reply:
        """Answer `request`; raises InfraError when the provider stays out of reach."""
        ...


@runtime_checkable
class Forecasts(Protocol):
    """An LLM that can tell beforehand what a call will cost at least."""

    def forecast(self, request: Request, output: int) -> Spend:
        """Tokens and dollars of `request` if the reply has `output` tokens; seconds are left 0."""
        ...
