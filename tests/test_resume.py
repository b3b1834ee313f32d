"""Kill -9 at every event of a run, start again: it equals the uninterrupted run node by node."""

import os
import signal
from pathlib import Path

import pytest

from fml_hydra.calls import CallLog
from fml_hydra.jsonl import JsonLines, read_records

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
RUN = (
    "agent=ai_scientist",
    "agent.policy.num_ideas=2",
    "agent.policy.max_runs=2",
    "budget.steps=4",
    "seed=5",
    "slots=2",
)
"""A run with decisions, proposals and two slots; `PROMISES` tries every agent, without killing."""


def in_child(work) -> int:
    """Run `work` in a forked process; its exit code, or minus the signal that killed it."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except BaseException:
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def die_after(records: int) -> None:
    """Let this process kill itself once it has written so many records, torn every other time."""
    written = 0
    append = JsonLines.append

    def counting(self, record):
        nonlocal written
        append(self, record)
        written += 1
        if written == records:
            if records % 2:
                os.truncate(self.path, self.path.stat().st_size - 3)
            os.kill(os.getpid(), signal.SIGKILL)

    JsonLines.append = counting


def events(folder: Path) -> int:
    names = ("journal.jsonl", "calls.jsonl")
    return sum(len(read_records(folder / name)[0]) for name in names)


def outcomes(state) -> list[dict]:
    return [node.outcome() for node in state.history()]


def test_resumed_equals_uninterrupted_wherever_it_was_killed(cell, tmp_path):
    whole = cell(*RUN, folder=tmp_path / "whole")
    expected = whole.run()
    total = events(whole.folder)
    assert total > 12
    for at in range(1, total + 1):
        broken = cell(*RUN, folder=tmp_path / f"killed{at}")

        def until_killed(broken=broken, at=at):
            die_after(at)
            broken.run()

        assert in_child(until_killed) == -signal.SIGKILL
        again = broken.run()
        assert outcomes(again) == outcomes(expected), f"killed after event {at}"
        assert again.test["value"] == expected.test["value"]
        assert again.closed == expected.closed
        assert spent(broken.folder) == spent(whole.folder), f"charged twice after event {at}"


def spent(folder: Path) -> int:
    calls = CallLog(folder / "calls.jsonl")
    total = calls.spend().usage.total
    calls.close()
    return total
