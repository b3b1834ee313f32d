"""Turning outputs into metrics, in a process that never imports agent code.

Not here: what a verdict means for a step (evaluation), and how outputs are taken (handed_in).
"""

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from fml_hydra.errors import TaskError

GRADING_SECONDS = 120.0
"""How long grade.py may take."""
GRADING_MB = 4096
"""Memory grade.py may use."""


@dataclass(frozen=True)
class Verdict:
    """What the grader said; at most one of the fields is filled."""

    metrics: dict[str, float] = field(default_factory=dict)
    """All metrics."""
    invalid: str = ""
    """Why it refused the outputs."""
    missing: str = ""
    """What it did not find in the outputs."""
    broken: str = ""
    """How it failed itself."""


class Grader:
    """A fresh interpreter, started while the candidate trains so that grading need not wait."""

    def __init__(self, script: Path) -> None:
        self._script = script
        child = Path(__file__).with_name("trusted.py")
        self._process = subprocess.Popen(
            [sys.executable, "-I", str(child), "grade", str(script), str(GRADING_MB)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PATH": os.defpath},
        )

    def __enter__(self) -> "Grader":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def grade(self, outputs: Path, answers: Path) -> Verdict:
        """The grader's answer; raises TaskError when grade.py cannot even be loaded."""
        job = {"outputs": str(outputs), "answers": str(answers)}
        try:
            stdout, stderr = self._process.communicate(json.dumps(job), timeout=GRADING_SECONDS)
        except subprocess.TimeoutExpired:
            return Verdict(broken=f"grade() took over {GRADING_SECONDS:g} s")
        if self._process.returncode > 0:
            last = (stderr.strip().splitlines() or ["no message"])[-1]
            raise TaskError(f"{self._script}: {last}")
        if not stdout:
            return Verdict(broken=f"grade() died (exit code {self._process.returncode})")
        answer = json.loads(stdout)
        metrics = {k: float(v) for k, v in answer.get("metrics", {}).items()}
        reasons = {k: answer.get(k, "") for k in ("invalid", "missing", "broken")}
        return Verdict(metrics, **reasons)
