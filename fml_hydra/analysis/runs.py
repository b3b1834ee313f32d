"""A run's journal as rows of the two tables. Definitions: FML-bench (2510.10472, 2605.17373).

Not here: metrics that need code embeddings, and comparisons of runs.
"""

import math
from pathlib import Path
from typing import Any

from fml_hydra.analysis import curves
from fml_hydra.analysis.rows import NAN, RunRow, StepRow
from fml_hydra.journal import Folded, Node
from fml_hydra.metric import Metric
from fml_hydra.summary import Summary, metric_of, summarize
from fml_hydra.usage import PURPOSES, Usage


def run_row(state: Folded, run_id: str = "", journal: Path | None = None) -> RunRow:
    """The row of a run whose journal has at least its first `open` event."""
    header, summary, metric = state.header, summarize(state), metric_of(state)
    return RunRow(
        run_id=run_id or str(header["instance"]),
        instance=header["instance"],
        sweep=header["sweep"],
        task=summary.task,
        agent=summary.agent,
        llm=summary.llm,
        seed=summary.seed,
        identity=summary.identity,
        status=summary.status,
        started=header["started"],
        journal=str(journal or ""),
        version=str(header.get("versions", {}).get("fml_hydra", "")),
        sandbox=summary.sandbox,
        isolation=summary.isolation,
        termination=summary.termination,
        termination_step=_number((state.closed or {}).get("step")),
        metric=metric.name,
        direction=str(metric.direction),
        best_possible=metric.best,
        worst_possible=_number(metric.worst),
        steps=summary.steps,
        budget=float(summary.budget),
        step_success_rate=_number(summary.success_rate),
        step_completion_rate=summary.completion_rate,
        flagged_steps=sum(bool(n.flags) for n in state.nodes.values()),
        **_performance(summary, metric),
        **_progress(list(state.history()), metric, summary.baseline_val),
        **_spent(summary, external="spend" in state.notes),
    )


def step_rows(state: Folded, run_id: str = "") -> list[StepRow]:
    """The rows of a run's steps, in order."""
    summary, metric = summarize(state), metric_of(state)
    nodes = list(state.history())
    gains = curves.gain_curve(nodes, metric, summary.baseline_val)
    bests = curves.best_utilities(nodes)
    run = {key: getattr(summary, key) for key in ("task", "agent", "llm", "seed")}
    run["run_id"] = run_id or str(state.header["instance"])
    return [
        StepRow(
            **run,
            k=k,
            gain=gain,
            best_val=NAN if best is None else metric.value(best),
            **_step(node, metric, told=summary.tokens is not None),
        )
        for k, (node, gain, best) in enumerate(zip(nodes, gains, bests, strict=True), start=1)
    ]


def _performance(summary: Summary, metric: Metric) -> dict[str, Any]:
    test, base = _number(summary.test), summary.baseline_test
    gain = _number(summary.improvement)
    on_test = _number(summary.normalized_improvement)
    on_val = 0.0
    if summary.best_val is not None:
        on_val = metric.normalized_improvement(summary.best_val, summary.baseline_val)
    return {
        "baseline_val": summary.baseline_val,
        "baseline_test": base,
        "best_val": _number(summary.best_val),
        "best_step": _number(summary.best_step),
        "test": test,
        "fallback": summary.fallback,
        "utility": metric.utility(test),
        "improvement": gain,
        "improvement_percent": 100 * gain / abs(base) if base else NAN,
        "normalized_improvement": on_test,
        "normalized_improvement_val": on_val,
        "val_test_gap": abs(on_val - on_test),
    }


def _progress(nodes: list[Node], metric: Metric, baseline: float) -> dict[str, Any]:
    curve = curves.gain_curve(nodes, metric, baseline)
    return {
        "auc": curves.area(curve),
        "first_improvement_step": curves.first_improvement(curve),
        "late_gain": curves.late_gain(curve),
        "best_improvement_step": curves.best_improvement(nodes),
    }


def _spent(summary: Summary, external: bool) -> dict[str, Any]:
    """A program that does not tell its tokens or dollars has none here, rather than 0."""
    spend, tokens = summary.spend, _number(summary.tokens)
    usage, cost = spend.usage, _number(spend.cost)
    told = summary.tokens is not None
    per = 1 / summary.steps if summary.steps else NAN
    return {
        **_tokens(usage, told),
        "tokens_per_step": tokens * per,
        "cost_usd": cost,
        "cost_usd_per_step": cost * per,
        "seconds": summary.seconds,
        "seconds_per_step": summary.seconds * per,
        "seconds_llm": NAN if external and not spend.seconds else spend.seconds,
        "seconds_exec": summary.seconds_exec,
    }


def _tokens(usage: Usage, told: bool) -> dict[str, float]:
    """Tokens of a run or a step by kind and by purpose; NaN where they are not told."""
    kinds = {"tokens": usage.total, "tokens_input": usage.input, "tokens_cached": usage.cached}
    kinds |= {"tokens_output": usage.output, "tokens_reasoning": usage.reasoning}
    purposes = {f"tokens_{purpose}": usage.purposes.get(purpose, 0) for purpose in PURPOSES}
    known = told and usage.known_purposes
    return {name: float(count) if told else NAN for name, count in kinds.items()} | {
        name: float(count) if known else NAN for name, count in purposes.items()
    }


def _step(node: Node, metric: Metric, told: bool) -> dict[str, Any]:
    usage = node.usage
    utility = _number(node.utility if node.ok else None)
    feedback = node.feedback.strip().splitlines()
    return {
        "step": node.id,
        "op": node.op,
        "parents": " ".join(map(str, node.parents)),
        "status": node.status,
        "ok": node.ok,
        "val": metric.value(utility),
        "utility": utility,
        **_tokens(usage, told),
        "cost_usd": _number(node.cost),
        "seconds_llm": node.seconds_llm,
        "seconds_exec": node.seconds_exec,
        "started": node.started,
        "sandbox": node.sandbox,
        "changed_files": len(node.snapshot),
        "flags": "; ".join(node.flags),
        "plan": (node.plan.strip().splitlines() or [""])[0],
        "error": "" if node.ok or not feedback else feedback[-1],
        "metrics": node.metrics,
    }


def _number(value: float | None) -> float:
    return NAN if value is None or not math.isfinite(value) else float(value)
