"""Reading JSON out of what a model wrote: fenced or bare, with thoughts before it, slightly broken.

Edits have their own parser (edits).
"""

import json
import re
from typing import Any

_THOUGHTS = re.compile(r"<think>.*?(</think>|\Z)", re.DOTALL)
_FENCE = re.compile(r"```(?:json)?[ \t]*\n(.*?)```", re.DOTALL)
_TRAILING_COMMA = re.compile(r",(\s*[}\]])")


def without_thoughts(reply: str) -> str:
    """The reply without `<think>` passages."""
    return _THOUGHTS.sub("", reply).strip()


def parse_object(reply: str) -> dict[str, Any] | None:
    """The first JSON object in a reply, or None when there is none that can be read."""
    text = without_thoughts(reply)
    for candidate in [*_FENCE.findall(text), text]:
        start = candidate.find("{")
        if start < 0:
            continue
        for attempt in (candidate[start:], _TRAILING_COMMA.sub(r"\1", candidate[start:])):
            try:
                value, _ = json.JSONDecoder().raw_decode(attempt)
            except ValueError:
                continue
            if isinstance(value, dict):
                return value
    return None
