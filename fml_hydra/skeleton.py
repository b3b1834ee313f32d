"""A complete small task to start one's own from: `python -m fml_hydra tasks new NAME`.

It fits a line by gradient descent in plain Python, so that an evaluation takes a tenth of a second;
every file a task has is there, and `tasks check` passes on it.
"""

from pathlib import Path
from textwrap import dedent

_FILES = {
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
    "reference/converged/solution.py": '''\
        """Least squares in closed form."""


        def fit(points):
            """Slope and intercept."""
            mean_x = sum(x for x, _ in points) / len(points)
            mean_y = sum(y for _, y in points) / len(points)
            slope = sum((x - mean_x) * (y - mean_y) for x, y in points)
            slope /= sum((x - mean_x) ** 2 for x, _ in points)
            return slope, mean_y - slope * mean_x
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
_YAML = """\
_target_: fml_hydra.task.TaskSpec
name: NAME
title: Fit a line
problem: NAME
dir: ${tasks_dir}/NAME
targets: [solution.py]        # what the agent may edit
protected: [run.py]           # restored before, and hashed after every command
commands:                     # `data` lists the parts of the data a command may see
  - {run: "{python} run.py {data} {out}", data: [train, eval]}
outputs: [predictions.json]   # below {out}; what grade.py gets
metric: {name: mse, direction: lower, best: 0.0}
timeout: 20                   # seconds for all commands of one evaluation
memory_mb: 256
reported:                     # `tasks check` holds these against what it measures
  baseline: {val: 0.4553, test: 0.8691, val_sd: 0.001, test_sd: 0.001}
  references:
    converged: {val: 0.0172, test: 0.0113}
  measured_with: python -m fml_hydra tasks check NAME
"""


def write_skeleton(folder: Path, name: str) -> list[Path]:
    """Write `conf/task/NAME.yaml` and `tasks/NAME/` below `folder`; returns the files."""
    paths = {folder / "tasks" / name / file: dedent(text) for file, text in _FILES.items()}
    paths[folder / "conf" / "task" / f"{name}.yaml"] = _YAML.replace("NAME", name)
    for path, text in paths.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return list(paths)


_OWN_YAML = """\
# A repository that measures itself. Fill in what does not fit, then measure it:
# python -m fml_hydra tasks check NAME --config-dir conf tasks_dir=tasks
_target_: fml_hydra.task.TaskSpec
name: NAME
title: NAME
problem: NAME
dir: ${tasks_dir}/NAME
repository: REPOSITORY   # as it stands on disk, without what git ignores
targets: [CHANGE_ME.py]  # files the agent may edit
protected: []            # files that are restored before, and hashed after every command

# Empty: the Python that runs the suite. A version and packages: an environment, made once and kept.
# A path: an interpreter that is there. {python: "3.10", pins: ["numpy==1.26.4"]}
env: {}

# A command may hold {python}, {out} (an empty folder) and {seed}. `test_commands` are for the
# held-out test; without them it is the same commands with the test seed.
commands:
  - {run: "{python} train.py --seed {seed}"}
test_commands: []

# How metrics are read; several are possible. Of several lines, rows or matches the last counts, or
# what `take` says: first, last, min, max, mean.
# A JSON line on stdout:  {format: json_lines, metrics: {accuracy: test.accuracy}}
# A CSV:                  {file: log.csv, format: csv, metrics: {accuracy: acc}, take: max}
# A pattern on stdout:    {format: regex, metrics: {accuracy: 'accuracy: ([0-9.]+)'}}
results:
  - {file: results.json, format: json, metrics: {accuracy: accuracy}}
isolation: shared        # its own process says what it reached; grade.py would have to trust less
metric: {name: accuracy, direction: higher, best: 1.0}

# Data by its place in the repository, read-only: {data/raw: /datasets/mine}
mounts: {}
timeout: 3600            # seconds for all commands of one evaluation
memory_mb: 8192
"""
_OWN_DESCRIPTION = """\
What the agent is told: the problem, the data, what may be changed and what not, the metric and its
direction, how long a run may take.
"""


def write_wrapper(folder: Path, name: str, repository: Path) -> list[Path]:
    """Write `conf/task/NAME.yaml` and a description for a repository elsewhere; returns both."""
    yaml = folder / "conf" / "task" / f"{name}.yaml"
    described = folder / "tasks" / name / "description.md"
    text = _OWN_YAML.replace("NAME", name).replace("REPOSITORY", str(repository))
    for path, content in ((yaml, text), (described, _OWN_DESCRIPTION)):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return [yaml, described]
