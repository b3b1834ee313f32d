"""A run of ours in FML-bench's words: its `summary.json` and `*_info.json`. Pure.

Not here: files and folders (writing).
"""

from collections.abc import Mapping

from fml_hydra.exchange.layout import SNAPSHOTS, Json
from fml_hydra.exchange.reading import KEY, snapshot_name
from fml_hydra.journal import Folded, Node
from fml_hydra.metric import Metric
from fml_hydra.summary import metric_of, summarize


def summary_of(state: Folded, workspace: str) -> Json:
    """Content of `summary.json`; `workspace` is the run's folder as the script would name it."""
    header = state.header
    summary, metric = summarize(state), metric_of(state)
    told = summary.tokens is not None
    return {
        "benchmark": header["task"],
        "agent": header["agent"],
        "model": header["llm"],
        "provider": "",
        "agent_params": {"max_steps": header["steps"]},
        "task_config": {
            "metric": metric.name,
            "metric_direction": str(metric.direction),
            "conda_env": "",
            "repo_dir": repo_of(state),
            "target_files": sorted(header["pristine"]),
        },
        "baseline_primary_metric": summary.baseline_val,
        "total_steps": summary.steps,
        "total_ideas": sum(not node.parents for node in state.history()),
        "total_duration_seconds": summary.seconds,
        "best_val_metric": summary.best_val,
        "test_result": _test_result(state, metric),
        "val_steps": [_step(node, header["task"], metric) for node in state.history()],
        "token_usage": _tokens(summary.spend.usage.input, summary.tokens) if told else {},
        "parent_workspace": workspace,
        "save_code_backup": False,
        "metadata": {"exported_from": "fml_hydra", "identity": header["identity"]},
    }


def _test_result(state: Folded, metric: Metric) -> Json | None:
    test = state.test or {}
    if state.history().best() is None:
        return None
    if error := test.get("fallback"):
        return {"success": False, "results": None, "primary_metric": None, "error": error}
    results = info_of(state.header["task"], test["metrics"], metric, test["value"])
    return {"success": True, "results": results, "primary_metric": test["value"], "error": None}


def _step(node: Node, task: str, metric: Metric) -> Json:
    value = metric.value(node.utility) if node.ok and node.utility is not None else None
    results = None if value is None else info_of(task, node.metrics, metric, value)
    error = None if node.ok else f"{node.status}: {node.feedback}"
    return {
        "step_id": node.id + 1,
        "idea_id": f"node_{node.id}",
        "idea_description": (node.plan.strip().splitlines() or [""])[0],
        "action": node.op,
        "edit_success": node.status not in {"edit_failed", "noop"},
        "val_result": {
            "success": node.ok,
            "results": results,
            "primary_metric": value,
            "error": error,
        },
        "primary_metric": value,
        "token_usage": _tokens(node.usage.input, node.usage.total),
        "step_duration_seconds": node.seconds_llm + node.seconds_exec,
        "metadata": {
            "node_id": str(node.id),
            "parent_id": str(node.parents[0]) if node.parents else "",
            "code_snapshot_path": f"{SNAPSHOTS}/{snapshot_name(node.id + 1)}",
            "instruction": node.plan,
            "analysis": node.analysis,
            "status": node.status,
        },
    }


def _tokens(prompt: int, total: int | None) -> Json:
    output = (total or 0) - prompt
    return {"prompt_tokens": prompt, "completion_tokens": output, "total_tokens": total}


def info_of(task: str, metrics: Mapping[str, float], metric: Metric, value: float) -> Json:
    """Content of `val_info.json` or `test_info.json`: one data set, named as the task."""
    means = {**metrics, metric.name: value}
    return {task: {"means": means, "stderrs": {}, "final_info_dict": means}}


def repo_of(state: Folded) -> str:
    """Where FML-bench would have the task's repository: three parts, the second names the task."""
    config = state.header.get(KEY, {}).get("summary", {}).get("task_config") or {}
    inner = "/".join(str(config.get("repo_dir") or "").split("/")[2:])
    return f"workspace/{state.header['task']}/{inner or 'repo'}"
