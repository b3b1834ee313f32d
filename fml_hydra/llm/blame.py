"""Which of the settings that were sent a provider does not want, from what it says.

Not here: doing without (calling).
"""

import re
from collections.abc import Sequence

from fml_hydra.llm.failures import Failure

BLAMED: dict[str, str] = {
    "temperature": r"temperature",
    "thinking": r"reasoning|thinking|effort",
    "seed": r"seed",
    "stop_sequences": r"stop|stop_?sequences",
    "max_tokens": r"max_(completion_|output_)?tokens|max_?output_?tokens",
    "schema": r"response_?format|json_?schema|response_?(json_)?schema|output_(config|format)"
    r"|structured outputs?|native structured output|text\.format",
}
"""How providers call a setting that they refuse."""
_REFUSAL = re.compile(
    r"support|unknown|unrecogni[sz]ed|not (allowed|permitted|available)|unexpected|deprecated"
    r"|invalid|extra inputs|cannot|may only|must be",
    re.IGNORECASE,
)


def blamed(failure: Failure, asked: Sequence[str]) -> str:
    """Which of the settings `asked` a provider refuses, or nothing."""
    for name in asked:
        pattern = BLAMED.get(name)
        if pattern and re.fullmatch(pattern, failure.parameter.split(".")[0], re.IGNORECASE):
            return name
    told = str(failure)
    if not _REFUSAL.search(told):
        return ""
    for name in asked:
        if name in BLAMED and re.search(rf"\b({BLAMED[name]})\b", told, re.IGNORECASE):
            return name
    return ""
