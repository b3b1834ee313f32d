"""How far the rules agree with people, or a judge with the rules: pairs of labels, and their table.

The people are the authors of the tasks' ideas, each of which declares what kind of change it is.
"""

from collections.abc import Iterator, Sequence
from typing import get_args

import pandas as pd

from fml_hydra.analysis.behaviour.categories import OF_KIND, Category, category_of
from fml_hydra.analysis.behaviour.classify import classify
from fml_hydra.analysis.behaviour.installed import InstalledTask, installed_tasks
from fml_hydra.edits import apply_edit

COLUMNS = ["task", "idea", "declared", "found", "declared_kind", "found_kind", "rule", "changes"]


def declared_and_found(tasks: Sequence[InstalledTask] | None = None) -> pd.DataFrame:
    """Each idea applied alone to its baseline: COLUMNS, a row per idea.

    `declared` and `found` are v2 categories, the others the finer kinds. `tasks`: None for all of
    this installation. Raises TaskError or EditError for an idea that cannot be read or applied.
    """
    chosen = installed_tasks() if tasks is None else list(tasks)
    return pd.DataFrame([row for task in chosen for row in _ideas(task)], columns=COLUMNS)


def _ideas(task: InstalledTask) -> Iterator[tuple[str, ...]]:
    before, repository = task.baseline(), task.repository()
    for idea in task.ideas():
        finding = classify(before, apply_edit(idea.edit, before), repository)
        categories = (OF_KIND[idea.category], category_of(finding.kind, failed=False))
        kinds = (idea.category, finding.kind or "")
        yield (task.name, idea.id, *categories, *kinds, finding.rule, finding.changes)


def confusion(
    labels: pd.DataFrame | None = None, rows: str = "declared", columns: str = "found"
) -> pd.DataFrame:
    """How often each label of column `rows` met each one of `columns`, in the categories' order.

    `labels`: None for `declared_and_found()`.
    """
    table = declared_and_found() if labels is None else labels
    counts = pd.crosstab(table[rows], table[columns])
    known = [*get_args(Category), *sorted({*counts.index, *counts.columns})]
    order = [name for name in dict.fromkeys(known) if name in {*counts.index, *counts.columns}]
    return counts.reindex(index=order, columns=order, fill_value=0)


def side_by_side(rules: pd.DataFrame, judged: pd.DataFrame) -> pd.DataFrame:
    """What the rules and a judge say of the same steps, from two tables of `behaviour`.

    Columns: `run_id`, `step`, `rules`, `judge` (v2 categories of what was attempted, failed steps
    included). Steps that did not change code, or that the judge left to the rules, do not count.
    `confusion(side_by_side(...), "rules", "judge")` is their table.
    """
    asked = judged[judged["judge"] != "rules"]
    both = rules.merge(asked, on=["run_id", "step"], suffixes=("_rules", "_judge"))
    found = {side: both[f"kind_{side}"].map(OF_KIND) for side in ("rules", "judge")}
    return both[["run_id", "step"]].assign(**found).dropna(ignore_index=True)


def agreement(counts: pd.DataFrame) -> float:
    """Share of equal labels in a table of `confusion`; NaN when it is empty."""
    total = float(counts.to_numpy().sum())
    equal = sum(float(counts.loc[name, name]) for name in counts.index)
    return equal / total if total else float("nan")
