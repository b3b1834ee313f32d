"""A language model behind an API: OpenAI, Anthropic, Gemini, or whoever is compatible with them.

Values live in `conf/llm/`. The key is read from the environment variable named there, is kept in
memory only, and is never part of a configuration. Not here: the single call (calling), the APIs
themselves (wire).
"""

import importlib.util
import os
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, PositiveFloat, PositiveInt
from pydantic.dataclasses import dataclass

from fml_hydra.errors import ConfigError
from fml_hydra.hashing import text_hash
from fml_hydra.knobs import STRICT
from fml_hydra.llm.base import Message, Reply, Request
from fml_hydra.llm.calling import Call, Known
from fml_hydra.llm.forms import Api, Line, Sending, settings_of
from fml_hydra.llm.limits import gate
from fml_hydra.llm.notices import say_once
from fml_hydra.llm.prices import Price, Source
from fml_hydra.llm.waits import Waiting
from fml_hydra.llm.windows import Fitted, estimate_tokens, fit
from fml_hydra.llm.wire import PACKAGES, attempt, load
from fml_hydra.usage import Spend, Usage

RESERVED = 32_000
"""Tokens kept free for the reply when `max_output` is not given, or a quarter of the window."""


@dataclass(frozen=True, config=STRICT)
class ProviderLLM:
    """A model that is asked over the network."""

    name: str
    """Name in tables and tags."""
    api: Api
    """Which API is spoken."""
    base_url: str
    """Address of the API."""
    model: str
    """The model, as the API calls it."""
    key: str
    """Environment variable that holds the API key; empty for a server without keys."""
    provider: str | None
    """Who sells it, as genai-prices calls it; null: recognised by `base_url`."""
    temperature: Annotated[float, Field(ge=0)] | None
    """Sampling temperature; null: the provider's."""
    max_output: PositiveInt | None
    """Longest reply in tokens, reasoning included; null: the provider's."""
    effort: Literal["minimal", "low", "medium", "high", "xhigh", "max"] | None
    """How much the model reasons; null: the provider's."""
    send_seed: bool
    """Whether the call's seed is sent; few providers promise anything for it."""
    stop: tuple[str, ...]
    """Texts at which the reply ends."""
    cache: bool
    """Whether the provider is told which part of a prompt to cache, where it wants to be told."""
    context: PositiveInt | None
    """Tokens it can read and write in one call; null: as genai-prices says."""
    prices: tuple[Price, ...]
    """Rows that come before those of genai-prices."""
    deadline: PositiveFloat
    """Seconds one attempt may take."""
    attempts: PositiveInt
    """Attempts that may go without an answer in a row."""
    max_wait: Annotated[float, Field(ge=0)]
    """Seconds a call waits for a provider that is away or asks for patience."""
    requests_per_minute: PositiveInt | None
    """Rate limit, shared by the runs of one process."""
    tokens_per_minute: PositiveInt | None
    """Rate limit, shared by the runs of one process."""

    def __post_init__(self) -> None:
        """Raise ConfigError for what would fail later: no client library, no key."""
        if not re.fullmatch(r"([A-Z][A-Z0-9_]*)?", self.key):  # never repeat it: it may be a key
            raise ConfigError(
                "llm.key is the NAME of the environment variable with the key, such as "
                "OPENAI_API_KEY; a key itself does not belong into a configuration"
            )
        if "@" in self.base_url or "?" in self.base_url:
            raise ConfigError("llm.base_url must not hold a key, user or password; use llm.key")
        extra = PACKAGES[self.api]
        module = "google.genai" if extra == "google" else extra
        if not _importable("pydantic_ai") or not _importable(module):
            raise ConfigError(
                f"llm={self.name} needs a client library: pip install 'fml-hydra[{extra}]'"
            )
        if self.key and not os.environ.get(self.key):
            raise ConfigError(f"llm={self.name} needs a key: set the variable {self.key}")

    def complete(self, request: Request) -> Reply:
        """Answer `request`; raises ProviderError."""
        load(self.api)
        fitted = self._fitted(request.messages)
        line = self._line()
        call = Call(
            line=line,
            title=f"{self.name} at {self.base_url}",
            remedy=self.key or "llm.key",
            sending=Sending(fitted.messages, self._settings(request), request.schema, self.cache),
            patience=self,
            known=_known(self.api, self.base_url, self.model),
            gate=gate(
                f"{self.base_url} {self.model} {text_hash(line.key)}",
                self.requests_per_minute,
                self.tokens_per_minute,
            ),
            price=self._price,
            send=attempt,
            waiting=Waiting(self.name),
            notes=[f"left out: {what}" for what in fitted.left_out],
        )
        return call.run()

    def forecast(self, request: Request, output: int) -> Spend:
        """What `request` will cost if the reply has `output` tokens, by estimate."""
        usage = Usage(estimate_tokens(self._fitted(request.messages).messages), output=output)
        return Spend(usage, self._price(usage, ""))

    def _line(self) -> Line:
        official = self.provider == "openai"
        return Line(self.api, self.base_url, self.model, os.environ.get(self.key, ""), official)

    def _settings(self, request: Request) -> Mapping[str, Any]:
        return settings_of(
            temperature=self.temperature,
            max_tokens=self.max_output,
            thinking=self.effort,
            seed=request.seed % 2**31 if self.send_seed else None,
            stop_sequences=list(self.stop),
        )

    def _fitted(self, messages: tuple[Message, ...]) -> Fitted:
        window = self.context or self._source("").window()
        if window is None:
            return Fitted(messages)
        return fit(messages, window - (self.max_output or min(RESERVED, window // 4)))

    def _source(self, version: str) -> Source:
        names = (version, self.model) if version else (self.model,)
        return Source(self.prices, names, self.provider, self.base_url)

    def _price(self, usage: Usage, version: str) -> float | None:
        dollars = self._source(version).dollars(usage)
        if dollars is None:
            say_once(f"{self.name}: no price is known, its cost stays unknown; give llm.prices")
        return dollars


_models: dict[tuple[str, str, str], Known] = {}


def _known(api: str, base_url: str, model: str) -> Known:
    """What this process knows of a model; `setdefault` gives all threads the same."""
    return _models.setdefault((api, base_url, model), Known())


def _importable(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False
