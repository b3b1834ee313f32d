"""What tokens cost: rows given in YAML first, then the dated table of the genai-prices package.

A model in neither has no price: None, which is not 0. No price is ever fetched from the network.
Not here: counting tokens (wire), keeping a budget (session).
"""

from collections.abc import Sequence
from datetime import date, datetime
from typing import Annotated

from pydantic import Field
from pydantic.dataclasses import dataclass

from fml_hydra.knobs import STRICT
from fml_hydra.usage import Usage

Dollars = Annotated[float, Field(ge=0, allow_inf_nan=False)]
MILLION = 1e6


@dataclass(frozen=True, config=STRICT)
class Price:
    """One row of a price table, in US dollars per million tokens."""

    input: Dollars
    """Prompt tokens."""
    output: Dollars
    """Completion tokens, reasoning included."""
    cached: Dollars | None = None
    """Prompt tokens read from the cache; null: as `input`."""
    cache_write: Dollars | None = None
    """Prompt tokens written to the cache; null: as `input`."""
    since: date = date.min
    """First day on which it holds."""

    def of(self, usage: Usage) -> float:
        """US dollars for `usage`."""
        cached = self.input if self.cached is None else self.cached
        written = self.input if self.cache_write is None else self.cache_write
        plain = usage.input - usage.cached - usage.cache_write
        parts = (
            plain * self.input,
            usage.cached * cached,
            usage.cache_write * written,
            usage.output * self.output,
        )
        return sum(parts) / MILLION


@dataclass(frozen=True, config=STRICT)
class Source:
    """Where the price of a model is looked up."""

    rows: tuple[Price, ...]
    """Rows of our own; the newest that is in force counts."""
    models: tuple[str, ...]
    """Names of the model, the most exact first."""
    provider: str | None
    """Who sells it, as genai-prices names it; None: whoever serves `base_url`."""
    base_url: str
    """Address of the API."""

    def dollars(self, usage: Usage, at: datetime | None = None) -> float | None:
        """US dollars for `usage` at a point in time (now), or None when nobody knows."""
        at = at or datetime.now().astimezone()
        if row := in_force(self.rows, at.date()):
            return row.of(usage)
        return next(
            (d for m in self.models if (d := self._looked_up(m, usage, at)) is not None), None
        )

    def window(self) -> int | None:
        """Tokens the model can read and write in one call, if genai-prices knows."""
        from genai_prices.data_snapshot import get_snapshot

        for model in self.models:
            where = (self.provider, None) if self.provider else (None, self.base_url)
            try:
                _, info = get_snapshot().find_provider_model(model, None, *where)
            except LookupError:
                continue
            return info.context_window
        return None

    def _looked_up(self, model: str, usage: Usage, at: datetime) -> float | None:
        import genai_prices

        spent = genai_prices.Usage(
            input_tokens=usage.input,
            cache_read_tokens=usage.cached,
            cache_write_tokens=usage.cache_write,
            output_tokens=usage.output,
        )
        try:
            if self.provider:
                found = genai_prices.calc_price(
                    spent, model, provider_id=self.provider, genai_request_timestamp=at
                )
            else:
                found = genai_prices.calc_price(
                    spent, model, provider_api_url=self.base_url, genai_request_timestamp=at
                )
        except (LookupError, ValueError):  # ValueError: counts that do not add up
            return None
        return float(found.total_price)


def in_force(rows: Sequence[Price], day: date) -> Price | None:
    """The newest row that holds on `day`."""
    return max((r for r in rows if r.since <= day), key=lambda r: r.since, default=None)
