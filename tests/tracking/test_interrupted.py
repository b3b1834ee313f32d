"""Put down by SIGTERM, killed with -9, taken up again: what MLflow shows meanwhile."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fml_hydra.commands import sync
from fml_hydra.journal import Folded
from fml_hydra.runner import claimed

AGENT = ("agent=aide", "agent.policy.num_drafts=2", "seed=5", "tracking=mlflow")


class Watch:
    """An observer that calls `look` whenever the journal has changed."""

    def __init__(self, look):
        self.changed = look

    def doing(self, what: str) -> None: ...


def wait_until(true, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


def steps_in(journal: Path) -> int:
    return journal.read_text().count('"e": "node"') if journal.exists() else 0


def journal_below(root: Path) -> Path:
    return next(root.glob("runs/*/journal.jsonl"), root / "none")


def test_sigterm_then_resumed(words, root, look):
    command = [sys.executable, "-m", "fml_hydra", *words(*AGENT, "budget.steps=8")]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MLFLOW_")}
    first = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE)
    wait_until(lambda: steps_in(journal_below(root)) >= 2)
    first.send_signal(signal.SIGTERM)
    first.communicate(timeout=60)
    assert first.returncode == 130
    taken = steps_in(journal_below(root))
    assert 2 <= taken < 8
    seen = look()
    parent = seen.parent()
    assert parent.info.status == "KILLED"
    assert parent.data.tags["fml.status"] == "interrupted"
    assert len(seen.steps()) == taken
    assert "journal.jsonl" in seen.files(parent)
    assert "best/patch.diff" not in seen.files(parent), "a better step may still come"

    second = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE)
    wait_until(lambda: seen.parent().info.status != "KILLED")
    assert seen.parent().info.status == "RUNNING"
    assert seen.parent().data.tags["fml.status"] == "running"
    second.communicate(timeout=120)
    assert second.returncode == 0
    again = seen.parent()
    assert again.info.run_id == parent.info.run_id
    assert again.info.status == "FINISHED"
    assert "best/patch.diff" in seen.files(again)
    assert again.data.tags["fml.status"] == "finished"
    assert [s.data.tags["fml.step"] for s in seen.steps()] == [str(i) for i in range(8)]
    assert [i for i, _ in seen.curve(again, "tokens")] == list(range(8))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_killed_then_closed_by_sync_then_resumed(tracked, words, root, look, capsys):
    import mlflow  # noqa: F401  # before the fork

    run = tracked()

    def die_after_two_arrived() -> None:
        receipt = run.folder / "mlflow.json"
        if len(run.state.nodes) == 2:
            wait_until(lambda: receipt.exists() and '"steps": [0, 1]' in receipt.read_text())
            os.kill(os.getpid(), signal.SIGKILL)

    pid = os.fork()
    if pid == 0:
        run.observers = [Watch(die_after_two_arrived)]
        try:
            run.run()
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    seen = look()
    parent = seen.parent()
    assert parent.info.status == "RUNNING"  # nobody could say otherwise
    worked = run.state.seconds

    with claimed(run.folder):
        assert sync.main(words()) == 0
    assert "left alone" in capsys.readouterr().out
    assert seen.parent().info.status == "RUNNING"

    time.sleep(1.0)
    assert sync.main(words()) == 0
    assert seen.parent().info.status == "KILLED"
    assert seen.parent().data.tags["fml.status"] == "interrupted"
    assert run.state.seconds == worked, "the time it lay dead is not time worked"

    run.observers = []
    assert run.run().test is not None
    assert run.problem == ""
    assert seen.parent().info.run_id == parent.info.run_id
    assert seen.parent().info.status == "FINISHED"
    assert [s.data.tags["fml.step"] for s in seen.steps()] == ["0", "1", "2"]


def test_sync_says_what_it_cannot_send_and_goes_on(tracked, words, root, look, capsys):
    done = tracked()
    done.run()
    empty, broken = root / "runs" / "empty", root / "runs" / "broken"
    for folder in (empty, broken):
        folder.mkdir()
    (empty / "journal.jsonl").write_text("")
    (broken / "journal.jsonl").write_text('nonsense\n{"e": "close", "t": 1, "reason": "steps"}\n')
    assert sync.main(words()) == 1
    out = capsys.readouterr().out
    assert "empty: has not begun" in out
    assert "broken: failed" in out
    assert "journal.jsonl:1" in out
    assert f"toy-run: in MLflow as run {look().parent().info.run_id}" in out
    assert Folded.read(done.folder / "journal.jsonl").paused is None
