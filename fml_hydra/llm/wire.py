"""One attempt at one call, over pydantic-ai's direct requests: the only module that knows it.

It tries once, within a deadline of its own, and says by name what went wrong. Not here: trying
again (calling), prices, limits. The client libraries are imported when the first call is made.
"""

import asyncio
import importlib
import json
import threading
import warnings
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from fml_hydra.llm.base import Finish
from fml_hydra.llm.failures import Failure, Name, translated, usage_in
from fml_hydra.llm.forms import Api, Line, Sending, cache_marks, converted, parameters, settings
from fml_hydra.usage import Usage

if TYPE_CHECKING:
    import ssl

    import httpx2
    from pydantic_ai.messages import ModelResponse
    from pydantic_ai.models import Model

T = TypeVar("T")
PACKAGES: dict[Api, str] = {
    "openai_chat": "openai",
    "openai_responses": "openai",
    "anthropic": "anthropic",
    "gemini": "google",
}
"""Which extra of this package brings the provider's client library."""
CONNECT_SECONDS = 10.0
GRACE = 5.0
"""Seconds after the deadline at which an attempt is given up even if its thread does not answer."""
ON_THE_WIRE: dict[str, tuple[str, ...]] = {
    "temperature": ("temperature",),
    "max_tokens": ("max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens"),
    "thinking": ("reasoning_effort", "effort", "thinking", "thinkingConfig", "reasoning"),
    "seed": ("seed",),
    "stop_sequences": ("stop", "stop_sequences", "stopSequences"),
    "schema": ("schema", "responseJsonSchema", "responseSchema"),
}
"""Our settings, and what the providers' APIs call them."""


@dataclass(frozen=True)
class Answer:
    """What came back."""

    text: str
    """The answer, without the reasoning."""
    finish: Finish
    """Why it ends."""
    usage: Usage | None
    """Tokens; None when the provider does not tell."""
    model: str
    """The version that answered."""
    ignored: tuple[str, ...]
    """Settings the client library left out, since the model is known not to take them."""


@cache
def load(api: Api) -> None:
    """Import the client library: it takes seconds, which belong to no call."""
    name = PACKAGES[api]
    for module in ("direct", f"models.{name}", f"providers.{name}"):
        importlib.import_module(f"pydantic_ai.{module}")
    # what it leaves out is said by `Answer.ignored`, once and in the log
    warnings.filterwarnings("ignore", category=UserWarning, module="pydantic_ai")


def attempt(line: Line, sending: Sending, deadline: float) -> Answer:
    """Send it once; raises Failure, at the latest `deadline` + GRACE seconds from now."""
    tap = _Tap()
    client = _client(deadline, tap)
    request = _request(line, sending, deadline, _model(line, client))
    try:
        response = _wait_for(_within(deadline, client, request), deadline + GRACE)
    except TimeoutError:
        name: Name = "timeout" if tap.sent else "unreachable"
        raise Failure(name, f"no answer within {deadline:g} s") from None
    except Exception as error:
        if not tap.sent and not _is_ours(error):
            raise  # it never got as far as the network: a fault of this program
        failure = translated(error, line.key)
        failure.usage = usage_in(tap.answer)
        raise failure from None
    asked = [*sending.settings, *(["schema"] if sending.schema else [])]
    return _read(response, tap.left_out(asked))


def _is_ours(error: Exception) -> bool:
    from pydantic_ai.exceptions import AgentRunError, UserError

    return isinstance(error, AgentRunError | UserError)


class _Tap:
    """Sees what goes over the wire: for usage of answers that cannot be used, and for notices."""

    def __init__(self) -> None:
        self.sent = b""
        self._received = b""

    async def request(self, request: "httpx2.Request") -> None:
        self.sent = await request.aread()

    async def response(self, response: "httpx2.Response") -> None:
        self._received = await response.aread()

    @property
    def answer(self) -> Any:
        try:
            return json.loads(self._received)
        except ValueError:
            return None

    def left_out(self, settings: Sequence[str]) -> tuple[str, ...]:
        """Which of `settings` were not sent; a quoted name with a colon is never inside a text."""
        return tuple(
            name
            for name in settings
            if name in ON_THE_WIRE
            and not any(f'"{key}":'.encode() in self.sent for key in ON_THE_WIRE[name])
        )


