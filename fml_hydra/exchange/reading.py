"""A run of FML-bench as the journal of a run of ours. Pure: files are read by layout.

What the journal has no place for stays in it under `fml_bench`, so that writing can give back all
of it. What FML-bench does not tell (LLM seconds, dollars) is not invented.
"""

import calendar
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fml_hydra.errors import TaskError
from fml_hydra.exchange.layout import Json, Result, storable
from fml_hydra.exchange.tasks import NO_CODE, ScoredTask
from fml_hydra.hashing import value_hash
from fml_hydra.journal import History, Node, Status
from fml_hydra.usage import Usage

KEY = "fml_bench"
"""Where an event keeps what came from FML-bench."""
DEFAULT_BUDGET = 50
"""Steps of an agent whose parameters name no budget."""
SANDBOX = "imported"
"""In place of a sandbox level: we did not watch over it."""


@dataclass(frozen=True)
class Place:
    """Where an imported run belongs among ours."""

    seed: int
    """The round it stands for; FML-bench does not number them."""
    sweep: str
    """Name of the import."""


def instance_of(result: Result) -> str:
    """Id of the run: the same result has the same one, wherever it lies."""
    return value_hash([storable(result.summary), result.snapshots])[:32]


def identity_of(result: Result, seed: int) -> str:
    """Name of the run's folder."""
    names = (result.summary["benchmark"], result.summary["agent"], model_of(result))
    parts = (*names, f"s{seed}", instance_of(result)[:12])
    return ".".join(part.replace("/", "-") for part in parts)


def model_of(result: Result) -> str:
    """The language model's name."""
    return str(result.summary.get("model") or "unknown")


def journal_of(result: Result, task: ScoredTask, place: Place) -> list[Json]:
    """The run's events; raises TaskError when the baseline is not known."""
    began = _began(result)
    steps = result.summary["val_steps"]
    told = result.summary.get("total_duration_seconds")
    ended = began + (sum(map(_seconds, steps)) if told is None else float(told))
    header = _header(result, task, place, began)
    nodes = _nodes(result, task, began)
    reason = "steps" if len(nodes) >= header["steps"] else "finished_early"
    spent = _usage(result.summary.get("token_usage"))
    note = {"usage": asdict(spent) if spent else None, "cost": None}
    return [
        {"e": "open", "t": began, **header},
        *({"e": "node", "t": min(ended, _over(node)), **asdict(node)} for node in nodes),
        {"e": "note", "t": ended, "key": "spend", "value": note},
        {"e": "close", "t": ended, "reason": reason, "step": len(nodes)},
        {"e": "test", "t": ended, **_test(result, task, header["baseline"], nodes)},
    ]


def remarks(result: Result, task: ScoredTask) -> list[str]:
    """What a journal cannot say as FML-bench does, for the person who imports it."""
    summary, said = result.summary, list[str]()
    count, told = len(summary["val_steps"]), summary.get("total_steps")
    if told is not None and told != count:
        said.append(f"total_steps is {told}, but {count} steps are recorded")
    base = summary.get("baseline_primary_metric")
    if base is not None and task.baseline.get("val", base) != base:
        said.append(f"its baseline on val is {base}, the task's {task.baseline['val']}")
    if not task.code:
        said.append("the baseline's code is not known (bench=...), so there is no Reach")
    if result.left_out:
        said.append(f"left out, as too large or no text: {', '.join(result.left_out)}")
    return said


def _header(result: Result, task: ScoredTask, place: Place, began: float) -> Json:
    summary = result.summary
    baseline = _baselines(result, task)
    name = task.metric.name
    rest = {**summary, "val_steps": None}  # the nodes have them; the order of the keys stays
    used = {snapshot_name(step["step_id"]) for step in summary["val_steps"]}
    unused = {n: code for n, code in result.snapshots.items() if n not in used}
    own = {
        "run": result.folder.name,
        "summary": rest,
        "files": result.files,
        "snapshots": unused,
        "baseline": {"val": summary.get("baseline_primary_metric"), **task.baseline},
        "task": task.range,
        "test": result.test.why,
    }
    return {
        "identity": identity_of(result, place.seed),
        "instance": instance_of(result),
        "sweep": place.sweep,
        "task": summary["benchmark"],
        "agent": summary["agent"],
        "llm": model_of(result),
        "seed": place.seed,
        "steps": max(_budget(summary), len(summary["val_steps"])),
        "metric": {**vars(task.metric), "direction": str(task.metric.direction)},
        "baseline": {split: {name: value} for split, value in baseline.items()},
        "baseline_utility": task.metric.utility(baseline["val"]),
        "pristine": dict(task.code),
        "commit": task.commit,
        "sandbox": SANDBOX,
        "isolation": "shared",
        "started": began,
        "versions": {},
        KEY: storable(own),
    }


def _budget(summary: Json) -> int:
    """What FML-bench's agents were allowed; 50 steps unless their parameters say otherwise."""
    params = summary.get("agent_params") or {}
    return int(params.get("max_steps") or params.get("max_iter") or DEFAULT_BUDGET)


def _baselines(result: Result, task: ScoredTask) -> dict[str, float]:
    """On val as the run itself was told, on test as FML-bench's task says."""
    told = result.summary.get("baseline_primary_metric")
    raw = {"val": task.baseline.get("val") if told is None else told}
    raw["test"] = task.baseline.get("test")
    found = {split: task.compared(value) for split, value in raw.items()}
    known = {split: value for split, value in found.items() if value is not None}
    for split in raw.keys() - known.keys():
        raise TaskError(
            f"{result.folder}: the baseline of {task.name} on {split} is not known; name the"
            " folder of FML-bench whose ml_tasks/ has it as bench=FOLDER"
        )
    return known


