"""The store is away, dies, comes back, or is busy: the run does not care, and nothing is lost."""

import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fml_hydra.commands import sync
from fml_hydra.tracking import sink as sink_module

HOLD = """\
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN EXCLUSIVE")
print("held", flush=True)
sys.stdin.read()
"""


class At:
    """An observer that acts once, when the run's state is as it waits for.

    A run swallows what an observer raises: ask `acted` whether it went well.
    """

    def __init__(self, run, reached, act):
        self.run, self.reached, self.act = run, reached, act
        self.begun = self.acted = False

    def changed(self) -> None:
        if not self.begun and self.reached(self.run.state):
            self.begun = True
            self.act()
            self.acted = True

    def doing(self, what: str) -> None: ...


def wait_until(true, seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


def assert_whole(seen, run) -> None:
    """Everything of `run` is in the store, once, and the steps in their order."""
    nodes = list(run.state.history())
    (parent,) = seen.search(f"tags.`fml.instance` = '{run.state.header['instance']}'")
    mine = seen.search(f"tags.`fml.identity` = '{run.name}' and tags.`fml.kind` = 'step'")
    steps = sorted(mine, key=lambda step: int(step.data.tags["fml.step"]))
    assert [s.data.tags["fml.step"] for s in steps] == [str(n.id) for n in nodes]
    assert {s.data.tags["mlflow.parentRunId"] for s in steps} == {parent.info.run_id}
    assert [i for i, _ in seen.curve(parent, "tokens")] == [n.id for n in nodes]
    assert seen.curve(parent, "test") == [(0, run.state.test["value"])]
    assert parent.info.status == "FINISHED"
    assert {"journal.jsonl", "tree.svg", "best/patch.diff"} <= seen.files(parent)
    assert all("prompt.md" in seen.files(step) for step in steps)
    assert traced(seen, parent) == [n.id for n in nodes]
    assert [traced(seen, step) for step in steps] == [[n.id] for n in nodes]


def traced(seen, shown) -> list[int]:
    """The steps whose LLM calls are on a run's page."""
    place = [seen.store.experiment_id]
    found = seen.client.search_traces(locations=place, run_id=shown.info.run_id)
    return sorted(int(trace.info.tags["fml.step"]) for trace in found)


def test_server_away_then_there_then_dying(tracked, words, server, look, capsys, monkeypatch):
    """One test, because a server takes long to start."""
    away = tracked(uri=server.uri)
    _runs_without_a_server(away, words(f"tracking.uri={server.uri}"), capsys)
    server.start()
    _is_sent_once_by_sync(away, words(f"tracking.uri={server.uri}"), look)
    monkeypatch.setattr(sink_module, "PATIENCE", 0.0)
    dying = tracked("budget.steps=4", "seed=6", uri=server.uri)
    dying.name = "dying"
    _survives_the_servers_death(dying, server, look)
    assert sync.main(words(f"tracking.uri={server.uri}")) == 0
    for run in (away, dying):
        assert_whole(look(uri=server.uri), run)


def _runs_without_a_server(run, again: list[str], capsys) -> None:
    began = time.monotonic()
    state = run.run()
    took = time.monotonic() - began
    assert state.test is not None
    assert len(state.nodes) == 3
    assert "refused" in run.problem
    assert took < 45, "a refused connection must not be waited for"
    assert sync.main(again) == 1
    assert "cannot be reached" in capsys.readouterr().out


def _is_sent_once_by_sync(run, again: list[str], look) -> None:
    before = run.state.seconds
    for _ in range(2):
        assert sync.main(again) == 0
        seen = look(uri=run.uri)
        assert_whole(seen, run)
        assert len(seen.curve(seen.parents()[0], "seconds")) == 1
    assert run.state.seconds == before


def _survives_the_servers_death(run, server, look) -> None:
    def die():
        sent = f"tags.`fml.kind` = 'step' and tags.`fml.identity` = '{run.name}'"
        wait_until(lambda: len(look(uri=server.uri).search(sent)) == 2)
        server.kill()

    run.observers = [
        At(run, lambda s: len(s.nodes) == 2, die),
        At(run, lambda s: len(s.nodes) == 4, server.start),
    ]
    run.run()
    assert all(o.acted for o in run.observers)
    assert run.problem == ""
    assert_whole(look(uri=server.uri), run)


def test_database_locked_by_another_process_delays_nothing_but_the_delivery(tracked, root, look):
    run = tracked()
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(root / "mlflow.db")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(sqlite3.OperationalError, match="locked"), _brief(root) as connection:
            connection.execute("BEGIN IMMEDIATE")

        def release():
            assert holder.poll() is None
            holder.stdin.close()
            holder.wait()

        run.observers = [At(run, lambda s: s.test is not None, release)]
        run.run()
        assert run.observers[0].acted
    finally:
        holder.kill()
        holder.wait()
    assert run.problem == ""
    assert_whole(look(), run)


def _brief(root: Path) -> sqlite3.Connection:
    return sqlite3.connect(root / "mlflow.db", timeout=0.1, isolation_level=None)


def test_a_store_that_stays_busy_is_told_later(tracked, root, look, monkeypatch):
    """The thread outlives its farewell; what it does not send any more, the next one sends."""
    monkeypatch.setattr(sink_module, "FAREWELL", 0.2)
    run = tracked()
    connection = sqlite3.connect(root / "mlflow.db", isolation_level=None)
    connection.execute("BEGIN EXCLUSIVE")
    try:
        run.run()
        assert run.problem == "the store is slow"
    finally:
        connection.close()
    monkeypatch.undo()
    assert run.run().test is not None  # resumed with nothing to do but deliver
    assert run.problem == ""
    assert_whole(look(), run)
