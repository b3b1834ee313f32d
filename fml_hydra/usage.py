"""What was spent: tokens, dollars, seconds. Knows nothing of models or prices."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Usage:
    """Tokens of one call or of many."""

    input: int = 0
    """Prompt tokens, cached ones included."""
    cached: int = 0
    """Prompt tokens the provider read from its cache."""
    output: int = 0
    """Completion tokens, reasoning included."""
    reasoning: int = 0
    """Completion tokens spent on hidden reasoning."""
    cache_write: int = 0
    """Prompt tokens the provider wrote to its cache; where that is priced, dearer than others."""

    @property
    def total(self) -> int:
        """Input plus output tokens."""
        return self.input + self.output

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.input + other.input,
            self.cached + other.cached,
            self.output + other.output,
            self.reasoning + other.reasoning,
            self.cache_write + other.cache_write,
        )


@dataclass(frozen=True)
class Spend:
    """Tokens, dollars and time spent on LLM calls."""

    usage: Usage = Usage()
    """Tokens."""
    cost: float | None = 0.0
    """US dollars; None as soon as one call's price is unknown."""
    seconds: float = 0.0
    """Wall time of the calls, added up."""

    def __add__(self, other: "Spend") -> "Spend":
        unknown = self.cost is None or other.cost is None
        cost = None if unknown else (self.cost or 0.0) + (other.cost or 0.0)
        return Spend(self.usage + other.usage, cost, self.seconds + other.seconds)
