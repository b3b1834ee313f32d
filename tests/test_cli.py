"""`python -m fml_hydra` as a user types it: real processes, a real MLflow store."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from filelock import FileLock

from fml_hydra.journal import Folded, Journal
from fml_hydra.status import CellStatus, read_statuses, write_status
from fml_hydra.sweep import settled

STEPS = 3


def fml(
    *words: str, cwd: Path, timeout: float = 240, **env: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "fml_hydra", *words],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        env={**os.environ, "COLUMNS": "200", **env},
    )


def sweep(words, *extra: str) -> list[str]:
    return ["-m", *words("agent=aide,ai_scientist", f"budget.steps={STEPS}", *extra)]


def runs_of(root: Path) -> list[Folded]:
    return [Folded.read(p) for p in sorted((root / "runs").glob("*/journal.jsonl"))]


def statuses(root: Path, name: str):
    return read_statuses(root / "sweeps" / name / "cells")


@pytest.mark.parametrize("words", [["--help"], ["--cfg", "job", "task=fairness"]])
def test_looking_at_the_configuration_imports_nothing_heavy(words, tmp_path):
    command = [sys.executable, "-X", "importtime", "-m", "fml_hydra", *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    imported = set(re.findall(r"\|\s+([\w.]+)$", done.stderr, re.M))
    assert "hydra" in imported
    assert (
        not {"mlflow", "torch", "pandas", "sklearn", "transformers", "git", "pydantic"} & imported
    )
    assert "agent" in done.stdout


def test_a_sweep_has_no_single_configuration_to_show(tmp_path):
    done = fml("-m", "task=all", "--cfg", "job", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.splitlines() == ["error: --cfg shows a single run; leave -m out"]


def test_a_sweep_from_start_to_finish_then_skipped_then_afresh(words, tmp_path):
    root = tmp_path / "mlruns"
    done = fml(*sweep(words, "sweep=first", "tracking=none"), cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("finished") >= 2
    assert f"{STEPS}/{STEPS}" in done.stdout
    assert {s.header["agent"] for s in runs_of(root)} == {"aide", "ai_scientist"}
    before = [list(s.history()) for s in runs_of(root)]

    again = fml(*sweep(words, "sweep=second", "tracking=none"), cwd=tmp_path)
    assert again.returncode == 0
    assert [c.state for c in statuses(root, "second")] == ["skipped", "skipped"]
    assert [list(s.history()) for s in runs_of(root)] == before

    afresh = fml(*sweep(words, "sweep=third", "tracking=none", "resume=never"), cwd=tmp_path)
    assert afresh.returncode == 0
    assert [c.state for c in statuses(root, "third")] == ["finished", "finished"]
    assert len(runs_of(root)) == 4, "the earlier runs are kept beside the new ones"


def test_one_failing_cell_does_not_stop_the_others(words, tmp_path, toy):
    bad = tmp_path / "own" / "task" / "bad.yaml"
    bad.parent.mkdir(parents=True)
    text = (toy / "conf/task/toy.yaml").read_text()
    bad.write_text(
        text.replace("name: toy\n", "name: bad\n").replace("{data} {out}", "{out} {data}")
    )
    (tmp_path / "own" / "task" / "toy.yaml").write_text(text)
    argv = sweep(words, "sweep=s", "tracking=none", "task=bad,toy")
    argv[argv.index("--config-dir") + 1] = str(tmp_path / "own")
    argv.remove("task=toy")
    done = fml(*argv, cwd=tmp_path)
    assert done.returncode == 1
    by_task = {(c.task, c.agent): c for c in statuses(tmp_path / "mlruns", "s")}
    assert by_task["toy", "aide"].state == "finished"
    assert by_task["bad", "aide"].state == "failed"
    assert "the baseline does not run on val (crash" in by_task["bad", "aide"].message
    assert "Traceback" not in done.stdout + done.stderr


def test_configuration_errors_are_one_line_and_exit_code_2(words, tmp_path):
    done = fml(*words("agent=aid"), cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith(
        "error: agent=aid: no such file in conf/agent; did you mean aide?"
    )
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "mlruns").exists()


def test_no_git_is_one_line(words, tmp_path):
    done = fml(*words(), cwd=tmp_path, PATH="/nonexistent", GIT_PYTHON_GIT_EXECUTABLE="/none")
    assert done.returncode == 2
    assert done.stderr == "error: git is not on PATH; install git and start again\n"


def test_the_same_run_started_twice_at_once(words, tmp_path):
    root = tmp_path / "mlruns"
    argv = words("budget.steps=2", "tracking=none", "sweep=s")
    first = fml(*argv, cwd=tmp_path)
    assert first.returncode == 0
    folder = next((root / "runs").iterdir())
    with FileLock(folder / "lock"):
        second = fml(*words("budget.steps=2", "tracking=none", "sweep=t"), cwd=tmp_path)
    assert second.returncode == 1
    assert "is being worked on by another process" in statuses(root, "t")[0].message


def started(argv: list[str], cwd: Path) -> subprocess.Popen[str]:
    """A run in the background that has taken its first step."""
    command = [sys.executable, "-m", "fml_hydra", *argv]
    process = subprocess.Popen(command, cwd=cwd, stdout=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 90
    while not any(s.nodes for s in runs_of(cwd / "mlruns")):
        assert time.monotonic() < deadline
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.1)
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("agents", ["agent=aide", "agent=aide,ai_scientist"])
def test_interrupted_runs_are_put_down(words, tmp_path, number, agents):
    several = "," in agents
    argv = words(agents, "budget.steps=200", "tracking=none", "sweep=s")
    process = started(["-m", *argv] if several else argv, tmp_path)
    process.send_signal(number)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130, output
    assert "The same command goes on from here" in output
    states = runs_of(tmp_path / "mlruns")
    assert all(s.paused["reason"] == "interrupted" for s in states if s.header)
    assert any(0 < len(s.nodes) < 200 for s in states)


def test_a_sweep_killed_with_9_goes_on_when_it_is_started_again(words, tmp_path):
    argv = ["-m", *words("agent=aide,ai_scientist", "budget.steps=12", "tracking=none", "sweep=s")]
    process = started(argv, tmp_path)
    process.kill()
    process.communicate()
    done_before = {n.id: n for s in runs_of(tmp_path / "mlruns") for n in s.history()}
    again = fml(*argv, cwd=tmp_path)
    assert again.returncode == 0, again.stdout + again.stderr
    states = runs_of(tmp_path / "mlruns")
    assert [len(s.nodes) for s in states] == [12, 12]
    assert done_before


def test_a_cell_without_a_last_word_is_told_from_its_journal(tmp_path):
    folder = tmp_path / "cells"
    journal = Journal(tmp_path / "run" / "journal.jsonl")
    journal.record("open", identity="x")
    journal.record("pause", reason="infra", detail="No space left on device")
    journal.close()
    write_status(folder / "0.json", CellStatus("t", "a", "l", 0, folder=str(tmp_path / "run")))
    write_status(folder / "1.json", CellStatus("t", "a", "l", 1))
    write_status(folder / "2.json", CellStatus("t", "a", "l", 2, state="finished"))
    assert [(c.state, c.message) for c in settled(folder)] == [
        ("infra", "No space left on device"),
        ("failed", "its process ended without a word"),
        ("finished", ""),
    ]


def test_an_agent_and_a_task_from_outside_the_project(words, tmp_path, toy):
    own = tmp_path / "mine"
    own.mkdir()
    (own / "my_agents.py").write_text(
        "from dataclasses import dataclass\n"
        "from fml_hydra.journal import Action\n\n\n"
        "@dataclass(frozen=True)\n"
        "class Always:\n"
        "    op: str\n\n"
        "    def propose(self, history, k, rng, advisor):\n"
        "        return [Action(self.op)]\n"
    )
    (own / "conf" / "agent").mkdir(parents=True)
    (own / "conf" / "agent" / "always.yaml").write_text(
        "_target_: fml_hydra.agents.base.SearchAgent\n"
        "name: always\n"
        "prompts: ${prompt}\n"
        "policy: {_target_: my_agents.Always, op: draft}\n"
        "operators:\n"
        "  draft: {instruction: draft, memory: good}\n"
    )
    (own / "conf" / "task").mkdir()
    shutil.copy(toy / "conf" / "task" / "toy.yaml", own / "conf" / "task")
    argv = words("agent=always", "budget.steps=2", "tracking=none")
    argv[1] = str(own / "conf")
    done = fml(*argv, cwd=tmp_path, PYTHONPATH=str(own))
    assert done.returncode == 0, done.stdout + done.stderr
    (state,) = runs_of(tmp_path / "mlruns")
    assert [n.op for n in state.history()] == ["draft", "draft"]
    assert state.header["agent"] == "always"
