"""An outage pauses a run: its clock stands still, and people hear of it once."""

import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from rich.console import Console

from fml_hydra import journal as journal_module
from fml_hydra import standstill
from fml_hydra.journal import Folded, Journal
from fml_hydra.llm import waits
from fml_hydra.llm.base import Reply, Request
from fml_hydra.llm.waits import Wait, Waiting
from fml_hydra.progress import Progress
from fml_hydra.session import Budget
from fml_hydra.simulation import SyntheticLLM, simulate
from fml_hydra.standstill import Standstill
from fml_hydra.status import CellStatus
from fml_hydra.summary import summarize
from fml_hydra.testing import LANDSCAPE

WAIT = Wait("gpt-5", "overloaded: 503 no", 7200.0)


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def time(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    for module in (waits, standstill, journal_module):
        monkeypatch.setattr(module, "time", clock)
    return clock


# --- the waiting of a call


@pytest.fixture
def heard(clock: Clock):
    """What a listener is told, and when."""
    told: list[tuple[float, Wait | None]] = []
    with waits.heard_by(lambda wait: told.append((clock.now, wait))):
        yield told


def test_a_wait_is_told_when_it_lasts_and_once(clock: Clock, heard: list) -> None:
    waiting = Waiting("gpt-5")
    waiting.sleep(1.0, "503", 60.0)
    clock.now += 0.1  # an attempt, in vain
    waiting.sleep(2.0, "503", 60.0)
    waiting.sleep(4.0, "502", 60.0)
    clock.now += 3.0  # an attempt, and the answer
    waiting.over()
    waiting.over()
    assert heard == [(1001.1, Wait("gpt-5", "503", 60.0)), (1010.1, None)]
    assert waiting.seconds == pytest.approx(7.1)


def test_a_short_wait_is_nobodys_business(clock: Clock, heard: list) -> None:
    waiting = Waiting("gpt-5")
    for _ in range(3):
        waiting.sleep(1.0, "429")
        waiting.over()
    assert heard == []
    assert waiting.seconds == 3.0


# --- the clock of a run


@dataclass
class Run:
    """A journal whose turns wait."""

    standstill: Standstill
    journal: Journal
    said: list[str]


@pytest.fixture
def run(tmp_path: Path, clock: Clock) -> Run:
    journal, said = Journal(tmp_path / "journal.jsonl"), list[str]()
    still = Standstill(journal, threading.Lock(), lambda: said.append(still.words))
    journal.record("open", x=1)
    return Run(still, journal, said)


def test_an_hour_away_is_no_hour_of_the_run(run: Run, clock: Clock, tmp_path: Path) -> None:
    clock.now += 10
    run.standstill.hear("0/0", WAIT)
    clock.now += 3600
    run.standstill.hear("0/0", None)
    clock.now += 5
    run.journal.note("k", 1)
    assert run.journal.state.seconds == pytest.approx(15)
    assert run.said == ["waiting for gpt-5, at most 2h00m (overloaded: 503 no)", ""]
    run.journal.close()
    again = Folded.read(tmp_path / "journal.jsonl")
    assert (again.seconds, again.paused, again.header) == (pytest.approx(15), None, {"x": 1})


def test_while_another_turn_works_the_clock_goes_on(run: Run, clock: Clock) -> None:
    with run.standstill.turn():
        run.standstill.hear("0/0", WAIT)
        with run.standstill.turn():
            clock.now += 10  # 0 waits, 1 works
            run.standstill.hear("1/0", WAIT)
            clock.now += 100  # both wait
            run.standstill.hear("1/0", None)
            clock.now += 20
        clock.now += 1000  # 1 is done
        run.standstill.hear("0/0", None)
    run.journal.note("k", 1)
    assert run.journal.state.seconds == pytest.approx(30)


def test_put_down_in_the_middle_of_a_wait(run: Run, clock: Clock) -> None:
    run.standstill.hear("0/0", WAIT)
    clock.now += 50
    run.standstill.close()
    clock.now += 1
    run.journal.record("pause", reason="interrupted", detail="")
    assert run.journal.state.seconds == pytest.approx(1)
    run.standstill.hear("0/0", None)  # from a thread that nobody waits for any more
    run.standstill.hear("1/0", WAIT)
    assert run.journal.state.paused is not None


def test_a_kill_in_the_middle_of_a_wait_leaves_no_trace(run: Run, clock: Clock) -> None:
    clock.now += 2
    run.journal.note("k", 1)
    run.standstill.hear("0/0", WAIT)
    clock.now += 500
    killed = Folded.read(run.journal._lines.path)
    assert (killed.seconds, killed.paused) == (pytest.approx(2), None)


# --- whole runs


@dataclass(frozen=True)
class Away:
    """Answers as the simulator's model does, after a wait."""

    seconds: float
    model: SyntheticLLM = SyntheticLLM(LANDSCAPE.space)
    name: str = "away"

    def complete(self, request: Request) -> Reply:
        waiting = Waiting(self.name)
        waiting.sleep(self.seconds, "503")
        waiting.over()
        return replace(self.model.complete(request), waited=waiting.seconds)


@pytest.fixture
def aide(monkeypatch: pytest.MonkeyPatch):
    from fml_hydra.config import load_experiment
    from fml_hydra.overrides import compose_config

    monkeypatch.setattr(waits, "NOTED", 0.0)
    return load_experiment(compose_config(["agent=aide"])).agent


@pytest.mark.parametrize(("slots", "wait"), [(1, 0.2), (2, 0.4)])
def test_waiting_uses_up_no_seconds(aide, slots: int, wait: float, tmp_path: Path) -> None:
    began = time.monotonic()
    limit = Budget(steps=1, seconds=1.5)
    run = simulate(
        aide, LANDSCAPE, steps=6, slots=slots, budget=limit, llm=Away(wait), folder=tmp_path
    )
    took = time.monotonic() - began
    assert run.state.closed is not None
    assert run.state.closed["reason"] == "steps"
    assert took > 2.4, "six steps, each with an edit and an analysis"
    assert run.state.seconds < limit.seconds
    same = simulate(aide, LANDSCAPE, steps=6, slots=slots)
    assert [n.utility for n in run.history] == [n.utility for n in same.history]


# --- what people see


def lines(cells: list[list[CellStatus]], tmp_path: Path) -> list[str]:
    console = Console(record=True, width=200, file=(tmp_path / "out").open("w"))
    progress = Progress(tmp_path, 1, console)
    for now in cells:
        progress._say(now)
    return [line.partition(": ")[2] for line in console.export_text().splitlines()]


def cell(doing: str, steps: int | None = None) -> list[CellStatus]:
    row = {} if steps is None else {"steps": steps, "budget": 5, "best_val": 0.5}
    row = row and row | {"baseline_val": 0.4, "tokens": 1, "spend": {"cost": 0.0}}
    return [CellStatus("t", "a", "gpt-5", 0, doing=doing, row=row)]


def test_plain_lines_tell_of_a_wait_once(tmp_path: Path) -> None:
    waiting = "draft, waiting for gpt-5, at most 2h00m (503)"
    shown = lines(
        [
            cell("draft", 1),
            cell(waiting, 1),
            cell(waiting, 1),
            cell("draft", 1),
            cell("improve", 2),
        ],
        tmp_path,
    )
    step = "step {}/5, best val 0.5000 (baseline 0.4000)"
    assert shown == [step.format(1), waiting, step.format(2)]


def test_the_live_view_counts_the_seconds(tmp_path: Path, monkeypatch) -> None:
    from fml_hydra import progress as progress_module

    clock = Clock()
    monkeypatch.setattr(progress_module, "time", clock)
    console = Console(width=200)
    progress = Progress(tmp_path, 1, console)

    def show(doing: str) -> str:
        shown = console.render_lines(progress._view(cell(doing, 1)))
        return "\n".join("".join(part.text for part in line) for line in shown)

    assert "waiting for gpt-5 · 0s" in show("waiting for gpt-5")
    clock.now += 12
    assert "waiting for gpt-5 · 12s" in show("waiting for gpt-5")
    assert "draft · 0s" in show("draft")


def test_a_run_that_waits_is_running(tmp_path: Path) -> None:
    header = {"task": "t", "agent": "a", "llm": "l", "seed": 0, "identity": "i", "steps": 5}
    header |= {"metric": {"name": "m", "direction": "higher", "best": 1.0, "worst": None}}
    header |= {"baseline": {"val": {"m": 0.5}, "test": {"m": 0.5}}}
    journal = Journal(tmp_path / "journal.jsonl")
    journal.record("open", **header, sandbox="none", isolation="separate")
    journal.record("pause", reason="waiting", detail="")
    assert summarize(journal.state).status == "running"
