"""What MLflow is told of a run and its steps: names, tags, numbers, tables. Pure.

Not here: when it is sent (delivery), the picture of the tree (tree).
"""

import csv
import getpass
import io
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from fml_hydra.hashing import text_hash
from fml_hydra.journal import Folded, Node
from fml_hydra.metric import Metric
from fml_hydra.summary import Summary, best_so_far, metric_of
from fml_hydra.usage import Spend, Usage

PARAM_CHARS, TAG_CHARS, NAME_CHARS = 6000, 8000, 250
"""MLflow's limits; longer text is an artifact."""
_COMMON = ("task", "agent", "llm", "seed", "identity", "sweep")


def safe_names(names: Iterable[str]) -> dict[str, str]:
    """A name MLflow accepts for each of `names`; two names never share one.

    `acc@5` becomes `acc_5`, unless another name wants that too: then it gets a hash at its end.
    """
    wanted = {name: _accepted(name) for name in names}
    taken = list(wanted.values())
    return {
        name: safe if safe == name or taken.count(safe) == 1 else f"{safe}.{text_hash(name)[:6]}"
        for name, safe in wanted.items()
    }


def _accepted(name: str) -> str:
    """Slashes are replaced although MLflow takes some: a name must not look like a path."""
    clean = re.sub(r"[^\w. -]", "_", name)[: NAME_CHARS - 10]
    return clean if clean.strip(". ") else f"_{clean}"


def cut(text: str, limit: int) -> str:
    """At most `limit` characters, the last one an ellipsis if some are missing."""
    text = text.replace("\x00", "")  # PostgreSQL refuses it
    return text if len(text) <= limit else text[: limit - 1] + "…"


def finite(numbers: Mapping[str, float | None]) -> dict[str, float]:
    """What can be logged: MLflow would store an infinity as 1.8e308."""
    return {k: float(v) for k, v in numbers.items() if v is not None and math.isfinite(v)}


def params(config: Path) -> dict[str, str]:
    """The flat configuration of a run: `agent.policy.num_drafts` and so on.

    Without `agent.prompts`: they are `prompt` once more, long texts that crowd the UI's menus.
    """
    flat = dict(_flat(OmegaConf.to_container(OmegaConf.load(config))))
    flat = {key: value for key, value in flat.items() if not key.startswith("agent.prompts.")}
    names = safe_names(flat)
    return {names[key]: cut(str(value), PARAM_CHARS) for key, value in flat.items()}


