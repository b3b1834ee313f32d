"""The language-model contract: messages in, text and usage out.

Not here: prompts (conf/prompt), recording (session), prices (the providers' modules).
"""

from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from fml_hydra.usage import Usage

__all__ = ["LLM", "Finish", "Message", "Purpose", "Reply", "Request", "Role", "Usage"]

Role = Literal["system", "user", "assistant"]
Purpose = Literal["idea", "edit", "repair", "analysis", "summary"]
Finish = Literal["stop", "length", "refused"]


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
    """Wall time of the call."""


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
