"""The papers' categories, and how kinds of change and statuses of steps lead to them.

FML-bench v2 (arXiv 2510.10472 v2) sorts the steps of a run into six categories; v1 counts the steps
whose change is academic rather than engineering. The kinds are those of the tasks' ideas. The v2
list has no category for the objective: a new loss is an algorithmic modification.
"""

from typing import Literal

from fml_hydra.ideas import Category as Kind
from fml_hydra.journal import Folded, Node

Category = Literal[
    "algorithmic modification",
    "structural modification",
    "parameter configuration",
    "data augmentation",
    "implementation error",
    "other",
]
ERROR: Category = "implementation error"
OF_KIND: dict[Kind, Category] = {
    "algorithmic": "algorithmic modification",
    "objective": "algorithmic modification",
    "structural": "structural modification",
    "data": "data augmentation",
    "parameter": "parameter configuration",
    "refactoring": "other",
    "bugfix": "other",
    "shallow": "other",
}
ACADEMIC: frozenset[Kind] = frozenset({"algorithmic", "structural", "data", "objective"})
"""The rest is engineering (v1); definitions that nothing reaches contribute nothing."""
FAILED = frozenset({"edit_failed", "syntax", "protected", "crash", "timeout", "no_metric"})
"""Statuses that are the code's own fault."""


def is_implementation_error(state: Folded, node: Node) -> bool:
    """Whether a step failed by its own fault; a broken constraint is a result, not an error.

    A step that was measured to the end has every metric of the baseline, whatever they are.
    """
    measured = set(state.header.get("baseline", {}).get("val", {})) <= set(node.metrics)
    return node.status in FAILED or (node.status == "invalid" and not measured)


def category_of(kind: Kind | None, failed: bool) -> Category:
    """The v2 category of a step: an error whatever was attempted, else that of the kind."""
    if failed:
        return ERROR
    return OF_KIND[kind] if kind else "other"
