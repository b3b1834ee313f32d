"""What is sent, and how it is put into pydantic-ai's words: messages, settings, cache marks.

The library is imported when it is used. Not here: sending (wire).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from fml_hydra.llm.base import Message
from fml_hydra.llm.windows import stable_part

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, UserContent
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.settings import ModelSettings

Api = Literal["openai_chat", "openai_responses", "anthropic", "gemini"]


@dataclass(frozen=True)
class Line:
    """To whom a call goes."""

    api: Api
    """Which API is spoken."""
    base_url: str
    """Where."""
    model: str
    """To which model."""
    key: str = field(repr=False)
    """The key itself; never written anywhere."""
    official: bool
    """Whether it is the API's inventor, who knows all of it, or somebody compatible."""


@dataclass(frozen=True)
class Sending:
    """What is sent."""

    messages: tuple[Message, ...]
    """The conversation."""
    settings: Mapping[str, Any]
    """By pydantic-ai's names (ON_THE_WIRE has ours)."""
    schema: Mapping[str, Any] | None
    """JSON schema of the reply."""
    cache: bool
    """Whether the provider is told which part of the prompt to cache."""


def settings_of(**given: Any) -> dict[str, Any]:
    """The settings that are given."""
    return {name: value for name, value in given.items() if value is not None and value != []}


def settings(line: Line, sending: Sending, deadline: float) -> "ModelSettings":
    """Ours and those that make an attempt one attempt."""
    all_of_them: Any = {**sending.settings, "max_retries": 0, "timeout": deadline}
    if line.api == "anthropic" and sending.cache:
        all_of_them["anthropic_cache_instructions"] = True
    if line.api == "openai_responses":
        all_of_them["openai_store"] = False  # nothing of a run stays with the provider
    return all_of_them  # type: ignore[no-any-return]


def parameters(schema: Mapping[str, Any] | None) -> "ModelRequestParameters | None":
    """How a reply of that form is asked for."""
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.output import OutputObjectDefinition

    if schema is None:
        return None
    wanted = OutputObjectDefinition(json_schema=dict(schema), name="reply")
    return ModelRequestParameters(output_mode="native", output_object=wanted)


def converted(messages: Sequence[Message], marks: Mapping[int, int]) -> "list[ModelMessage]":
    """The conversation, with cache points at `marks` (message -> characters)."""
    from pydantic_ai.messages import (
        ModelRequest,
        ModelRequestPart,
        ModelResponse,
        SystemPromptPart,
        TextPart,
        UserPromptPart,
    )

    out: list[ModelMessage] = []
    for i, message in enumerate(messages):
        if message.role == "assistant":
            out.append(ModelResponse(parts=[TextPart(message.content)]))
            continue
        part: ModelRequestPart = (
            SystemPromptPart(message.content)
            if message.role == "system"
            else UserPromptPart(_content(message.content, marks.get(i)))
        )
        if out and isinstance(out[-1], ModelRequest):
            out[-1] = ModelRequest(parts=[*out[-1].parts, part])
        else:
            out.append(ModelRequest(parts=[part]))
    return out


def cache_marks(line: Line, sending: Sending) -> dict[int, int]:
    """Where cached parts end, as message -> characters, for an API that wants to be told.

    The first question up to where steps begin to differ; and in a conversation that has grown once,
    and so may again, all of it.
    """
    if line.api != "anthropic" or not sending.cache:
        return {}
    messages = sending.messages
    users = [i for i, m in enumerate(messages) if m.role == "user"]
    if not users:
        return {}
    stable = len(stable_part(messages[users[0]].content))
    marks = {users[0]: stable} if stable else {}
    if len(users) > 1:
        marks[users[-1]] = len(messages[users[-1]].content)
    return marks


def _content(text: str, mark: int | None) -> "str | list[UserContent]":
    from pydantic_ai.messages import CachePoint

    if mark is None:
        return text
    rest = [text[mark:]] if text[mark:] else []
    return [text[:mark], CachePoint(), *rest]
