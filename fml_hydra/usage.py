"""What was spent: tokens, dollars, seconds; how people read them. Knows no models or prices."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

Purpose = Literal["idea", "edit", "repair", "analysis", "summary"]
"""What a call is for."""
PURPOSES: tuple[Purpose, ...] = get_args(Purpose)


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
    purposes: Mapping[Purpose, int] = field(default_factory=dict, compare=False, kw_only=True)
    """Those of `total` whose purpose is known (idea, edit, ...), by purpose."""

    @property
    def total(self) -> int:
        """Input plus output tokens."""
        return self.input + self.output

    @property
    def known_purposes(self) -> bool:
        """Whether `purposes` accounts for all of it."""
        return sum(self.purposes.values()) == self.total

    def spent_on(self, purpose: Purpose) -> "Usage":
        """The same tokens, all of them for one purpose."""
        return replace(self, purposes={purpose: self.total})

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.input + other.input,
            self.cached + other.cached,
            self.output + other.output,
            self.reasoning + other.reasoning,
            self.cache_write + other.cache_write,
            purposes=dict(Counter(self.purposes) + Counter(other.purposes)),
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


def duration(seconds: float) -> str:
    """A duration for people."""
    minutes, rest = divmod(int(seconds + 0.5), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes:02d}m"
    return f"{minutes}m{rest:02d}s" if minutes else f"{rest}s"
