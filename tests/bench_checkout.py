"""A small FML-bench and the repository of its tasks, made by the test: real git, real scripts."""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

SCRIPT = '''\
"""Fit on --split val and leave a checkpoint; --split test goes on from it."""
import argparse, json, os
import model, scoring

parser = argparse.ArgumentParser()
parser.add_argument("--split", default="")
split = parser.parse_args().split
os.makedirs("results_tmp", exist_ok=True)
if split == "test":
    with open("model_checkpoint/model.json") as file:
        slope, shift = json.load(file), 0.01
else:
    slope, shift = model.SLOPE, 0.0
    os.makedirs("model_checkpoint", exist_ok=True)
    with open("model_checkpoint/model.json", "w") as file:
        json.dump(slope, file)
refused = slope > 1
means = {"error_mean": None if refused else scoring.error(slope) + shift, "TPR@0.1%_mean": 0.0}
name = f"results_tmp/{split}_info.json" if split else "results_tmp/final_info.json"
with open(name, "w") as file:
    json.dump({"line": {"means": means, "refused": refused}}, file)
if refused:
    raise ValueError(f"Invalid results: slope ({slope}) > 1")
'''
SCORING = "def error(slope):\n    return abs(slope - 1)\n"
COPIES = (
    "cp ../../../ml_tasks/Line/evaluate.py ./ && "
    "cp ../../../ml_tasks/Line/original_file_backup/scoring.py ./scoring.py && "
)
NEW = {
    "repo_dir": "workspace/Line/project",
    "pinned_commit": "0000000",
    "conda_env": "",
    "target_files": ["model.py", "split_config.json"],
    "val_command": COPIES + "python evaluate.py --split val && rm evaluate.py",
    "test_command": COPIES + "python evaluate.py --split test",
    "metric": "error_mean",
    "metric_direction": "lower",
}
OLD = {
    "repo_dir": "workspace/Line/project",
    "target_files": ["model.py"],
    "do_preprocess": True,
    "preprocess_commands": ["cp ../../../ml_tasks/Line_old/evaluate.py . && echo ${HOME} | wc -l"],
    "execute_commands": [
        "cp -r ../../../ml_tasks/Line/original_file_backup/. . && python evaluate.py",
        "python evaluate.py --split again",
    ],
    "exp_running_dir": "results_tmp/",
}
YAML = """\
defaults:
  - /task/base/fml_bench@_here_
  - _self_
name: suite/{name}
title: A line
problem: lines
dir: ${{tasks_dir}}/suite/demo
origin:
  url: {url}
  commit: {commit}
  licence: none
  files:
    evaluate.py: ml_tasks/Line/evaluate.py
    scoring.py: ml_tasks/Line/original_file_backup/scoring.py
    split_config.json: ml_tasks/Line/split_config.json
targets: [model.py, split_config.json]
protected: [evaluate.py, scoring.py]
commands: [{{run: python evaluate.py --split val}}]
test_commands: [{{run: python evaluate.py --split test}}]
keep: [model_checkpoint]
results:
  - file: "results_tmp/{{split}}_info.json"
    format: json
    metrics: {{error: line.means.error_mean, tpr: "line.means.TPR@0.1%_mean"}}
metric: {{name: error, direction: lower, best: 0.0}}
refused: ["^ValueError: Invalid results"]
timeout: 60
reported:
  baseline: {{val: 0.5, test: 0.51}}
  measured_with: the test
"""


@dataclass(frozen=True)
class Elsewhere:
    """What a test finds outside the project."""

    root: Path

    @property
    def bench(self) -> Path:
        return self.root / "bench"

    @property
    def workspace(self) -> Path:
        """The repository where FML-bench's setup would have put it."""
        return self.bench / "workspace" / "Line" / "project"

    @property
    def bare(self) -> Path:
        return self.root / "project.git"

    @property
    def pinned(self) -> str:
        """The first commit; the branch has gone on."""
        return git(self.bare, "rev-list", "--max-parents=0", "HEAD")

    def words(self, cache: Path, *more: str) -> list[str]:
        """Command-line words that find its tasks."""
        own = ["--config-dir", f"{self.root}/conf", f"tasks_dir={self.root}/tasks"]
        return [*own, f"cache_dir={cache}", f"fml_bench_dir={self.bench}", *more]


def make_elsewhere(root: Path) -> Elsewhere:
    """Write it all below `root`."""
    made = Elsewhere(root)
    _write_tasks(made)
    _write_repository(made)
    for name, url in (("demo", f"file://{made.bare}"), ("broken", f"file://{root}/nowhere.git")):
        text = YAML.format(name=name, url=url, commit=made.pinned)
        write(root / "conf/task/suite" / f"{name}.yaml", text)
    write(root / "tasks/suite/demo/description.md", "Fit a line.\n")
    return made


def git(folder: Path, *words: str) -> str:
    """What git says in a folder."""
    who = ["-c", "user.name=test", "-c", "user.email=test@localhost"]
    argv = ["git", "-C", str(folder), *who, *words]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _write_tasks(made: Elsewhere) -> None:
    line, old = (made.bench / "ml_tasks" / name for name in ("Line", "Line_old"))
    write(line / "config.json", json.dumps(NEW))
    write(line / "prompt.json", json.dumps({"system": "You fit.", "task_description": "A line."}))
    write(line / "split_config.json", '{"val_ratio": 0.1}')
    write(line / "original_file_backup" / "scoring.py", SCORING)
    for split, value in (("val", 0.5), ("test", 0.51)):
        means = {"error_mean": value, "TPR@0.1%_mean": 0.0, "violated": False}
        path = line / "baseline_results" / f"{split}_info.json"
        write(path, json.dumps({"other": {"means": {"x": 1}}, "line": {"means": means}}))
    write(old / "config.json", json.dumps(OLD))
    write(old / "task_description.txt", "An old line.")
    means = {"TPR@0.1%_mean": 0.0, "error_mean": 0.5}
    write(old / "baseline_results/final_info.json", json.dumps({"line": {"means": means}}))
    for folder in (line, old):
        write(folder / "evaluate.py", SCRIPT)
    chosen = "{include_metrics: [error_mean], per_metric_direction: {error_mean: lower}}"
    text = f"benchmark: {{name: Line_old}}\nmetrics: {chosen}\n"
    write(made.bench / "configs/tasks/old.yaml", text)


def _write_repository(made: Elsewhere) -> None:
    project = made.workspace
    write(project / "model.py", "SLOPE = 0.5\n")
    write(project / "scoring.py", "raise SystemExit('not the one of the benchmark')\n")
    write(project / "inner" / "model.py", "SLOPE = 0.25\n")
    git(project.parent, "init", "-q", "-b", "main", project.name)
    git(project, "add", ".")
    git(project, "commit", "-qm", "first")
    write(project / "model.py", "SLOPE = 0.6\n")
    git(project, "commit", "-qam", "second")
    git(made.root, "clone", "-q", "--bare", str(project), str(made.bare))
