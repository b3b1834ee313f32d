"""A row per step: what kind of change it tried, and how.

A step is compared with the step it started from (the first, if there are several), else with the
baseline in the run's journal. Not here: comparisons of configurations (shares).
"""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import lru_cache

import pandas as pd

from fml_hydra.analysis.behaviour.categories import (
    ACADEMIC,
    category_of,
    is_implementation_error,
)
from fml_hydra.analysis.behaviour.classify import Finding, classify
from fml_hydra.analysis.behaviour.installed import repository_of
from fml_hydra.analysis.behaviour.judge import Judge, Question, RulesJudge
from fml_hydra.analysis.behaviour.reach import Repository
from fml_hydra.analysis.load import read_journal
from fml_hydra.edits import diff
from fml_hydra.errors import JournalError
from fml_hydra.journal import Folded, Node

log = logging.getLogger(__name__)
RULES = RulesJudge()
"""Decides unless told otherwise."""
Files = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class BehaviourRow:
    """What one step did."""

    run_id: str
    """The run's, as in its row."""
    task: str
    """Task name."""
    agent: str
    """Agent name."""
    llm: str
    """Language model name."""
    seed: int
    """Seed of the run."""
    step: int
    """Number of the step from 0, as in MLflow."""
    status: str
    """How it ended."""
    category: str
    """The v2 category (categories)."""
    kind: str
    """What was attempted, finer, also where it failed; empty when nothing changed or unreadable."""
    rule: str
    """The rule that decided the kind; empty when a model did."""
    academic: bool | None
    """Whether the change is academic (v1); None where no code changed or it cannot be read."""
    shallow: bool
    """Whether it added definitions that nothing reaches, and left the outputs as they were."""
    changes: str
    """What changed, in a few words."""
    judge: str
    """Who decided: `rules`, or the name of a language model."""


def behaviour(runs: pd.DataFrame, judge: Judge = RULES) -> pd.DataFrame:
    """A row per step (`BehaviourRow`) of `runs`, in the order of the runs.

    Runs without a journal to read are left out, with a line in the log. A task that is unknown to
    this installation is compared all the same; that something is not reached is then seen only of
    what nothing mentions. `judge` is asked about every change that can be read.
    """
    rows = [vars(row) for _, run in runs.iterrows() for row in _of_run(run, judge)]
    table = pd.DataFrame(rows, columns=[f.name for f in fields(BehaviourRow)])
    return table.astype({"academic": "boolean", "shallow": "bool"})


def _of_run(run: pd.Series, judge: Judge) -> Iterator[BehaviourRow]:
    try:
        state = read_journal(run)
    except (JournalError, OSError) as error:
        log.warning("behaviour: %s", error)
        return
    repository = repository_of(str(run["task"]))
    for node in state.history():
        finding = _classified(files_before(state, node), files_of(state, node), repository)
        if finding.kind and _repairs(state, node):
            finding = replace(finding, kind="bugfix", rule="repairs a step that failed")
        yield _row(run, state, node, finding, judge)


def _row(run: pd.Series, state: Folded, node: Node, finding: Finding, judge: Judge) -> BehaviourRow:
    verdict = judge.kind(_question(state, node)) if finding.kind else None
    kind = verdict or finding.kind
    return BehaviourRow(
        run_id=str(run["run_id"]),
        task=str(run["task"]),
        agent=str(run["agent"]),
        llm=str(run["llm"]),
        seed=int(run["seed"]),
        step=node.id,
        status=node.status,
        category=category_of(kind, is_implementation_error(state, node)),
        kind=kind or "",
        rule="" if verdict else finding.rule,
        academic=kind in ACADEMIC if kind else None,
        shallow=bool(finding.unreached) and _same_outputs(state, node),
        changes=finding.changes,
        judge=judge.name if verdict else RULES.name,
    )


def _question(state: Folded, node: Node) -> Question:
    before, after = dict(files_before(state, node)), dict(files_of(state, node))
    return Question(str(state.header["task"]), node.plan, diff(before, after))


def files_of(state: Folded, node: Node) -> Files:
    """The target files as the step left them, by path."""
    return _sorted({**state.header.get("pristine", {}), **node.snapshot})


def files_before(state: Folded, node: Node) -> Files:
    """The target files as the step found them."""
    parent = state.nodes.get(node.parents[0]) if node.parents else None
    return files_of(state, parent) if parent else _sorted(state.header.get("pristine", {}))


def _sorted(files: Mapping[str, str]) -> Files:
    return tuple(sorted(files.items()))


@lru_cache(maxsize=4096)
def _classified(before: Files, after: Files, repository: Repository) -> Finding:
    return classify(dict(before), dict(after), repository)


def _repairs(state: Folded, node: Node) -> bool:
    """Whether it is a debug step of one that failed by its own fault."""
    parent = state.nodes.get(node.parents[0]) if node.parents else None
    return node.op == "debug" and parent is not None and is_implementation_error(state, parent)


def _same_outputs(state: Folded, node: Node) -> bool:
    """Whether its outputs are those of the baseline or of a step it started from."""
    known = {state.header.get("baseline_outputs", "")}
    known |= {state.nodes[p].outputs for p in node.parents if p in state.nodes}
    return bool(node.outputs) and node.outputs in known
