"""Budgets, refusals, faults and interrupts of a run; real evaluations, only the LLM is scripted."""

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from evaluation_bench import Bench, toy_task

from fml_hydra.calls import CallLog
from fml_hydra.errors import BudgetExhausted, ConfigError, InfraError, SandboxError
from fml_hydra.evaluation import Outcome
from fml_hydra.journal import Action, Folded, Journal
from fml_hydra.llm.base import Message, Reply, Request, Usage
from fml_hydra.session import (
    INFRA_RETRIES,
    UNCHARGED_LIMIT,
    Budget,
    Candidate,
    Session,
    Turn,
)
from fml_hydra.task import Brief
from fml_hydra.terms import Split
from fml_hydra.testing import ScriptedLLM

DRAFT = Action("draft")
ASKED = (Message("user", "one two three"),)


@dataclass
class Watched:
    """The real evaluator; counts, and fails first as often as it is told to."""

    bench: Bench
    faults: list[Exception] = field(default_factory=list)
    calls: int = 0

    def evaluate(self, files: Mapping[str, str], split: Split, shift: int = 0) -> Outcome:
        self.calls += 1
        if self.faults:
            raise self.faults.pop(0)
        return self.bench.evaluator.evaluate(files, split, shift)


@pytest.fixture(scope="module")
def bench(toy: Path, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    folder = tmp_path_factory.mktemp("bench")
    return Bench.open(toy_task(toy, folder), folder, toy / "cache", "process").measured()


@pytest.fixture
def watched(bench: Bench) -> Watched:
    return Watched(bench)


@pytest.fixture
def open_session(bench: Bench, watched: Watched, tmp_path: Path):
    """Open a session in a folder, or go on with the one that is there."""

    def build(folder: Path = tmp_path / "run", llm=None, observers=(), slots=1, **budget):
        folder.mkdir(exist_ok=True)
        journal = Journal(folder / "journal.jsonl")
        outputs = bench.evaluator.evaluate({}, "val").outputs if slots > 1 else "none"
        journal.record("open", baseline_utility=-0.5, baseline_outputs=outputs)
        return Session(
            brief=Brief.of(bench.task, bench.evaluator.baseline["val"]),
            journal=journal,
            calls=CallLog(folder / "calls.jsonl"),
            folder=folder,
            evaluator=watched,
            llm=llm or ScriptedLLM(lambda request: "four words of reply"),
            budget=Budget(**{"steps": 3, **budget}),
            seed=0,
            slots=slots,
            observers=observers,
        )

    return build


@pytest.fixture
def code(bench: Bench) -> Callable[..., Candidate]:
    """A candidate: solution.py with more lines."""
    given = bench.task.target_files()["solution.py"]

    def make(lines: str, **facts) -> Candidate:
        return Candidate({"solution.py": f"{given}\n{lines}\n"}, **facts)

    return make


# --- the budget


def test_steps_are_counted_and_then_it_is_over(open_session, code, watched) -> None:
    session = open_session(steps=2)
    for steps in (10, 30):
        assert session.evaluate(DRAFT, code(f"STEPS = {steps}")).status == "ok"
    assert session.steps_left() == 0
    with pytest.raises(BudgetExhausted) as caught:
        session.evaluate(DRAFT, code("STEPS = 40"))
    assert caught.value.resource == "steps"
    assert (watched.calls, len(session.history)) == (2, 2)


def test_wall_time_is_checked_before_each_batch(open_session, code) -> None:
    session = open_session(steps=9, seconds=0.05)
    session.check_budget()
    session.evaluate(DRAFT, code("import time; time.sleep(0.1)"))
    with pytest.raises(BudgetExhausted) as caught:
        session.evaluate(DRAFT, code("STEPS = 2"))
    assert caught.value.resource == "seconds"
    assert len(session.history) == 1


def test_tokens_are_checked_before_each_call(open_session) -> None:
    session = open_session(tokens=8)
    asker = session.proposer()
    asker("idea", ASKED)  # 3 words in, 4 out
    asker("idea", ASKED)
    with pytest.raises(BudgetExhausted) as caught:
        asker("idea", ASKED)
    assert caught.value.resource == "tokens"
    with pytest.raises(BudgetExhausted):
        session.check_budget()


@dataclass(frozen=True)
class Priced:
    """An LLM with a price."""

    cost: float | None
    name: str = "priced"

    def complete(self, request: Request) -> Reply:
        return Reply("reply", Usage(1, 0, 1), self.cost)


def test_dollars_are_checked_before_each_call(open_session) -> None:
    asker = open_session(llm=Priced(0.6), dollars=1.0).proposer()
    for _ in range(2):
        asker("idea", ASKED)
    with pytest.raises(BudgetExhausted) as caught:
        asker("idea", ASKED)
    assert caught.value.resource == "dollars"


def test_dollars_cannot_be_kept_without_a_price(open_session) -> None:
    asker = open_session(llm=Priced(None), dollars=1.0).proposer()
    asker("idea", ASKED)
    with pytest.raises(ConfigError, match="price of priced is not known"):
        asker("idea", ASKED)


def test_what_a_call_cost_belongs_to_its_step(open_session, code, tmp_path: Path) -> None:
    @dataclass(frozen=True)
    class Asking:
        def make(self, turn: Turn) -> Candidate:
            turn.ask("edit", ASKED)
            return code(f"STEPS = {turn.node_id + 30}")

        def reflect(self, turn: Turn, candidate: Candidate, outcome: Outcome) -> str:
            return turn.ask("analysis", ASKED).text

    session = open_session(llm=Priced(0.25))
    session.run_batch([DRAFT], Asking())
    session.proposer()("idea", ASKED)
    session.run_batch([DRAFT], Asking())
    costs = [(n.cost, n.usage.total, n.analysis) for n in session.history]
    assert costs == [(0.5, 4, "reply"), (0.75, 6, "reply")]


def test_a_batch_that_runs_out_in_the_middle_ends_the_run(cell) -> None:
    state = cell("budget.tokens=3000", "budget.steps=50").run()
    assert state.closed["reason"] == "tokens"
    assert state.test is not None
    assert 0 < len(state.nodes) < 50


def test_dollars_steps_and_seconds_stand_in_the_journal_as_the_reason(cell, tmp_path) -> None:
    for number, (budget, reason) in enumerate(
        [("budget.steps=1", "steps"), ("budget.seconds=0.001", "seconds")]
    ):
        state = cell(budget, folder=tmp_path / str(number)).run()
        assert state.closed["reason"] == reason
        assert state.test is not None


# --- what is refused before anything runs


@pytest.mark.parametrize(
    ("files", "status", "reason"),
    [
        ({}, "noop", "changes nothing"),
        ({"solution.py": "def fit(:\n"}, "syntax", "solution.py:1"),
        ({"run.py": "print(0)\n"}, "protected", "run.py"),
        ({"new.py": "print(0)\n"}, "protected", "new.py"),
        ({"../../escaped.py": "print(0)\n"}, "protected", "../../escaped.py"),
        ({"/tmp/escaped.py": "print(0)\n"}, "protected", "/tmp/escaped.py"),
    ],
)
def test_refusals_cost_no_evaluation_and_write_nothing(
    open_session, watched, tmp_path: Path, files: dict, status: str, reason: str
) -> None:
    session = open_session()
    node = session.evaluate(DRAFT, Candidate(files))
    assert (node.status, node.utility, node.sandbox) == (status, None, "")
    assert reason in node.feedback
    assert watched.calls == 0
    assert not list(tmp_path.rglob("escaped.py"))
    assert session.steps_left() == 2


def test_the_given_code_and_the_parents_code_change_nothing(
    open_session, bench, code, watched
) -> None:
    session = open_session()
    assert session.evaluate(DRAFT, Candidate(bench.task.target_files())).status == "noop"
    assert session.evaluate(DRAFT, code("STEPS = 30")).status == "ok"
    again = session.evaluate(Action("improve", (1,)), code("STEPS = 30"))
    assert (again.status, watched.calls) == ("noop", 1)


def test_back_to_the_given_code_is_a_change_of_another_parent(open_session, bench, code) -> None:
    session = open_session()
    session.evaluate(DRAFT, code("STEPS = 30"))
    back = session.evaluate(Action("improve", (0,)), Candidate(bench.task.target_files()))
    assert (back.status, back.snapshot) == ("ok", {})


def test_failed_edits_are_free_if_so_configured_but_not_without_end(
    open_session, code, watched
) -> None:
    session = open_session(steps=2, charge_failed_edits=False)
    bad = Candidate({}, refused="edit_failed", reason="no SEARCH matched")
    assert session.evaluate(DRAFT, bad).feedback == "no SEARCH matched"
    assert session.steps_left() == 2
    assert session.evaluate(DRAFT, code("STEPS = 30")).status == "ok"
    assert session.steps_left() == 1
    while session.steps_left():
        session.evaluate(DRAFT, bad)
    assert len(session.history) == 2 * (1 + UNCHARGED_LIMIT)
    assert watched.calls == 1


def test_failed_edits_are_charged_by_default(open_session, watched) -> None:
    session = open_session(steps=2)
    for _ in range(2):
        session.evaluate(DRAFT, Candidate({}, refused="edit_failed"))
    assert (session.steps_left(), watched.calls) == (0, 0)


def test_tampering_while_running_is_charged_even_then(open_session, code, watched) -> None:
    session = open_session(steps=2, charge_failed_edits=False)
    node = session.evaluate(DRAFT, code("open('run.py', 'a').write('#')"))
    assert (node.status, node.sandbox, watched.calls) == ("protected", "process", 1)
    assert session.steps_left() == 1


def replying(edits: list[str]) -> ScriptedLLM:
    """An LLM whose edits and repairs come from a list, the last one for ever."""
    left = list(edits)

    def answer(request: Request) -> str:
        if request.purpose in {"edit", "repair"}:
            return left.pop(0) if len(left) > 1 else left[0]
        return "An analysis."

    return ScriptedLLM(answer)


def block(search: str, replace: str, path: str = "solution.py") -> str:
    return f"### FILE: {path}\n<<<<<<< SEARCH\n{search}\n=======\n{replace}\n>>>>>>> REPLACE\n"


GOOD = block("STEPS = 20", "STEPS = 40")


@pytest.mark.parametrize(
    ("bad", "status"),
    [
        (block("NO SUCH LINE", "x"), "edit_failed"),
        (block("STEPS = 20", "STEPS = = 40"), "syntax"),
        (block("STEPS = 20", "STEPS = 20"), "noop"),
        (block("import json", "import os", "run.py"), "protected"),
    ],
)
def test_repairs_are_free_and_bounded(cell, toy: Path, bad: str, status: str) -> None:
    one_baseline = f"root={toy}/mlruns"
    made = cell(
        one_baseline, "budget.steps=2", "budget.repairs=2", llm=replying([bad, bad, GOOD, bad])
    )
    first, second = made.run().history()
    assert (first.status, first.op) == ("ok", "draft")
    assert (second.status, second.sandbox, second.seconds_exec) == (status, "", 0.0)
    purposes = [r["purpose"] for r in lines(made.folder / "calls.jsonl")]
    assert purposes == ["edit", "repair", "repair", "analysis"] * 2
    assert made.state().closed["reason"] == "steps"


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


# --- several at once


@dataclass(frozen=True)
class Delayed:
    """Makes fixed candidates; one of them waits until something has happened."""

    candidates: Mapping[int, Candidate]
    slow: int = -1
    happened: Callable[[], bool] = lambda: True

    def make(self, turn: Turn) -> Candidate:
        turn.ask("edit", ASKED)
        deadline = time.monotonic() + 30
        while turn.node_id == self.slow and not self.happened():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        return self.candidates[turn.node_id]

    def reflect(self, turn: Turn, candidate: Candidate, outcome: Outcome) -> str:
        return f"{turn.node_id} saw {len(turn.history)}"


def test_results_do_not_depend_on_who_finishes_first(open_session, code, tmp_path) -> None:
    candidates = {i: code(f"STEPS = {steps}  # {i}") for i, steps in enumerate((40, 40, 20, 40))}
    outcomes, order = [], []
    for slow in (0, 1):
        folder = tmp_path / f"slow{slow}"
        session = open_session(folder=folder, slots=2, steps=4)
        maker = Delayed(candidates, slow, lambda session=session: len(session.history) > 0)
        for _ in range(2):
            session.run_batch([DRAFT, Action("improve")], maker)
        outcomes.append([n.outcome() for n in session.history])
        order.append([e["id"] for e in lines(folder / "journal.jsonl") if e["e"] == "node"])
        session.journal.close()
        assert [n.outcome() for n in Folded.read(folder / "journal.jsonl").history()] == outcomes[
            -1
        ]
    assert order[0][:2] == [1, 0]
    assert order[1][:2] == [0, 1]
    assert outcomes[0] == outcomes[1]
    assert [n["analysis"] for n in outcomes[0]] == ["0 saw 0", "1 saw 0", "2 saw 2", "3 saw 2"]


def test_they_really_run_at_once(open_session, code) -> None:
    candidates = {i: code(f"import time; time.sleep(1.5)\nSTEPS = {i + 1}") for i in range(2)}
    session = open_session(slots=2)
    session.run_batch([DRAFT, DRAFT], Delayed(candidates))
    first, second = session.history
    assert first.started < second.started + 1.0
    assert abs(first.started - second.started) < 1.0
    assert min(first.seconds_exec, second.seconds_exec) >= 1.5


def test_one_failure_leaves_the_others_result(open_session, code, watched) -> None:
    class Half(Delayed):
        def make(self, turn: Turn) -> Candidate:
            if turn.node_id == 0:
                raise InfraError("the provider is away")
            return super().make(turn)

    session = open_session(slots=2)
    with pytest.raises(InfraError, match="provider"):
        session.run_batch([DRAFT, DRAFT], Half({1: code("STEPS = 5")}))
    assert [n.id for n in session.history] == [1]
    assert [i for i, _ in session.journal.state.pending()] == [0]
    session.run_batch([], Delayed({0: code("STEPS = 6")}))
    assert [n.id for n in session.history] == [0, 1]
    assert watched.calls == 2


# --- suspicions


def test_identical_outputs_are_flagged_when_the_code_differs(cell) -> None:
    edits = [
        block("STEPS = 20", "STEPS = 20  # as before"),
        block("STEPS = 20", "STEPS = 40"),
        block("STEPS = 20", "STEPS = 40  # forty"),
        block("STEPS = 20", "STEPS = 40"),
    ]
    made = cell("budget.steps=4", "agent.policy.num_drafts=9", llm=replying(edits))
    flags = [(n.status, n.flags) for n in made.run().history()]
    assert flags == [
        ("ok", ("outputs identical to the baseline, although the code differs",)),
        ("ok", ()),
        ("ok", ("outputs identical to step 1, although the code differs",)),
        ("ok", ("outputs identical to step 2, although the code differs",)),
    ]


def test_the_same_code_again_is_no_suspicion(open_session, code) -> None:
    session = open_session()
    first = session.evaluate(DRAFT, code("STEPS = 40"))
    again = session.evaluate(DRAFT, code("STEPS = 40"))
    assert first.outputs == again.outputs
    assert again.flags == ()


def test_a_graders_failure_is_flagged_on_the_node(open_session, code) -> None:
    nested = "import sys, os\nopen(sys.argv[2] + '/predictions.json', 'w').write('[' * 100000)"
    node = open_session().evaluate(DRAFT, code(f"{nested}\nos._exit(0)"))
    assert node.status == "invalid"
    assert "RecursionError" in node.flags[0]


# --- faults


@pytest.mark.parametrize("fault", [InfraError("disk"), SandboxError("cannot start")])
def test_our_faults_are_tried_again(open_session, code, watched, fault: Exception) -> None:
    watched.faults = [fault] * INFRA_RETRIES
    session = open_session()
    assert session.evaluate(DRAFT, code("STEPS = 30")).status == "ok"
    assert watched.calls == 1 + INFRA_RETRIES


def test_after_two_retries_the_step_is_left_for_later(open_session, code, watched) -> None:
    watched.faults = [InfraError("disk")] * (1 + INFRA_RETRIES)
    session = open_session()
    with pytest.raises(InfraError, match="disk"):
        session.evaluate(DRAFT, code("STEPS = 30"))
    assert watched.calls == 3
    assert (len(session.history), session.steps_left()) == (0, 3)
    assert session.evaluate(DRAFT, code("STEPS = 30")).status == "ok"
    assert [n.id for n in session.history] == [0]


def test_a_candidate_handed_in_after_a_crash_keeps_its_own_action(open_session, code) -> None:
    session = open_session()
    session.run_batch([DRAFT], Delayed({0: code("STEPS = 30")}))
    session.journal.record("batch", at=1, actions=[{"op": "draft", "parents": [], "meta": {}}])
    node = session.evaluate(Action("improve", (0,), {"why": "x"}), code("STEPS = 40"))
    assert (node.id, node.op, node.parents, node.meta) == (1, "improve", (0,), {"why": "x"})


OVERRIDES = ("agent=aide", "agent.policy.num_drafts=2", "budget.steps=3", "seed=5")


def test_a_run_is_put_down_as_infra_and_resumed(cell, tmp_path: Path) -> None:
    expected = cell(*OVERRIDES, folder=tmp_path / "whole").run()
    broken = cell(*OVERRIDES, folder=tmp_path / "broken")
    slots = broken.folder / "slots"

    class Sabotage:
        """Puts a file where the slots should be, once the first step is over."""

        def changed(self) -> None:
            if len(Folded.read(broken.folder / "journal.jsonl").nodes) == 1:
                if slots.is_dir():
                    slots.rmdir()
                slots.touch()

        def doing(self, what: str) -> None:
            pass

    with pytest.raises(InfraError, match="no slot can be made"):
        broken.run([Sabotage()])
    state = broken.state()
    assert state.paused["reason"] == "infra"
    assert "slot" in state.paused["detail"]
    assert (len(state.nodes), state.closed, state.test) == (1, None, None)
    slots.unlink()
    again = broken.run()
    assert again.paused is None
    assert [n.outcome() for n in again.history()] == [n.outcome() for n in expected.history()]
    assert again.test["value"] == expected.test["value"]


# --- observers and interrupts


@dataclass
class Deaf:
    """An observer that fails whatever it hears."""

    heard: int = 0

    def changed(self) -> None:
        self.heard += 1
        raise RuntimeError("deaf")

    def doing(self, what: str) -> None:
        self.heard += 1
        raise RuntimeError("deaf")


@dataclass
class Ear:
    """Keeps what it hears."""

    heard: list[str] = field(default_factory=list)

    def changed(self) -> None:
        self.heard.append("changed")

    def doing(self, what: str) -> None:
        self.heard.append(what)


def test_an_observer_that_fails_stops_neither_run_nor_other_observers(
    open_session, code, caplog
) -> None:
    deaf, ear = Deaf(), Ear()
    session = open_session(observers=[deaf, ear])
    assert session.evaluate(DRAFT, code("STEPS = 30")).status == "ok"
    assert deaf.heard == 2
    assert ear.heard == ["draft", "changed"]
    assert "an observer failed; the run goes on" in caplog.text


def test_an_interrupt_puts_the_run_down_and_it_is_resumed(cell, tmp_path: Path) -> None:
    expected = cell(*OVERRIDES, folder=tmp_path / "whole").run()
    broken = cell(*OVERRIDES, folder=tmp_path / "broken")

    class Impatient(Ear):
        def doing(self, what: str) -> None:
            if Folded.read(broken.folder / "journal.jsonl").nodes:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        broken.run([Impatient()])
    state = broken.state()
    assert state.paused["reason"] == "interrupted"
    assert (len(state.nodes), state.test) == (1, None)
    again = broken.run()
    assert [n.outcome() for n in again.history()] == [n.outcome() for n in expected.history()]


def test_after_an_interrupt_the_other_slots_write_nothing_more(open_session, code) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    class Interrupting(Delayed):
        def make(self, turn: Turn) -> Candidate:
            if turn.node_id == 0:
                os.kill(os.getpid(), signal.SIGINT)
            return super().make(turn)

    session, raised = open_session(slots=2), threading.Event()
    candidates = {i: code(f"STEPS = {i + 5}") for i in range(2)}
    try:
        with pytest.raises(KeyboardInterrupt):
            session.run_batch([DRAFT, DRAFT], Interrupting(candidates, 1, raised.is_set))
    finally:
        signal.signal(signal.SIGINT, before)
    raised.set()
    written = len(session.history)
    slots = [t for t in threading.enumerate() if t.name.startswith("slot")]
    assert slots
    for thread in slots:
        thread.join(20)
    assert len(session.history) == written < 2


# --- decisions and files


def test_a_decision_is_made_once_and_then_read_back(open_session, tmp_path: Path) -> None:
    session = open_session()
    assert session.decide("stage", lambda: {"name": "tune"}) == {"name": "tune"}
    session.journal.close()
    again = open_session()
    assert again.decide("stage", lambda: pytest.fail("asked again")) == {"name": "tune"}
    assert again.history.notes == {"stage": {"name": "tune"}}


def test_a_step_leaves_files_for_people(open_session, code, tmp_path: Path) -> None:
    session = open_session()
    session.evaluate(DRAFT, code("print('\u00fc')\nSTEPS = 30", plan="p", prompt="ask", reply="r"))
    session.evaluate(DRAFT, Candidate({"solution.py": "def fit(:\n"}, prompt="b", reply="c"))
    folder = tmp_path / "run" / "steps" / "0000"
    assert (folder / "prompt.md").read_text() == "ask"
    assert (folder / "reply.md").read_text() == "r"
    assert (folder / "stdout.txt").read_text(encoding="utf-8") == "\u00fc\n"
    assert "STEPS = 30" in (folder / "code" / "solution.py").read_text()
    assert "+STEPS = 30" in (folder / "patch.diff").read_text()
    assert set(json.loads((folder / "metrics.json").read_text())) == {"mse", "n"}
    assert (tmp_path / "run" / "steps" / "0001" / "code" / "solution.py").exists()
