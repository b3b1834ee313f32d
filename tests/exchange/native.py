"""Results in FML-bench's layout as FML-bench writes them, made up for the tests."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

REPO = {"Fairness_and_Bias_aif360": "AIF360", "Causality_causalml": "causalml"}
BASE = {"lib/a.py": "a = 1\n", "lib/b.py": "b = 1\n"}


def put(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content, indent=2))


def info(dataset: str, key: str, value: float, **more: Any) -> dict[str, Any]:
    """What a task's script writes."""
    told = {"means": {key: value, "other_mean": 7.0}, "stderrs": {}, "final_info_dict": more}
    return {dataset: told}


def checkout(root: Path, task: str, dataset: str, key: str, val: float, test: float) -> Path:
    """What of FML-bench a task needs: configuration, baseline, repository."""
    repo = f"workspace/{task}/{REPO.get(task, 'code')}"
    config = {"repo_dir": repo, "pinned_commit": "c0ffee", "metric": key}
    put(root / "ml_tasks" / task / "config.json", config | {"target_files": list(BASE)})
    for split, value in (("val", val), ("test", test)):
        place = root / "ml_tasks" / task / "baseline_results"
        put(place / f"{split}_info.json", info(dataset, key, value))
    for name, text in BASE.items():
        put(root / repo / name, text)
    return root


def step(number: int, value: float | None, action: str = "improve", **more: Any) -> dict[str, Any]:
    """One entry of val_steps; `value` None: it crashed."""
    ok = value is not None
    val = {"success": ok, "results": None, "primary_metric": value, "error": None if ok else "boom"}
    usage = {"prompt_tokens": 70, "completion_tokens": 20, "total_tokens": 100}
    return {
        "step_id": number,
        "idea_id": f"i{number}",
        "idea_description": f"idea {number}",
        "action": action,
        "edit_success": True,
        "val_result": val,
        "primary_metric": value,
        "token_usage": usage,
        "step_duration_seconds": 60.0,
        "metadata": {"instruction": f"do {number}", "analysis": None},
        **more,
    }


def result(
    results: Path,
    agent: str,
    task: str,
    steps: Sequence[dict[str, Any]],
    stamp: str = "20260102_030405",
    **summary: Any,
) -> Path:
    """A run's folder without a final test; each step changes lib/a.py, lib/b.py stays."""
    folder = results / agent / task / stamp
    repo = f"workspace/{task}__{stamp}_ab12cd34/{REPO.get(task, 'code')}"
    valid = [s["primary_metric"] for s in steps if s["primary_metric"] is not None]
    told = {
        "benchmark": task,
        "agent": agent,
        "model": "gpt-5",
        "provider": "OpenAI",
        "agent_params": {"num_drafts": 5},
        "task_config": {"repo_dir": repo, "target_files": list(BASE)},
        "total_steps": len(steps),
        "total_ideas": 1,
        "total_duration_seconds": 1800.5,
        "best_val_metric": min(valid) if valid else None,
        "test_result": None,
        "val_steps": list(steps),
        "token_usage": {"prompt_tokens": 700, "completion_tokens": 200, "total_tokens": 1000},
        "parent_workspace": f"{agent}/{task}/{stamp}",
        "save_code_backup": False,
        "metadata": {},
        **summary,
    }
    put(folder / "summary.json", told)
    put(folder / "config_used.yaml", "agent:\n  type: " + agent + "\n")
    for s in steps:
        code = {f"{repo}/lib/a.py": f"a = {s['step_id']}\n", f"{repo}/lib/b.py": BASE["lib/b.py"]}
        put(folder / "step_snapshots" / f"step_{s['step_id']:04d}_code.json", code)
    return folder


def final_test(folder: Path, content: dict[str, Any] | None, bug: bool = False) -> Path:
    """The held-out test below a run's folder (or its sibling's)."""
    stamp = "20260102_040000"
    place = folder / f"{stamp}_final_test" / "run_final_test" / f"execution_{stamp}"
    place.mkdir(parents=True, exist_ok=True)
    if content is not None:
        put(place / "test_info.json", content)
    if bug:
        put(place / "records" / f"bug_test_{stamp}.json", {"error": {"stderr": "no memory"}})
    return place
