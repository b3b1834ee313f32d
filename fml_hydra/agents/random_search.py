"""Random search, a control: independent drafts from the baseline, without feedback or memory.

What an agent gains beyond it is owed to its use of results. Bergstra and Bengio, "Random Search for
Hyper-Parameter Optimization", JMLR 13 (2012).
"""

import random

from pydantic.dataclasses import dataclass

from fml_hydra.agents.base import Advisor
from fml_hydra.journal import Action, History
from fml_hydra.knobs import STRICT


@dataclass(frozen=True, config=STRICT)
class RandomSearch:
    """Drafts only."""

    def propose(
        self, history: History, k: int, rng: random.Random, advisor: Advisor
    ) -> list[Action]:
        """`k` drafts, whatever came of the earlier ones."""
        return [Action("draft")] * k
