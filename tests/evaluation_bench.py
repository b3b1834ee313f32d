"""Evaluations of the toy task without a run around them, for candidates of a few lines."""

import shutil
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hydra.utils import instantiate
from omegaconf import OmegaConf

from fml_hydra.evaluation import Evaluator, Outcome
from fml_hydra.sandbox import SandboxPolicy
from fml_hydra.task import TaskSpec
from fml_hydra.terms import Split

LIMITS = {"memory_mb": 1024, "processes": 64, "disk_mb": 512, "open_files": 256, "output_kb": 64}


def toy_task(
    toy: Path, folder: Path, files: Mapping[str, str] | None = None, **knobs: Any
) -> TaskSpec:
    """The toy task in a folder of its own, with other `files` and other knobs."""
    copy = folder / "tasks" / "toy"
    shutil.copytree(toy / "tasks" / "toy", copy, dirs_exist_ok=True)
    for name, text in (files or {}).items():
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        (copy / name).write_text(textwrap.dedent(text))
    yaml = OmegaConf.load(toy / "conf" / "task" / "toy.yaml")
    merged = {"tasks_dir": str(copy.parent), "task": OmegaConf.merge(yaml, knobs)}
    return instantiate(OmegaConf.create(merged).task, _convert_="all")


@dataclass(frozen=True)
class Bench:
    """A real evaluator of one task."""

    task: TaskSpec
    evaluator: Evaluator

    @classmethod
    def open(cls, task: TaskSpec, folder: Path, cache: Path, level: str, **limits: int) -> "Bench":
        """Prepare data and workspace in `cache`; slots lie below `folder`."""
        policy = SandboxPolicy(level=level, require="process", **{**LIMITS, **limits})  # type: ignore[arg-type]
        return cls(task, Evaluator.open(task, policy, cache, folder / "slots"))

    @property
    def slots(self) -> Path:
        return self.evaluator._slots

    def run(self, code: str, split: Split = "val") -> Outcome:
        """Evaluate solution.py as given."""
        return self.evaluator.evaluate({"solution.py": code}, split)

    def attack(self, lines: str, split: Split = "val") -> Outcome:
        """Evaluate the given solution.py with more lines that run when it is imported."""
        given = self.task.target_files()["solution.py"]
        return self.run(f"{given}\n\n{textwrap.dedent(lines)}", split)

    def measured(self) -> "Bench":
        """The same, once the baseline has been measured."""
        baseline: dict[Split, dict[str, float]] = {}
        for split in ("val", "test"):
            outcome = self.evaluator.evaluate({}, split)
            assert outcome.status == "ok", outcome.feedback
            baseline[split] = outcome.metrics
        self.evaluator.baseline = baseline
        return self
