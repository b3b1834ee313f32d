"""For authors of agents and tasks: a toy task, a scripted LLM, and the promises an agent must keep.

Nothing here is used by a run.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

from fml_hydra.llm.base import Reply, Request
from fml_hydra.usage import Usage

_TOY_FILES = {
    "description.md": """\
        Fit a line to 40 noisy points by gradient descent. You may edit solution.py; run.py is
        read-only. The metric is the mean squared error on held-out points, `mse`, lower is better.
        """,
    "prepare.py": '''\
        """Forty points of a noisy line to train on, twenty each for val and test."""
        import json
        import random


        def prepare(sources, out):
            rng = random.Random(0)
            points = [(x, 3 * x - 1 + rng.gauss(0, 0.1)) for x in (rng.random() for _ in range(80))]
            parts = {"train": points[:40], "val": points[40:60], "test": points[60:]}
            for name, part in parts.items():
                (out / name).mkdir()
                xs = [x for x, _ in part]
                if name == "train":
                    (out / name / "points.json").write_text(json.dumps(part))
                    continue
                (out / name / "inputs.json").write_text(json.dumps(xs))
                (out / "answers" / name).mkdir(parents=True)
                answers = out / "answers" / name / "answers.json"
                answers.write_text(json.dumps([y for _, y in part]))
        ''',
    "grade.py": '''\
        """Mean squared error."""
        import json

        from fml_hydra.errors import InvalidOutput


        def grade(outputs, answers):
            try:
                got = json.loads((outputs / "predictions.json").read_text())
            except ValueError as error:
                raise InvalidOutput(f"predictions.json: {error}") from error
            want = json.loads((answers / "answers.json").read_text())
            if not isinstance(got, list) or len(got) != len(want):
                raise InvalidOutput(f"predictions.json: not a list of {len(want)} numbers")
            if not all(type(x) in (int, float) for x in got):
                raise InvalidOutput("predictions.json: not numbers")
            return {"mse": sum((a - b) ** 2 for a, b in zip(got, want)) / len(want), "n": len(want)}
        ''',
    "repo/README.md": "A line, fitted by gradient descent.\n",
    "repo/solution.py": '''\
        """Least squares by gradient descent."""

        LEARNING_RATE = 0.1
        STEPS = 20
        START = 0.0


        def fit(points):
            """Slope and intercept."""
            slope, intercept = START, START
            for _ in range(STEPS):
                errors = [slope * x + intercept - y for x, y in points]
                pull = sum(e * x for e, (x, _) in zip(errors, points))
                slope -= LEARNING_RATE * pull / len(points)
                intercept -= LEARNING_RATE * sum(errors) / len(points)
            return slope, intercept
        ''',
    "repo/run.py": '''\
        """Train on the points, predict the inputs."""
        import json
        import sys

        sys.path.insert(0, ".")
        import solution

        data, out = sys.argv[1:3]
        with open(f"{data}/train/points.json") as file:
            slope, intercept = solution.fit(json.load(file))
        with open(f"{data}/eval/inputs.json") as file:
            xs = json.load(file)
        with open(f"{out}/predictions.json", "w") as file:
            json.dump([slope * x + intercept for x in xs], file)
        ''',
    "ideas/more_steps.md": """\
        ---
        title: Train longer
        category: parameter
        effect: good
        rationale: Twenty steps are far from convergence.
        ---
        ### FILE: solution.py
        <<<<<<< SEARCH
        STEPS = 20
        =======
        STEPS = 200
        >>>>>>> REPLACE
        """,
    "ideas/larger_rate.md": """\
        ---
        title: Larger learning rate
        category: parameter
        effect: good
        rationale: The problem is well conditioned.
        ---
        ### FILE: solution.py
        <<<<<<< SEARCH
        LEARNING_RATE = 0.1
        =======
        LEARNING_RATE = 0.5
        >>>>>>> REPLACE
        """,
    "ideas/divide_by_zero.md": """\
        ---
        title: Normalise the inputs
        category: data
        effect: crash
        rationale: Normalised inputs converge faster.
        ---
        ### FILE: solution.py
        <<<<<<< SEARCH
            slope, intercept = START, START
        =======
            slope, intercept = START, START
            scale = 1 / sum(0 * x for x, _ in points)
        >>>>>>> REPLACE
        """,
}
_TOY_YAML = """\
_target_: fml_hydra.task.TaskSpec
name: toy
title: Fit a line
problem: toy
dir: ${tasks_dir}/toy
targets: [solution.py]
protected: [run.py]
commands:
  - {run: "{python} run.py {data} {out}", data: [train, eval]}
outputs: [predictions.json]
metric: {name: mse, direction: lower, best: 0.0}
timeout: 20
memory_mb: 256
"""


def write_toy_task(folder: Path) -> Path:
    """Write a task whose evaluation takes a tenth of a second: `conf/task/toy.yaml`, `tasks/toy/`.

    Run it with `--config-dir FOLDER/conf tasks_dir=FOLDER/tasks task=toy`.
    """
    for name, text in _TOY_FILES.items():
        path = folder / "tasks" / "toy" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text))
    (folder / "conf" / "task").mkdir(parents=True, exist_ok=True)
    (folder / "conf" / "task" / "toy.yaml").write_text(_TOY_YAML)
    return folder


@dataclass(frozen=True)
class ScriptedLLM:
    """Answers by a function of the request; counts words as tokens."""

    answer: Callable[[Request], str]
    """From request to text."""
    name: str = "scripted"
    """Name in tables and tags."""

    def complete(self, request: Request) -> Reply:
        """Answer `request`."""
        text = self.answer(request)
        asked = sum(len(m.content.split()) for m in request.messages)
        return Reply(text, Usage(input=asked, output=len(text.split())), 0.0)


def as_json(value: object) -> str:
    """A fenced JSON block, as models write it."""
    return f"```json\n{json.dumps(value)}\n```"
