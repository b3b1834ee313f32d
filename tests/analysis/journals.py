"""Journals of runs that never happened, written for tables with known numbers."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fml_hydra.journal import Folded

ACCURACY = {"name": "acc", "direction": "higher", "best": 1.0, "worst": 0.0}
ERROR = {"name": "err", "direction": "lower", "best": 0.0, "worst": None}


def events(
    values: Sequence[float | None],
    metric: dict[str, Any] = ACCURACY,
    baseline: tuple[float, float] = (0.5, 0.4),
    test: float | None = None,
    **header: Any,
) -> list[dict[str, Any]]:
    """A run whose steps have `values` (None: crash); finished if `test` is given."""
    name, sign = metric["name"], 1 if metric["direction"] == "higher" else -1
    opened = {
        "e": "open",
        "t": 100.0,
        "instance": "i0",
        "sweep": "s",
        "task": "toy",
        "agent": "aide",
        "llm": "offline",
        "seed": 3,
        "steps": 10,
        "sandbox": "bubblewrap",
        "isolation": "separate",
        "started": 100.0,
        "versions": {"fml_hydra": "0.1.0"},
        "metric": metric,
        "baseline": {"val": {name: baseline[0]}, "test": {name: baseline[1]}},
        **header,
    }
    opened.setdefault("identity", f"{opened['task']}.{opened['agent']}.s{opened['seed']}")
    nodes = [
        {
            "e": "node",
            "t": 101.0 + number,
            "id": number,
            "op": "improve" if number else "draft",
            "parents": [number - 1] if number else [],
            "meta": {},
            "status": "crash" if value is None else "ok",
            "utility": None if value is None else sign * value,
            "metrics": {} if value is None else {name: value, "time": 2.0},
            "snapshot": {"model.py": "x = 1\n"},
            "plan": "raise it\nby a little",
            "feedback": "Traceback\nValueError: no" if value is None else "fine",
            "usage": {"input": 100, "cached": 40, "output": 50, "reasoning": 10},
            "cost": 0.01,
            "seconds_llm": 0.5,
            "seconds_exec": 2.0,
            "started": 100.5 + number,
            "flags": [],
        }
        for number, value in enumerate(values)
    ]
    done = [opened, *nodes]
    if test is not None:
        end = 101.0 + len(nodes)
        done.append({"e": "close", "t": end, "reason": "steps", "step": len(nodes)})
        done.append({"e": "test", "t": end, "value": test, "metrics": {name: test}})
    return done


def folded(*args: Any, **kwargs: Any) -> Folded:
    return Folded(Path("journal.jsonl"), events(*args, **kwargs))


def write(folder: Path, *args: Any, **kwargs: Any) -> Path:
    """Write a run's journal into `folder`."""
    return written(folder, events(*args, **kwargs))


def written(folder: Path, history: Sequence[dict[str, Any]]) -> Path:
    """Write events as a journal into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "journal.jsonl"
    path.write_text("".join(json.dumps(event) + "\n" for event in history))
    return path
