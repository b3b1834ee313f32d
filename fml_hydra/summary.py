"""What a run amounts to: the numbers of its row in every table, folded from its journal.

Definitions are those of FML-bench (arXiv 2510.10472, 2605.17373). Not here: comparisons of runs.
"""

from dataclasses import dataclass, replace

from fml_hydra.journal import Folded, Node
from fml_hydra.metric import Metric
from fml_hydra.usage import Spend, Usage

PAUSED = "waiting"
"""Reason of a `pause` of the clock, while the process goes on."""
UNFINISHED = "unfinished"
"""Key of the note with the spend of calls that led to no step."""


@dataclass(frozen=True)
class Summary:
    """One run's row."""

    task: str
    """Task name."""
    agent: str
    """Agent name."""
    llm: str
    """Language model name."""
    seed: int
    """Seed of the run (a round in the papers)."""
    identity: str
    """What determines the run, as a name."""
    status: str
    """finished, running, or why it was put down (interrupted, infra, failed)."""
    termination: str
    """Why the search ended: steps, seconds, tokens, dollars, finished_early; empty before."""
    baseline_val: float
    """Primary metric of the baseline on val."""
    baseline_test: float
    """Primary metric of the baseline on test."""
    best_val: float | None
    """Best val metric of any step; None if no step has one."""
    best_step: int | None
    """The earliest step that has it."""
    test: float | None
    """Performance: test metric of the best step, else the baseline's; None until the end."""
    fallback: str
    """Why the baseline's test metric stands in; empty when it does not."""
    improvement: float | None
    """test minus baseline_test in utility, in the metric's unit."""
    normalized_improvement: float | None
    """max(0, improvement / |best - worst|)."""
    noise: float | None
    """Standard deviation of the baseline's test metric over seeds, where it is known."""
    steps: int
    """Steps executed."""
    budget: int
    """Step budget."""
    success_rate: float | None
    """Steps that ran to a metric / steps executed; None without a step."""
    completion_rate: float
    """Steps executed / step budget."""
    spend: Spend
    """LLM tokens (by purpose, too), dollars and seconds over all steps and of the calls that led to
    none, or an external program's own account."""
    tokens: int | None
    """LLM tokens in and out; None when a program does not tell."""
    seconds_exec: float
    """Seconds the candidates' commands took."""
    seconds: float
    """Wall time worked on the run, without that of waiting for a provider."""
    sandbox: str
    """Sandbox level the run began under."""
    isolation: str
    """`shared`: the task's own process says what it reached."""


def metric_of(state: Folded) -> Metric:
    """The primary metric of a run's task."""
    return Metric(**state.header["metric"])


def best_so_far(nodes: list[Node], metric: Metric) -> list[float | None]:
    """Best val metric after each of `nodes`, in its unit; None before the first good one."""
    curve: list[float | None] = []
    best: float | None = None
    for node in nodes:
        if node.ok and node.utility is not None and (best is None or node.utility > best):
            best = node.utility
        curve.append(None if best is None else metric.value(best))
    return curve


def summarize(state: Folded) -> Summary:
    """The row of a run whose journal has at least its first `open` event."""
    header, metric = state.header, metric_of(state)
    nodes = list(state.history())
    best = state.history().best()
    test = state.test or {}
    base_test = header["baseline"]["test"][metric.name]
    value = test.get("value")
    spend = sum((Spend(n.usage, n.cost, n.seconds_llm) for n in nodes), _unfinished(state))
    tokens: int | None = spend.usage.total
    if told := state.notes.get("spend"):  # an external program's, its last words included
        usage = Usage(**told["usage"]) if told["usage"] else Usage()
        spend = replace(spend, usage=usage, cost=told["cost"])
        tokens = usage.total if told["usage"] else None
    return Summary(
        **{key: header[key] for key in ("task", "agent", "llm", "seed", "identity")},
        status=_status(state),
        termination=(state.closed or {}).get("reason", ""),
        baseline_val=header["baseline"]["val"][metric.name],
        baseline_test=base_test,
        best_val=None if best is None or best.utility is None else metric.value(best.utility),
        best_step=best.id if best else None,
        test=value,
        fallback=test.get("fallback", ""),
        improvement=None if value is None else metric.improvement(value, base_test),
        normalized_improvement=(
            None if value is None else metric.normalized_improvement(value, base_test)
        ),
        noise=((header.get("noise") or {}).get("sd") or {}).get("test"),
        steps=len(nodes),
        budget=header["steps"],
        success_rate=sum(n.ok for n in nodes) / len(nodes) if nodes else None,
        completion_rate=min(1.0, len(nodes) / header["steps"]),  # refused edits may be free
        spend=spend,
        tokens=tokens,
        seconds_exec=sum(n.seconds_exec for n in nodes),
        seconds=state.seconds,
        sandbox=header["sandbox"],
        isolation=header["isolation"],
    )


def _unfinished(state: Folded) -> Spend:
    """Of calls that led to no step."""
    note = state.notes.get(UNFINISHED)
    return Spend(Usage(**note["usage"]), note["cost"], note["seconds"]) if note else Spend()


def _status(state: Folded) -> str:
    if state.test is not None:
        return "finished"
    reason = state.paused["reason"] if state.paused else PAUSED
    return "running" if reason == PAUSED else str(reason)
