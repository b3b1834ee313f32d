"""What can go wrong with a call, by name: the one border where the clients' errors are translated.

Not here: what is done about it (calling).
"""

import re
from collections.abc import Iterator
from typing import Any, Literal

from fml_hydra.usage import Usage

Name = Literal[
    "authentication",
    "quota",
    "model_not_found",
    "rejected",
    "overlong",
    "content_filter",
    "rate_limit",
    "overloaded",
    "server_error",
    "unreachable",
    "timeout",
    "cut",
    "unreadable",
]
FINAL = frozenset({"authentication", "quota", "model_not_found", "rejected"})
"""Another try would end the same way."""
AWAY = frozenset({"rate_limit", "overloaded", "server_error", "unreachable"})
"""The service is away or asks for patience; nothing was worked on, nothing is billed."""
LOST = frozenset({"timeout", "cut", "unreadable"})
"""The request was sent, and no answer that can be used came back; the provider may bill it."""
PATIENCE = {408, 409, 425}
"""Status codes that ask for another try, beside those the client library knows."""
TOO_LARGE = 413
POLICY = {"content_filter", "content_policy_violation", "invalid_prompt"}
"""Codes of prompts that a provider does not want to answer."""
LONGEST = 300
"""Characters of a provider's message that are kept."""


class Failure(Exception):
    """One attempt failed."""

    def __init__(self, name: Name, message: str, wait: float | None = None) -> None:
        super().__init__(f"{name}: {message}")
        self.name: Name = name
        """What kind of failure."""
        self.wait = wait
        """Seconds the provider asks to wait."""
        self.parameter = ""
        """The parameter a provider says it does not want, in its words."""
        self.usage: Usage | None = None
        """What the answer said was used, if it could be read that far."""


def translated(error: Exception, secret: str) -> Failure:
    """A client's exception as a Failure; `secret` is blotted out should the provider echo it.

    Whatever is not known by its class is an answer that could not be read.
    """
    from pydantic_ai import exceptions as ai

    kinds = (n for kind, n in _kinds() if isinstance(error, kind))
    name: Name = next(kinds, "unreadable")
    if isinstance(error, ai.ModelHTTPError):
        name = _by_status(error.status_code, name)
    if isinstance(error, ai.ModelConnectionError):
        before = error.phase in {"connect", "pool", "write"}
        timed_out = isinstance(error, ai.ModelTimeoutError)
        name = "unreachable" if before else "timeout" if timed_out else "cut"
    body = getattr(error, "body", None)
    told = body if isinstance(body, dict) else {}
    if name == "rejected" and told.get("code") in POLICY:
        name = "content_filter"
    message = "" if name == "authentication" else cleaned(_said(error), secret)
    failure = Failure(name, message, getattr(error, "retry_after", None))
    failure.parameter = str(told.get("param") or "")
    return failure


def _kinds() -> Iterator[tuple[type[Exception], Name]]:
    """The first class that fits counts."""
    from pydantic_ai import exceptions as ai

    yield ai.ModelAuthenticationError, "authentication"
    yield ai.ModelQuotaExceededError, "quota"
    yield ai.ModelNotFoundError, "model_not_found"
    yield ai.ModelContextWindowExceededError, "overlong"
    yield ai.ContentFilterError, "content_filter"
    yield ai.ModelRequestRejectedError, "rejected"
    yield ai.UserError, "rejected"
    yield ai.ModelRateLimitError, "rate_limit"
    yield ai.ModelUnavailableError, "overloaded"
    yield ai.ModelServerError, "server_error"
    yield TimeoutError, "timeout"


def _by_status(status: int, name: Name) -> Name:
    if status in PATIENCE:
        return "overloaded"
    if status == TOO_LARGE:
        return "overlong"
    return name


def _said(error: Exception) -> str:
    """What the provider says, or why a connection broke, or what was made of the answer."""
    from pydantic_ai.exceptions import ModelConnectionError

    body = getattr(error, "body", None)
    status = getattr(error, "status_code", "")
    if isinstance(body, dict):
        inner = body.get("error", body)
        told = inner.get("message", "") if isinstance(inner, dict) else inner
        return f"{status} {told}"
    if status:
        return f"{status} {body}"
    cause: BaseException = error
    while isinstance(error, ModelConnectionError) and (cause.__cause__ or cause.__context__):
        cause = cause.__cause__ or cause.__context__ or cause
    return str(cause) or type(cause).__name__


def cleaned(text: str, secret: str) -> str:
    """One line, not too long, without `secret` and without markup."""
    if secret:
        text = text.replace(secret, "***")
    plain = " ".join(re.sub(r"<[^>]*>", " ", text).split())
    return plain if len(plain) <= LONGEST else f"{plain[:LONGEST]}..."


def usage_in(body: Any) -> Usage | None:
    """The tokens that an answer tells of, whoever sent it; None if it does not."""
    told = body.get("usage") or body.get("usageMetadata") if isinstance(body, dict) else None
    if not isinstance(told, dict):
        return None

    def first(*names: str) -> int:
        values = (told.get(name) for name in names)
        return next((v for v in values if isinstance(v, int) and v >= 0), 0)

    asked = first("prompt_tokens", "input_tokens", "promptTokenCount")
    thought = first("thoughtsTokenCount")
    answered = first("completion_tokens", "output_tokens", "candidatesTokenCount") + thought
    return Usage(input=asked, output=answered, reasoning=thought) if asked or answered else None