def _flat(value: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _flat(inner, f"{prefix}{key}.")
    elif isinstance(value, list):
        yield prefix[:-1], json.dumps(value)
    else:
        yield prefix[:-1], value


def run_tags(header: Mapping[str, Any], summary: Summary) -> dict[str, str]:
    """Tags of a parent run."""
    names = [header["task"], header["agent"], f"s{header['seed']}", header["llm"]]
    return _common_tags(header) | {
        "fml.kind": "run",
        "fml.instance": header["instance"],
        "fml.status": summary.status,
        "fml.sandbox": header["sandbox"],
        "fml.commit": header["commit"],
        "mlflow.runName": " · ".join(names),
    }


def step_tags(header: Mapping[str, Any], node: Node, metric: Metric, parent: str) -> dict[str, str]:
    """Tags of a step; the run's are repeated, since the UI's filters drop children otherwise."""
    tags = _common_tags(header) | {
        "fml.kind": "step",
        "fml.step": str(node.id),
        "fml.op": node.op,
        "fml.parents": ",".join(map(str, node.parents)),
        "fml.status": node.status,
        "fml.sandbox": node.sandbox,
        "mlflow.parentRunId": parent,
        "mlflow.runName": step_name(node, metric),
    }
    failure = "" if node.ok or not node.feedback else f"\n\n~~~~\n{node.feedback}\n~~~~"
    notes = {
        "fml.flags": "; ".join(node.flags),
        "mlflow.note.content": (node.plan + failure).strip(),  # the page's description, markdown
    }
    return tags | {name: text for name, text in notes.items() if text}


def _common_tags(header: Mapping[str, Any]) -> dict[str, str]:
    return {f"fml.{key}": str(header[key]) for key in _COMMON} | {
        "mlflow.user": _user(),
        "mlflow.source.name": "fml_hydra",
        "mlflow.source.type": "LOCAL",
    }


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "unknown"


def step_name(node: Node, metric: Metric) -> str:
    """`07 improve of 4 · mse 0.0132`: sorts by step, says what came of it."""
    return f"{node.id:02d} {origin(node)} · {result(node, metric)}"


def origin(node: Node) -> str:
    """`improve of 4`, `crossover of 2 and 5`; a draft starts from the baseline."""
    return f"{node.op} of {' and '.join(map(str, node.parents))}" if node.parents else node.op


def result(node: Node, metric: Metric) -> str:
    """The metric and its value, or why there is none."""
    return f"{metric.name} {node.metrics[metric.name]:.4g}" if node.ok else node.status


def run_note(summary: Summary, metric: Metric) -> str:
    """What a person reads first on a run's page."""
    lines = [f"{summary.steps} of {summary.budget} steps"]
    if summary.termination:
        lines[0] += f", ended by: {summary.termination}"
    if summary.best_val is not None:
        base = f"baseline {summary.baseline_val:.4g}"
        lines.append(f"best val: **{summary.best_val:.4g}** at step {summary.best_step}, {base}")
    if summary.test is not None:
        stands_in = f" (the baseline's, since {summary.fallback})" if summary.fallback else ""
        value = f"test: **{summary.test:.4g}**{stands_in}"
        lines.append(f"{value}, baseline {summary.baseline_test:.4g}")
    unit = f" in {metric.unit}" if metric.unit else ""
    return "  \n".join([f"{metric.name}{unit}, {metric.direction} is better", *lines])


def step_numbers(node: Node) -> dict[str, float]:
    """Metrics of a step: what it cost, and all of the task's."""
    own = {
        "tokens": node.usage.total,
        "tokens_input": node.usage.input,
        "tokens_output": node.usage.output,
        **by_purpose(node.usage),
        "cost_usd": node.cost,
        "seconds_llm": node.seconds_llm,
        "seconds_exec": node.seconds_exec,
    }
    task = {(f"task.{name}" if name in own else name): v for name, v in node.metrics.items()}
    names = safe_names(task)
    return finite({names[name]: value for name, value in task.items()} | own)


def by_purpose(usage: Usage) -> dict[str, float]:
    """`tokens.idea`, `tokens.edit`, ...: tokens in and out by what they were for."""
    return {f"tokens.{purpose}": count for purpose, count in usage.purposes.items()}


def points(state: Folded) -> list[dict[str, float]]:
    """The parent's curves, one point per step; spend is cumulative.

    Ends before the first step that is still at work, since later points depend on it.
    """
    metric = metric_of(state)
    nodes = [n for position, n in enumerate(state.history()) if n.id == position]
    curve, spent, seconds_exec = [], Spend(), 0.0
    for node, best in zip(nodes, best_so_far(nodes, metric), strict=True):
        spent += Spend(node.usage, node.cost, node.seconds_llm)
        seconds_exec += node.seconds_exec
        numbers = {
            "val": metric.value(node.utility) if node.ok and node.utility is not None else None,
            "best_val": best,
            "tokens": spent.usage.total,
            **by_purpose(spent.usage),
            "cost_usd": spent.cost,
            "seconds_llm": spent.seconds,
            "seconds_exec": seconds_exec,
        }
        curve.append(finite(numbers))
    return curve


def end_numbers(summary: Summary) -> dict[str, float]:
    """Metrics of the parent when a run ends, or is put down."""
    return finite(
        {
            "test": summary.test,
            "improvement": summary.improvement,
            "normalized_improvement": summary.normalized_improvement,
            "step_success_rate": summary.success_rate,
            "step_completion_rate": summary.completion_rate,
            "seconds": summary.seconds,
        }
    )


def steps_csv(nodes: Iterable[Node]) -> str:
    """One row per step, for people and spreadsheets."""
    nodes = list(nodes)
    names = sorted({name for node in nodes for name in node.metrics})
    columns = ["step", "op", "parents", "status", "utility", *names, "tokens", "cost_usd"]
    columns += ["seconds_llm", "seconds_exec", "sandbox", "flags", "plan"]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for n in nodes:
        values = [n.metrics.get(name) for name in names]
        parents, flags = " ".join(map(str, n.parents)), "; ".join(n.flags)
        row = [n.id, n.op, parents, n.status, n.utility, *values, n.usage.total, n.cost]
        writer.writerow([*row, n.seconds_llm, n.seconds_exec, n.sandbox, flags, n.plan])
    return text.getvalue()
