"""What the tests of the provider clients have in common."""

from collections.abc import Callable

from fml_hydra.llm.base import Message, Request
from fml_hydra.llm.provider import ProviderLLM

KEY = "sk-planted-7f3a9c"
KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY")
CONVERSATION = (
    Message("system", "be kind"),
    Message("user", "hello"),
    Message("assistant", "yes?"),
    Message("user", "go on"),
)
Ask = Callable[..., ProviderLLM]


def request(*messages: Message, **more: object) -> Request:
    return Request(messages or CONVERSATION, "edit", 7, **more)  # type: ignore[arg-type]
