"""The two tables everything else is computed from: a row per run, a row per step, with units.

The columns are the fields below. A number that is not known, or that an agent cannot report, is
NaN, never 0; a text that is not known is empty. Not here: where rows come from (runs, load).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import pandas as pd

CONFIGURATION = ["agent", "llm"]
"""What is compared: an agent with a language model."""
CELL = ["task", "agent", "llm", "seed"]
"""What one run stands for."""
NAN = float("nan")


@dataclass(frozen=True)
class RunRow:
    """One run: an agent, a language model, a task, a seed."""

    run_id: str
    """MLflow run id; `instance` for a run that is only on disk."""
    instance: str
    """Id the run got when it began."""
    sweep: str
    """Sweep that began it."""
    task: str
    """Task name."""
    agent: str
    """Agent name."""
    llm: str
    """Language model name."""
    seed: int
    """Seed (a round in the papers)."""
    identity: str
    """What determines the run, as a name."""
    status: str
    """finished, running, or why it was put down (interrupted, infra, failed)."""
    started: float
    """Seconds since the epoch."""
    journal: str = ""
    """Path of the run's journal; empty while there is none to read."""
    cached: str = ""
    """Folder of its cached tables; empty when they are computed anew each time."""
    version: str = ""
    """Version of fml_hydra that began it."""
    sandbox: str = ""
    """Sandbox level it began under."""
    isolation: str = ""
    """`shared`: the task's own process says what it reached."""
    termination: str = ""
    """Why the search ended: steps, seconds, tokens, dollars, finished_early; empty before."""
    termination_step: float = NAN
    """Steps executed when the search ended."""
    metric: str = ""
    """Primary metric."""
    direction: str = ""
    """`higher` or `lower` is better."""
    best_possible: float = NAN
    """Best value of the metric that can be thought of."""
    worst_possible: float = NAN
    """Worst value; NaN where the baseline's is meant."""
    baseline_val: float = NAN
    """Baseline on val, in the metric's unit."""
    baseline_test: float = NAN
    """Baseline on test, in the metric's unit."""
    best_val: float = NAN
    """Best val metric of any step."""
    best_step: float = NAN
    """The earliest step that has it, numbered from 0 as in MLflow."""
    test: float = NAN
    """Performance: test metric of that step, else the baseline's."""
    fallback: str = ""
    """Why the baseline's stands in; empty when it does not."""
    utility: float = NAN
    """`test`, its sign turned so that higher is better."""
    improvement: float = NAN
    """Gain of `test` over `baseline_test`, in the metric's unit; positive is better."""
    improvement_percent: float = NAN
    """The same in percent of |baseline_test|; NaN for a baseline of 0."""
    normalized_improvement: float = NAN
    """max(0, gain on test / |best - worst|) (arXiv 2605.17373)."""
    normalized_improvement_val: float = NAN
    """The same on val, of the best step; 0 without one."""
    val_test_gap: float = NAN
    """|normalized_improvement_val - normalized_improvement|."""
    steps: int = 0
    """Steps executed."""
    budget: float = NAN
    """Step budget."""
    step_success_rate: float = NAN
    """Steps that ran to a metric / steps executed."""
    step_completion_rate: float = NAN
    """Steps executed / step budget."""
    auc: float = NAN
    """Budget efficiency: mean over steps of the best-so-far normalized gain on val."""
    first_improvement_step: float = NAN
    """First step, counted from 1, better than the baseline on val; NaN if never."""
    late_gain: float = NAN
    """Share of the final gain on val made in the second half of the steps; NaN without gain."""
    best_improvement_step: float = NAN
    """Last step, counted from 1, whose val metric equals the best."""
    flagged_steps: int = 0
    """Steps with a suspicion; no verdict."""
    tokens: float = NAN
    """LLM tokens in and out, those of calls that led to no step included."""
    tokens_input: float = NAN
    """Prompt tokens, cached ones included."""
    tokens_cached: float = NAN
    """Prompt tokens read from the provider's cache."""
    tokens_output: float = NAN
    """Completion tokens, reasoning included."""
    tokens_reasoning: float = NAN
    """Completion tokens of hidden reasoning."""
    tokens_idea: float = NAN
    """`tokens` of ideas and other decisions of the search; NaN where purposes are not all told."""
    tokens_edit: float = NAN
    """`tokens` of edits."""
    tokens_repair: float = NAN
    """`tokens` of mending edits that could not be applied."""
    tokens_analysis: float = NAN
    """`tokens` of analyses of outcomes."""
    tokens_summary: float = NAN
    """`tokens` of summaries of earlier steps."""
    tokens_per_step: float = NAN
    """`tokens` / steps executed."""
    cost_usd: float = NAN
    """US dollars."""
    cost_usd_per_step: float = NAN
    """US dollars / steps executed."""
    seconds: float = NAN
    """Wall time worked on the run, without that of waiting for a provider."""
    seconds_per_step: float = NAN
    """Wall time / steps executed."""
    seconds_llm: float = NAN
    """Time of the LLM calls, added up."""
    seconds_exec: float = NAN
    """Time of the candidates' commands, added up."""


