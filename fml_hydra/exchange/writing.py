"""A run of ours in FML-bench's result layout, and an imported one as it was.

    <out>/<llm>.s<seed>/<agent>/<task>/<time>/     what its script reads, one run per task and agent
                                      .../fml_hydra/   our journal: what the layout has no place for
    <out>/fml_bench/                               ml_tasks/, workspace/: the baselines; score.py

A run that has not ended gets no `summary.json`, as with FML-bench. Not here: which runs (commands).
"""

import json
import shutil
import time
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from fml_hydra.errors import InfraError
from fml_hydra.exchange import score
from fml_hydra.exchange.content import info_of, repo_of, summary_of
from fml_hydra.exchange.layout import OWN, SNAPSHOTS, SUMMARY, TEST_APART, Json, restored
from fml_hydra.exchange.reading import KEY, snapshot_name
from fml_hydra.exchange.tasks import FOLDER
from fml_hydra.files import replace_json
from fml_hydra.hashing import file_hash
from fml_hydra.journal import Folded
from fml_hydra.summary import metric_of

OWN_FILES = ("journal.jsonl", "config.yaml", "calls.jsonl")
"""A run's own files; its `steps/` come with them where they are."""


@dataclass(frozen=True)
class Exported:
    """One run on its way out."""

    state: Folded
    """How it went."""
    out: Path
    """Where the export goes."""
    counts: bool = True
    """Whether it is the one that stands for its cell; FML-bench passes over the others."""

    @cached_property
    def told(self) -> Json:
        """What an imported run keeps of FML-bench; empty for a run of ours."""
        return dict(restored(self.state.header.get(KEY, {})))

    @property
    def task_folder(self) -> Path:
        """`<llm>.s<seed>/<agent>/<task>`."""
        header = self.state.header
        parts = (f"{header['llm']}.s{header['seed']}", header["agent"], header["task"])
        return self.out.joinpath(*(part.replace("/", "-") for part in parts))

    @property
    def name(self) -> str:
        """The run's folder: when it began (UTC), or what it was called before."""
        began = str(self.told.get("run") or _stamp(self.state.header["started"]))
        short = "" if self.counts else f"_{self.state.header['instance'][:8]}_deprecated"
        return f"{began}{short}"

    @property
    def folder(self) -> Path:
        """Where the run goes."""
        return self.task_folder / self.name


def write_run(run: Exported, source: Path) -> Path:
    """Write one run, whose own files lie in `source`; its folder.

    Raises InfraError when something cannot be written.
    """
    try:
        shutil.rmtree(run.folder, ignore_errors=True)
        (run.folder / OWN).mkdir(parents=True)
        _write_theirs(run) if run.told else _write_ours(run)
        _keep_own(run.folder, source)
        _write_task(run)
    except OSError as error:
        raise InfraError(f"{run.folder}: cannot be written ({error})") from error
    return run.folder


def _keep_own(folder: Path, source: Path) -> None:
    for name in OWN_FILES:
        if (source / name).is_file():
            shutil.copyfile(source / name, folder / OWN / name)
    if (source / "steps").is_dir():
        shutil.copytree(source / "steps", folder / OWN / "steps", dirs_exist_ok=True)
    if (folder / SUMMARY).is_file():  # whoever reads it again sees whether it was changed since
        replace_json(folder / OWN / "export.json", {SUMMARY: file_hash(folder / SUMMARY)})


def _write_ours(run: Exported) -> None:
    state = run.state
    for node in state.history():
        code = {**state.header["pristine"], **node.snapshot}
        prefix = repo_of(state)
        named = {f"{prefix}/{name}": text for name, text in sorted(code.items())}
        _write_json(run.folder / SNAPSHOTS / snapshot_name(node.id + 1), named)
    if state.test is None:
        return
    _write_test(run)
    workspace = run.folder.relative_to(run.out).as_posix()
    _write_json(run.folder / SUMMARY, summary_of(state, workspace))


def _write_test(run: Exported) -> None:
    """The held-out test, or the record of why there is no value."""
    state, test = run.state, run.state.test or {}
    if state.history().best() is None:
        return  # FML-bench does not test then
    ended = _stamp(state.header["started"] + state.seconds)
    place = run.folder
    if state.header["agent"] == TEST_APART:  # sorts after the run's own folder
        place = run.task_folder / f"{run.name.removesuffix('_deprecated')}_test"
        place = place if run.counts else place.with_name(f"{place.name}_deprecated")
        shutil.rmtree(place, ignore_errors=True)
    execution = place / f"{ended}_final_test" / "run_final_test" / f"execution_{ended}"
    if not test.get("fallback"):
        info = info_of(state.header["task"], test["metrics"], metric_of(state), test["value"])
        _write_json(execution / "test_info.json", info)
        return
    error = {"returncode": 1, "stderr": test["fallback"]}
    record = {"run_id": "final_test", "phase": "test", "timestamp": ended, "error": error}
    _write_json(execution / "records" / f"bug_test_{ended}.json", record)


def _write_theirs(run: Exported) -> None:
    """An imported run as FML-bench left it."""
    told, began = run.told, str(run.told["run"])
    steps = []
    for node in run.state.history():
        own = restored(node.meta[KEY])
        steps.append(own["step"])
        if "keys" in own:
            code = {**run.state.header["pristine"], **node.snapshot}
            named = {key: code[name] for name, key in own["keys"].items()} | own["aside"]
            _write_json(run.folder / SNAPSHOTS / snapshot_name(own["step"]["step_id"]), named)
    for name, code in told["snapshots"].items():
        _write_json(run.folder / SNAPSHOTS / name, code)
    for name, text in told["files"].items():
        parts = Path(name).parts
        if Path(name).is_absolute() or ".." in parts:
            raise InfraError(f"{run.state.header['identity']}: the file {name!r} leaves its folder")
        top = run.name if parts[0] == began else parts[0]
        _write_text(run.task_folder.joinpath(top, *parts[1:]), text)
    _write_json(run.folder / SUMMARY, {**told["summary"], "val_steps": steps})


def _write_task(run: Exported) -> None:
    """What FML-bench's script looks up of a task: its configuration, baseline and code."""
    header, told, bench = run.state.header, run.told, run.out / FOLDER
    task, metric, repo = header["task"], metric_of(run.state), repo_of(run.state)
    worst = "baseline" if metric.worst is None else metric.worst
    own = {"dataset": task, "metric": metric.name, "direction": str(metric.direction)}
    known = told.get("task", {**own, "best": metric.best, "worst": worst})
    targets = sorted(header["pristine"]) or told["summary"]["task_config"]["target_files"]
    config = {"repo_dir": repo, "target_files": targets, "metric": known["metric"]}
    _write_json(bench / "ml_tasks" / task / "config.json", config)
    for split, values in header["baseline"].items():
        means = told["baseline"] if told else values
        means = {known["metric"]: means[split]} if told else means
        info = {known["dataset"]: {"means": means}}
        _write_json(bench / "ml_tasks" / task / "baseline_results" / f"{split}_info.json", info)
    for name, text in header["pristine"].items():
        _write_text(bench / repo / name, text)
    path = bench / "tasks.json"
    tasks = json.loads(path.read_text()) if path.is_file() else {}
    _write_json(path, {**tasks, task: known})
    shutil.copyfile(str(score.__file__), bench / "score.py")


def _stamp(seconds: float) -> str:
    return time.strftime("%Y%m%d_%H%M%S", time.gmtime(seconds))


def _write_json(path: Path, value: Any) -> None:
    _write_text(path, json.dumps(value, indent=2))


def _write_text(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, newline="")
