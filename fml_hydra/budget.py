"""What a run may spend, and when a call is one too many. Not here: counting (calls, session)."""

from pydantic import PositiveInt
from pydantic.dataclasses import dataclass

from fml_hydra.errors import BudgetExhausted, ConfigError
from fml_hydra.knobs import STRICT
from fml_hydra.usage import Spend


@dataclass(frozen=True, config=STRICT)
class Budget:
    """What a run may spend; null means no limit."""

    steps: PositiveInt
    """Counted evaluations."""
    seconds: float | None = None
    """Wall time without that of waiting for a provider, checked before each batch."""
    tokens: PositiveInt | None = None
    """Input plus output tokens, checked before each call."""
    dollars: float | None = None
    """US dollars, checked before each call."""
    repairs: int = 2
    """Free LLM calls to mend an edit that cannot be applied."""
    charge_failed_edits: bool = True
    """Whether a step that was refused before training counts."""

    def afford(self, spent: Spend, more: Spend, llm: str) -> None:
        """Raise BudgetExhausted if nothing is left for a call of `llm`, or too little for `more`.

        Raises ConfigError for a limit in dollars where prices are not known.
        """
        both = spent + more
        tokens, dollars = self.tokens, self.dollars
        if tokens is not None and (spent.usage.total >= tokens or both.usage.total > tokens):
            raise BudgetExhausted("tokens")
        if dollars is None:
            return
        if spent.cost is None or both.cost is None:
            raise ConfigError(
                f"budget.dollars cannot be kept: the price of {llm} is not known; "
                "give it a price or limit budget.tokens"
            )
        if spent.cost >= dollars or both.cost > dollars:
            raise BudgetExhausted("dollars")
