"""What a run's tree looks like in numbers: how an agent spent its steps. Pure."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from fml_hydra.journal import History


@dataclass(frozen=True)
class Behaviour:
    """The shape of one run's search."""

    operators: Mapping[str, float]
    """Share of the steps by operator."""
    drafts: int
    """Steps that started from the baseline."""
    depth: int
    """Steps from the baseline to the deepest node."""
    width: int
    """Nodes at the depth that has most of them."""
    leaves: int
    """Nodes that nothing was made from."""
    debug_chain: int
    """Most debug steps in a row."""
    islands: int
    """Different islands among the nodes; 0 for an agent without islands."""
    success: float
    """Share of the steps with a metric."""


def behaviour(history: History) -> Behaviour:
    """Measure a run; all 0 for one without a step."""
    depths: dict[int, int] = {}
    for node in history:
        depths[node.id] = 1 + max((depths[p] for p in node.parents), default=0)
    parents = {p for node in history for p in node.parents}
    steps = max(1, len(history))
    operators = Counter(node.op for node in history)
    return Behaviour(
        operators={op: count / steps for op, count in sorted(operators.items())},
        drafts=sum(not node.parents for node in history),
        depth=max(depths.values(), default=0),
        width=max(Counter(depths.values()).values(), default=0),
        leaves=len(history) - len(parents),
        debug_chain=max((history.debug_depth(node) for node in history), default=0),
        islands=len({node.meta["island"] for node in history if "island" in node.meta}),
        success=sum(node.ok for node in history) / steps,
    )
