"""A user's own repository, wrapped as the README says: real git, real commands, no grade.py."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from evaluation_bench import LIMITS

from fml_hydra.config import load_experiment
from fml_hydra.errors import ConfigError
from fml_hydra.evaluation import Evaluator, Outcome
from fml_hydra.overrides import compose_config
from fml_hydra.sandbox import SandboxPolicy, probe

TRAIN = '''\
"""Fit one weight and log the accuracy of every epoch."""
import csv, json, sys
import model

seed = int(sys.argv[sys.argv.index("--seed") + 1])
raw = json.load(open("data/raw/points.json"))
with open("log.csv", "w", newline="") as file:
    rows = csv.writer(file)
    rows.writerow(["epoch", "acc"])
    for epoch in range(3):
        rows.writerow([epoch, min(1.0, model.RATE * (epoch + 1) + 0.001 * (seed % 7) + raw[0])])
print(json.dumps({"loss": 1.0 - model.RATE}))
'''
RESULTS = """results:
  - {file: log.csv, format: csv, metrics: {accuracy: acc}, take: max}
  - {format: json_lines, metrics: {loss: loss}}
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A git repository with a target, a script, stale results and files git ignores."""
    folder = tmp_path / "code" / "project"
    folder.mkdir(parents=True)
    (folder / "model.py").write_text("RATE = 0.2\n")
    (folder / "train.py").write_text(TRAIN)
    (folder / "log.csv").write_text("epoch,acc\n0,0.99\n")
    (folder / ".gitignore").write_text("secret.txt\n")
    (folder / "secret.txt").write_text("not for agents")
    subprocess.run(["git", "init", "-q", folder], check=True)
    subprocess.run(["git", "-C", folder, "add", "model.py", "log.csv"], check=True)
    data = tmp_path / "datasets"
    data.mkdir()
    (data / "points.json").write_text("[0.01]")
    return folder


@pytest.fixture
def wrapped(repository: Path, tmp_path: Path) -> Path:
    """The folder in which `tasks new` was called, and its YAML filled in."""
    done = cli(tmp_path, "tasks", "new", "mine", f"repository={repository}")
    assert done.returncode == 0, done.stderr
    path = tmp_path / "conf" / "task" / "mine.yaml"
    text = path.read_text().replace("CHANGE_ME.py", "model.py")
    text = text.replace("protected: []", "protected: [train.py]")
    head, _, tail = text.partition("results:\n")
    text = head + RESULTS + tail[tail.index("isolation") :]
    path.write_text(text.replace("mounts: {}", f"mounts: {{data/raw: {tmp_path}/datasets}}"))
    return tmp_path


def cli(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "fml_hydra", *words]
    return subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False)


def overrides(folder: Path, *more: str) -> list[str]:
    own = ["--config-dir", f"{folder}/conf", f"tasks_dir={folder}/tasks", "task=mine"]
    return [*own, f"cache_dir={folder}/cache", f"root={folder}/mlruns", *more]


def evaluate(folder: Path, model: str | None = None, level: str = "process") -> Outcome:
    task = load_experiment(compose_config(overrides(folder))).task
    policy = SandboxPolicy(level=level, require="process", **LIMITS)  # type: ignore[arg-type]
    evaluator = Evaluator.open(task, policy, folder / "cache", folder / "slots")
    return evaluator.evaluate({} if model is None else {"model.py": model}, "val")


@pytest.mark.parametrize("level", ["process", "bubblewrap"])
def test_its_own_outputs_become_metrics(wrapped: Path, level: str) -> None:
    if why := probe(level):  # type: ignore[arg-type]
        pytest.skip(f"{level}: {why}")
    outcome = evaluate(wrapped, level=level)
    assert outcome.metrics == pytest.approx({"accuracy": 0.61, "loss": 0.8}), outcome.feedback
    assert evaluate(wrapped, "RATE = 0.3\n", level).metrics["accuracy"] == pytest.approx(0.91)


def test_results_that_came_with_the_repository_do_not_count(wrapped: Path) -> None:
    outcome = evaluate(wrapped, "raise SystemExit(0)\n")
    assert (outcome.status, outcome.metrics) == ("no_metric", {})
    assert outcome.feedback == "the commands ended without writing log.csv"


@pytest.mark.parametrize(
    ("model", "status", "reason"),
    [
        ("RATE = float('nan')\n", "invalid", "not a finite number: "),
        ("RATE = 'x'\n", "crash", "exit code 1"),
        (
            "import os\nopen('log.csv', 'w').write('epoch,f1\\n0,1\\n'); print('{\"loss\": 1}')\n"
            "os.sys.stdout.flush(); os._exit(0)",
            "no_metric",
            "log.csv: nothing found for 'acc' (csv)",
        ),
        (
            "import os\nos.remove('log.csv') if os.path.exists('log.csv') else 0\n"
            "os.symlink('/etc/passwd', 'log.csv'); os._exit(0)",
            "invalid",
            "a symbolic link is not accepted",
        ),
    ],
)
def test_a_candidate_that_leaves_no_result_has_a_status_that_says_so(
    wrapped: Path, model: str, status: str, reason: str
) -> None:
    outcome = evaluate(wrapped, model)
    assert (outcome.status, outcome.utility) == (status, None)
    assert reason in outcome.feedback


def test_only_what_git_would_show_is_the_repository(wrapped: Path) -> None:
    outcome = evaluate(wrapped, "import os\nprint(sorted(os.listdir('.')))\nRATE = 0.1\n")
    assert outcome.stdout.splitlines()[0] == str([".gitignore", "data", "model.py", "train.py"])


def test_the_whole_way_from_the_readme(wrapped: Path) -> None:
    where = ["--config-dir", "conf", "tasks_dir=tasks", f"cache_dir={wrapped}/cache"]
    checked = cli(wrapped, "tasks", "check", "mine", "--quick", *where)
    assert checked.returncode == 1  # nothing is declared yet, and it says so
    assert "0.61" in checked.stdout
    assert "not declared" in checked.stdout
    assert "isolation: shared" in checked.stdout
    run = cli(wrapped, *where, "task=mine", "agent=aide", "budget.steps=2", "tracking=none")
    assert run.returncode == 0, run.stdout + run.stderr
    (journal,) = (wrapped / "mlruns" / "runs").glob("*/journal.jsonl")
    events = [json.loads(line) for line in journal.read_text().splitlines()]
    assert [e["e"] for e in events].count("node") == 2
    assert events[0]["isolation"] == "shared"
    assert events[0]["baseline"]["val"]["accuracy"] == pytest.approx(0.61)


def test_a_task_just_made_says_what_to_change(repository: Path, tmp_path: Path) -> None:
    cli(tmp_path, "tasks", "new", "mine", f"repository={repository}")
    with pytest.raises(ConfigError) as caught:
        load_experiment(compose_config(overrides(tmp_path)))
    told = str(caught.value)
    assert "'CHANGE_ME.py' does not exist in" in told
    assert "correct `targets` in the task's YAML" in told


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["repository=/no/such"], "repository=/no/such is no folder"),
        (["repo=/tmp"], "'repo=/tmp' is unknown; allowed: repository=FOLDER or"),
    ],
)
def test_a_wrong_word_is_refused(tmp_path: Path, words: list[str], reason: str) -> None:
    done = cli(tmp_path, "tasks", "new", "mine", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert reason in done.stderr
    assert "Traceback" not in done.stderr


def test_results_must_admit_that_they_are_the_candidates_own(wrapped: Path) -> None:
    config = compose_config(overrides(wrapped, "task.isolation=separate"))
    with pytest.raises(ConfigError, match="write `isolation: shared`"):
        load_experiment(config)
    config = compose_config(overrides(wrapped, "task.metric.name=f1"))
    with pytest.raises(ConfigError, match="results do not name 'f1', the metric"):
        load_experiment(config)