@dataclass(frozen=True)
class StepRow:
    """One step; its task's metrics become columns `metric.<name>`, in their own units."""

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
    k: int
    """Position among the executed steps, counted from 1 as in the papers."""
    op: str
    """Operator: draft, improve, debug, crossover, tune, ablate."""
    parents: str
    """Steps it started from, separated by spaces; empty means the baseline."""
    status: str
    """How it ended: ok, or why there is no metric."""
    ok: bool
    """Whether it has a metric that counts."""
    val: float
    """Primary metric on val."""
    utility: float
    """The same, higher is better."""
    best_val: float
    """Best `val` up to here."""
    gain: float
    """Best-so-far normalized gain over the baseline on val, never below 0."""
    tokens: float
    """LLM tokens in and out."""
    tokens_input: float
    """Prompt tokens, cached ones included."""
    tokens_cached: float
    """Prompt tokens read from the provider's cache."""
    tokens_output: float
    """Completion tokens, reasoning included."""
    tokens_reasoning: float
    """Completion tokens of hidden reasoning."""
    tokens_idea: float
    """`tokens` of ideas and other decisions of the search; NaN where purposes are not all told."""
    tokens_edit: float
    """`tokens` of edits."""
    tokens_repair: float
    """`tokens` of mending edits that could not be applied."""
    tokens_analysis: float
    """`tokens` of analyses of outcomes."""
    tokens_summary: float
    """`tokens` of summaries of earlier steps."""
    cost_usd: float
    """US dollars."""
    seconds_llm: float
    """Time of the LLM calls."""
    seconds_exec: float
    """Time of the candidate's commands."""
    started: float
    """Seconds since the epoch."""
    sandbox: str
    """Sandbox level it ran under; empty when nothing was run."""
    changed_files: int
    """Files that differ from the task's pinned commit."""
    flags: str
    """Suspicions with their evidence, separated by `; `."""
    plan: str
    """First line of what the agent meant to do."""
    error: str
    """Last line of what it was told of a failure."""
    metrics: dict[str, float] = field(default_factory=dict)
    """Every metric of the task on val."""


_KINDS = {float: np.float64, int: np.int64, bool: np.bool_}


def run_table(rows: Iterable[RunRow]) -> pd.DataFrame:
    """The runs' table, oldest first; has its columns even when it is empty."""
    table = _table([vars(row) for row in rows], RunRow)
    return table.sort_values("started", kind="stable", ignore_index=True)


def step_table(rows: Iterable[dict[str, Any]]) -> pd.DataFrame:
    """The steps' table from fields of StepRow, in the given order."""
    rows = list(rows)
    names = sorted({name for row in rows for name in row["metrics"]})
    table = _table(rows, StepRow).drop(columns="metrics")
    own = {f"metric.{n}": [row["metrics"].get(n, NAN) for row in rows] for n in names}
    return table.assign(**own)


def _table(rows: list[dict[str, Any]], kind: type[RunRow] | type[StepRow]) -> pd.DataFrame:
    table = pd.DataFrame(rows, columns=[f.name for f in fields(kind)])
    numbers = {f.name: _KINDS[f.type] for f in fields(kind) if f.type in _KINDS}
    return table.astype(numbers)
