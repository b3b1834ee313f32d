"""One run in FML-bench's result layout, as it lies on disk. Knows nothing of our journals.

    <results>/<agent>/<task>/<time>/summary.json
                                    step_snapshots/step_0001_code.json
                                    *final_test/run_final_test/execution_*/test_info.json

The agent `ai_scientist_v2` has its final test in a sibling of `<time>`.
"""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fml_hydra.errors import TaskError
from fml_hydra.exchange.tasks import read_text

SUMMARY, SNAPSHOTS, OWN = "summary.json", "step_snapshots", "fml_hydra"
"""OWN is the folder for what the layout has no place for."""
TEST_APART = "ai_scientist_v2"
"""The agent whose final test lies in a folder of its own."""
LARGEST = 1 << 20
"""Bytes of the largest other file that is taken along."""
_EXECUTIONS = ("*_final_test/run_final_test/execution_*", "final_test/run_final_test/execution_*")
Json = dict[str, Any]


@dataclass(frozen=True)
class FinalTest:
    """What the held-out test came to."""

    info: Json | None
    """Content of `test_info.json`; None when it earns nothing."""
    why: str = ""
    """Why not, in FML-bench's words; empty when it does."""


@dataclass(frozen=True)
class Result:
    """A run's files."""

    folder: Path
    """The one named after the time."""
    summary: Json
    """Content of `summary.json`."""
    snapshots: dict[str, dict[str, str]]
    """Code after each step, by the name of its file."""
    test: FinalTest
    """The held-out test."""
    files: dict[str, str]
    """Other texts by their path below the task's folder."""
    left_out: tuple[str, ...]
    """Other files that are too large, or no text."""


def found_runs(results: Path) -> list[Path]:
    """Folders of runs below `results`, those that FML-bench itself passes over left out."""
    summaries = {path.parent for path in results.rglob(SUMMARY) if OWN not in path.parts}
    kept = {path.parent.parent for path in results.rglob(f"{OWN}/journal.jsonl")}
    return sorted(kept | {folder for folder in summaries if is_run(folder)})


def is_run(folder: Path) -> bool:
    """Whether FML-bench's script looks into it."""
    return not (folder.name.startswith("_") or folder.name.endswith("_deprecated"))


def read_result(folder: Path) -> Result:
    """Read a run; raises TaskError, naming the file, when it is not one."""
    summary = _json(folder / SUMMARY)
    for key, kind in (("benchmark", str), ("agent", str), ("val_steps", list)):
        if not isinstance(summary.get(key), kind):
            raise TaskError(f"{folder / SUMMARY}: {key!r} is missing; its run did not end")
    for number, step in enumerate(summary["val_steps"]):
        if not isinstance(step, dict) or not isinstance(step.get("step_id"), int):
            raise TaskError(f"{folder / SUMMARY}: val_steps[{number}] has no 'step_id'")
    apart = _test_folder(folder) if summary["agent"] == TEST_APART else None
    place = apart if summary["agent"] == TEST_APART else folder
    paths = sorted((folder / SNAPSHOTS).glob("step_*_code.json"))
    own = {folder / SUMMARY, *paths}
    files, left_out = _others([folder, *([apart] if apart else [])], own)
    snapshots = {path.name: _json(path) for path in paths}
    return Result(folder, summary, snapshots, _final_test(place), files, left_out)


def _test_folder(folder: Path) -> Path | None:
    """The newest sibling with a final test that began before the next run did."""
    siblings = sorted(f for f in folder.parent.iterdir() if f.is_dir() and is_run(f))
    later = [f for f in siblings if f.name > folder.name]
    ends = next((i for i, f in enumerate(later) if (f / SUMMARY).is_file()), len(later))
    tested = [f for f in later[:ends] if any(True for _ in _executions(f))]
    return tested[-1] if tested else None


def _executions(folder: Path) -> Iterator[Path]:
    return (path for pattern in _EXECUTIONS for path in folder.glob(pattern) if path.is_dir())


def _final_test(folder: Path | None) -> FinalTest:
    executions = sorted(_executions(folder)) if folder else []
    if not executions:
        return FinalTest(None, "no_final_test_dir")
    if any(True for _ in (executions[-1] / "records").glob("bug_test_*.json")):
        return FinalTest(None, "bug_test")
    if not (executions[-1] / "test_info.json").is_file():
        return FinalTest(None, "missing_test_info")
    try:
        info = _json(executions[-1] / "test_info.json")
    except TaskError:
        return FinalTest(None, "unreadable")
    if any(_violated(part) for part in info.values()):
        return FinalTest(None, "constraint_violated")
    return FinalTest(info)


def _violated(part: Any) -> bool:
    if not isinstance(part, dict):
        return False
    told = [part.get(name) for name in ("means", "final_info_dict")]
    return any(isinstance(t, dict) and t.get("constraint_violated") is True for t in told)


def _others(folders: list[Path], read: set[Path]) -> tuple[dict[str, str], tuple[str, ...]]:
    files, left_out = dict[str, str](), list[str]()
    for path in sorted(p for folder in folders for p in folder.rglob("*") if p.is_file()):
        name = path.relative_to(folders[0].parent).as_posix()
        if path in read or OWN in path.relative_to(folders[0].parent).parts:
            continue
        try:
            if path.stat().st_size > LARGEST:
                raise ValueError("too large")
            files[name] = read_text(path)
        except ValueError:  # a UnicodeDecodeError is one
            left_out.append(name)
    return files, tuple(left_out)


def _json(path: Path) -> Json:
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise TaskError(f"{path}: cannot be read ({error})") from error
    if not isinstance(content, dict):
        raise TaskError(f"{path}: not a JSON object")
    return content


def storable(value: Any) -> Any:
    """A JSON value without the numbers that a journal refuses; `restored` gives them back."""
    if isinstance(value, float) and not math.isfinite(value):
        return {"$number": repr(value)}
    if isinstance(value, dict):
        return {key: storable(inner) for key, inner in value.items()}
    return [storable(inner) for inner in value] if isinstance(value, list) else value


def restored(value: Any) -> Any:
    """What `storable` was given."""
    if isinstance(value, dict):
        if value.keys() == {"$number"}:
            return float(value["$number"])
        return {key: restored(inner) for key, inner in value.items()}
    return [restored(inner) for inner in value] if isinstance(value, list) else value