async def _within(deadline: float, client: "httpx2.AsyncClient", request: Awaitable[T]) -> T:
    async with asyncio.timeout(deadline), client:
        return await request


def _request(
    line: Line, sending: Sending, deadline: float, model: "Model[Any]"
) -> "Coroutine[Any, Any, ModelResponse]":
    from pydantic_ai.direct import model_request

    return model_request(
        model,
        converted(sending.messages, cache_marks(line, sending)),
        model_settings=settings(line, sending, deadline),
        model_request_parameters=parameters(sending.schema),
    )


def _client(deadline: float, tap: _Tap) -> "httpx2.AsyncClient":
    """A client of its own for each attempt.

    Hours of training lie between two calls, and a connection that was closed meanwhile would look
    like an answer that was cut off.
    """
    import httpx2

    timeout = httpx2.Timeout(deadline, connect=min(CONNECT_SECONDS, deadline))
    hooks: dict[str, list[Callable[..., Any]]] = {
        "request": [tap.request],
        "response": [tap.response],
    }
    return httpx2.AsyncClient(verify=_certificates(), timeout=timeout, event_hooks=hooks)


def _model(line: Line, client: "httpx2.AsyncClient") -> "Model[Any]":
    where: dict[str, Any] = {"base_url": line.base_url, "http_client": client}
    key = line.key or "none"  # servers without keys get one that says so
    if line.api == "anthropic":
        from pydantic_ai.models.anthropic import AnthropicModel
        from pydantic_ai.providers.anthropic import AnthropicProvider

        return AnthropicModel(line.model, provider=AnthropicProvider(api_key=key, **where))
    if line.api == "gemini":
        from pydantic_ai.models.google import GoogleModel
        from pydantic_ai.providers.google import GoogleProvider

        return GoogleModel(line.model, provider=GoogleProvider(api_key=key, **where))
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider
    from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

    provider = (
        OpenAIProvider(api_key=key, **where)
        if line.official
        else OpenAICompatibleProvider("compatible", api_key=key, **where)
    )
    kind = OpenAIChatModel if line.api == "openai_chat" else OpenAIResponsesModel
    return kind(line.model, provider=provider)


def _read(response: "ModelResponse", ignored: tuple[str, ...]) -> Answer:
    from pydantic_ai.messages import TextPart

    if response.finish_reason == "error":
        raise Failure("unreadable", "the provider broke off")
    told = response.usage
    if not response.parts and not response.finish_reason and not told.total_tokens:
        raise Failure("unreadable", "there is nothing in the answer")
    usage = Usage(
        input=told.input_tokens,
        cached=told.cache_read_tokens,
        output=told.output_tokens,
        reasoning=told.output_reasoning_tokens or told.details.get("reasoning_tokens", 0),
        cache_write=told.cache_write_tokens,
    )
    finishes: dict[str | None, Finish] = {"length": "length", "content_filter": "refused"}
    return Answer(
        text="".join(p.content for p in response.parts if isinstance(p, TextPart)),
        finish=finishes.get(response.finish_reason, "stop"),
        usage=usage if usage.total else None,
        model=response.model_name or "",
        ignored=ignored,
    )


@cache
def _certificates() -> "ssl.SSLContext":
    import httpx2

    return httpx2.create_ssl_context()


@cache
def _loop() -> asyncio.AbstractEventLoop:
    """One event loop for all calls of this process, in a thread that ends with it."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="llm calls", daemon=True).start()
    return loop


def _wait_for(work: Coroutine[Any, Any, T], seconds: float) -> T:
    future: Future[T] = asyncio.run_coroutine_threadsafe(work, _loop())
    try:
        return future.result(seconds)
    finally:
        future.cancel()