def _began(result: Result) -> float:
    """The folder's name as a time (UTC, so that it is the same everywhere)."""
    try:
        return float(calendar.timegm(time.strptime(result.folder.name[:15], "%Y%m%d_%H%M%S")))
    except ValueError:
        return float(math.floor((result.folder / "summary.json").stat().st_mtime))


def _nodes(result: Result, task: ScoredTask, began: float) -> list[Node]:
    """One per step, in order; each begins when the one before it ends."""
    nodes, ids, now = list[Node](), dict[str, int](), began
    for number, told in enumerate(result.summary["val_steps"]):
        parent = ids.get(str((told.get("metadata") or {}).get("parent_id") or ""))
        parents = () if parent is None else (parent,)
        nodes.append(_node(result, task, number, parents, now))
        now = _over(nodes[-1])
        for name in ((told.get("metadata") or {}).get("node_id"), told.get("idea_id")):
            ids.setdefault(str(name), number)
    return nodes


def _over(node: Node) -> float:
    return node.started + node.seconds_exec


def _node(
    result: Result, task: ScoredTask, number: int, parents: tuple[int, ...], started: float
) -> Node:
    told = result.summary["val_steps"][number]
    val: Json = told.get("val_result") or {}
    value = task.compared(told.get("primary_metric"))
    status = _status(val, value)
    snapshot, kept = _code(result, task, told["step_id"])
    return Node(
        id=number,
        op=str(told.get("action") or "step"),
        parents=parents,
        meta={KEY: storable({"step": told, **kept})},
        status=status,
        utility=task.metric.utility(value) if status == "ok" and value is not None else None,
        metrics=_metrics(val.get("results"), task, value),
        snapshot=snapshot,
        plan=str(told.get("idea_description") or ""),
        analysis=str((told.get("metadata") or {}).get("analysis") or ""),
        feedback=str(val.get("error") or ""),
        usage=_usage(told.get("token_usage")) or Usage(),
        cost=None,
        seconds_exec=_seconds(told),
        started=started,
        sandbox=SANDBOX,
    )


def _seconds(told: Mapping[str, Any]) -> float:
    """Wall time of a step; FML-bench does not tell the LLM's share of it apart."""
    return float(told.get("step_duration_seconds") or 0.0)


def _status(val: Json, value: float | None) -> Status:
    error = str(val.get("error") or "")
    if val.get("success") is True:
        return "no_metric" if value is None else "ok"
    if error.startswith("Timeout after"):
        return "timeout"
    if error.startswith("Results file not found"):
        return "no_metric"
    return "protected" if error.startswith("Workspace corrupted") else "crash"


def _code(result: Result, task: ScoredTask, step_id: int) -> tuple[dict[str, str], Json]:
    """The code files that differ from the baseline; and, to be kept, what else the file says."""
    told = result.snapshots.get(snapshot_name(step_id))
    if told is None:
        return {}, {}
    repo = str((result.summary.get("task_config") or {}).get("repo_dir") or "")
    names = {key: _relative(key, repo) for key in told}
    code = {n for n in names.values() if Path(n).name not in NO_CODE}
    code &= task.code.keys() or code
    snapshot = {
        n: told[key] for key, n in names.items() if n in code and told[key] != task.code.get(n)
    }
    aside = {key: told[key] for key, name in names.items() if name not in code}
    return snapshot, {"keys": {n: key for key, n in names.items() if n in code}, "aside": aside}


def snapshot_name(step_id: int) -> str:
    """Name of the file with the code after a step."""
    return f"step_{step_id:04d}_code.json"


def _relative(key: str, repo: str) -> str:
    """A file's path in the repository; keys begin with the run's own copy of it."""
    if repo and key.startswith(f"{repo}/"):
        return key.removeprefix(f"{repo}/")
    return key.split("/", 2)[-1]


def _metrics(results: Any, task: ScoredTask, value: float | None) -> dict[str, float]:
    """The primary metric, and every mean of every data set as `dataset.name`."""
    found = {} if value is None else {task.metric.name: value}
    for dataset, told in results.items() if isinstance(results, dict) else ():
        means = told.get("means") if isinstance(told, dict) else None
        for name, number in means.items() if isinstance(means, dict) else ():
            if isinstance(number, int | float) and math.isfinite(number):
                found[f"{dataset}.{name}"] = float(number)
    return found


def _usage(told: Any) -> Usage | None:
    """Tokens as FML-bench counts them: what is no prompt is output. None if it does not tell."""
    if not isinstance(told, dict) or told.get("total_tokens") is None:
        return None
    total, prompt = int(told["total_tokens"]), int(told.get("prompt_tokens") or 0)
    return Usage(input=min(prompt, total), output=max(0, total - prompt))


def _test(result: Result, task: ScoredTask, baseline: Json, nodes: Sequence[Node]) -> Json:
    """The baseline stands in where FML-bench's script lets it stand in."""
    name, best = task.metric.name, History(nodes, None, {}).best()
    base = {"value": baseline["test"][name], "step": best.id if best else None, "metrics": {}}
    if best is None:
        return {**base, "fallback": "no step has a metric"}
    value = task.compared(task.raw(result.test.info))
    if value is None:
        why = result.test.why or "metric_extraction_failed"
        return {**base, "fallback": f"final test: {why}"}
    return {**base, "value": value, "metrics": {name: value}, "status": "ok"}
