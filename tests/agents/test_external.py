"""An agent that is a program: every call is a step, and nothing it does or leaves undone hurts."""

import json
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cells import Cell

from fml_hydra.config import load_experiment
from fml_hydra.errors import ConfigError, InfraError
from fml_hydra.external import visit
from fml_hydra.external.command import Command
from fml_hydra.jsonl import read_records
from fml_hydra.overrides import compose_config
from fml_hydra.sandbox import probe

PROGRAM = Path(__file__).parents[1] / "external" / "scripted.py"


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visit, "RETRY_SECONDS", 0.01)


@pytest.fixture(scope="module")
def base(toy: Path, tmp_path_factory: pytest.TempPathFactory) -> Cell:
    """Composed once: that costs more than a run."""
    folder = tmp_path_factory.mktemp("base")
    cfg = compose_config(
        [
            *("--config-dir", f"{toy}/conf", "task=toy", f"tasks_dir={toy}/tasks"),
            *(f"cache_dir={toy}/cache", f"root={folder}", "tracking=none"),
            *("agent=external", "agent.program.command=['{python}']", "agent.resumes=0"),
        ]
    )
    return Cell(cfg, load_experiment(cfg), folder)


@pytest.fixture
def external(base: Cell, tmp_path: Path) -> Callable[..., Cell]:
    """A cell whose agent is the scripted program with some moves."""

    def build(*moves: str, steps: int = 3, level: str = "", **knobs: Any) -> Cell:
        limits = {k: knobs.pop(k) for k in ("tokens", "dollars", "seconds") if k in knobs}
        priced = knobs.pop("priced", False)
        experiment = base.experiment
        if level:
            knobs["sandbox"] = replace(experiment.sandbox, level=level)
        program = Command(("{python}", str(PROGRAM), *moves), priced=priced)
        agent = replace(experiment.agent, program=program, **knobs)
        budget = replace(experiment.budget, steps=steps, **limits)
        experiment = replace(experiment, agent=agent, budget=budget)
        return Cell(base.cfg, experiment, tmp_path / "run")

    return build


def answers(folder: Path) -> list[dict]:
    return [json.loads(x) for x in (folder / "agent/home/answers.jsonl").read_text().splitlines()]


def launches(state) -> list[dict]:
    return [value for key, value in sorted(state.notes.items()) if key.startswith("launch/")]


def statuses(state) -> list[str]:
    return [node.status for node in state.history()]


def test_each_call_is_a_step_and_the_budget_is_spent_exactly(external):
    run = external("step:30", "step:20", "step:20", "step:40")
    state = run.run()
    nodes = list(state.history())
    assert [(n.op, n.parents, n.status) for n in nodes] == [
        ("draft", (), "ok"),
        ("improve", (0,), "ok"),
        ("improve", (1,), "noop"),
    ]
    assert [n.plan for n in nodes] == ["30 steps", "20 steps", "20 steps"]
    assert nodes[0].snapshot.keys() == {"solution.py"}
    assert nodes[1].snapshot == {}  # the baseline's own code again
    assert state.closed["reason"] == "steps"
    assert state.test["step"] == 0
    first, *_, last = answers(run.folder)
    assert first["metric"] == first["best"] == nodes[0].metrics["mse"]
    assert (first["status"], first["steps_left"]) == ("ok", 2)
    assert first["feedback"] == nodes[0].feedback
    assert [a["steps_left"] for a in answers(run.folder)] == [2, 1, 0, 0]
    assert (last["status"], last["code"]) == ("budget_exhausted", 3)


def test_tokens_and_dollars_go_to_the_step_they_led_to_and_all_of_them_to_the_run(external):
    state = external("spend:100", "step:30", "spend:10", "spend:20", "step:40", "spend:5").run()
    first, second = state.history()
    assert (first.usage.input, first.usage.output) == (100, 1)
    assert (second.usage.input, second.usage.output) == (30, 2)
    assert (first.cost, second.cost) == (pytest.approx(0.01), pytest.approx(0.003))
    assert state.notes["spend"]["usage"]["input"] == 135
    assert state.notes["spend"]["cost"] == pytest.approx(0.0135)
    assert first.seconds_llm > 0


def test_what_a_program_does_not_tell_is_unknown_and_not_nothing(external):
    run = external("step:30", "step:40")
    state = run.run()
    assert [n.cost for n in state.history()] == [None, None]
    assert state.notes["spend"] == {"usage": None, "cost": None}


def test_its_events_and_words_are_kept(external):
    run = external("spend:7", "step:30", steps=1)
    run.run()
    assert '"input": 7' in (run.folder / "agent/events/000.jsonl").read_text()
    assert (run.folder / "steps/0000/reply.md").read_text() == "spent 7"


def test_stopping_early_without_resumes_is_final(external):
    state = external("step:30", "step:40", "step:50", steps=10).run()
    assert len(state.nodes) == 3
    assert state.closed["reason"] == "finished_early"
    assert state.test["step"] == 2
    assert [(x["reason"], x["early"]) for x in launches(state)] == [("exit 0", True)]


def test_it_is_started_again_a_bounded_number_of_times_where_it_stopped(external):
    groups = ["step:30", "step:40", "--", "step:50", "--", "eval:same"]
    run = external(*groups, steps=10, resumes=2)
    state = run.run()
    assert statuses(state) == ["ok", "ok", "ok", "noop"]  # it found its own last edit again
    assert state.closed["reason"] == "finished_early"
    assert [x["evaluations"] for x in launches(state)] == [2, 1, 1]
    assert [n.meta["launch"] for n in state.history()] == [0, 0, 1, 2]


def test_resumes_that_are_used_well_spend_the_whole_budget(external):
    state = external("step:30", "--", "step:40", "step:50", resumes=5).run()
    assert state.closed["reason"] == "steps"
    assert len(state.nodes) == 3


def test_a_change_to_another_file_is_refused_and_undone(external):
    moves = ["step:30", "write:run.py", "step:40", "step:50"]
    run = external(*moves, steps=3)
    state = run.run()
    assert statuses(state) == ["ok", "protected", "ok"]
    assert "run.py" in state.nodes[1].feedback
    assert not state.nodes[1].sandbox  # nothing was run
    pristine = run.experiment.task.repo / "run.py"
    assert (run.folder / "agent/repo/run.py").read_bytes() == pristine.read_bytes()


@pytest.mark.parametrize(
    ("moves", "status", "told"),
    [
        (["delete:run.py"], "protected", "run.py"),
        (["link:run.py>solution.py"], "protected", "run.py"),
        (["delete:solution.py"], "edit_failed", "solution.py is missing"),
        (["link:solution.py>/etc/passwd"], "edit_failed", "solution.py is not a plain file"),
        (["edit:30", "write:extra/new.py"], "ok", "New files are not part"),
        (["edit:30)"], "syntax", "does not compile"),
    ],
)
def test_whatever_it_makes_of_its_copy_gets_a_named_answer(moves, status, told, external):
    run = external(*moves, "eval:look", steps=1)
    state = run.run()
    assert statuses(state) == [status]
    assert told in answers(run.folder)[0]["feedback"]


def test_calls_after_the_budget_run_nothing_and_do_not_keep_it_alive(external):
    run = external("step:30", "step:31", "step:32", "eval:", "hang", steps=2, grace_seconds=4)
    state = run.run()
    assert len(state.nodes) == 2
    assert state.closed["reason"] == "steps"
    assert [a["status"] for a in answers(run.folder)] == ["ok"] * 2 + ["budget_exhausted"] * 2
    assert launches(state)[0]["reason"] == "steps"


def test_one_that_hangs_is_ended_and_started_again(external):
    moves = ["step:30", "hang", "--", "step:40", "step:50"]
    state = external(*moves, idle_seconds=4, resumes=1).run()
    assert state.closed["reason"] == "steps"
    assert [x["reason"] for x in launches(state)] == ["idle", "exit 0"]


def test_one_that_always_hangs_ends_the_run(external):
    state = external("hang", idle_seconds=0.2, resumes=1).run()
    assert state.closed["reason"] == "finished_early"
    assert [(x["reason"], x["early"]) for x in launches(state)] == [("idle", True)] * 2


def test_wall_time_ends_it_while_it_works(external):
    state = external("hang", seconds=1.0).run()
    assert state.closed["reason"] == "seconds"
    assert launches(state)[0]["reason"] == "seconds"


def test_one_that_cannot_start_is_tried_again_uncharged(external):
    state = external("fail:no key", "--", "fail:no key", "--", "step:30", steps=1).run()
    assert statuses(state) == ["ok"]
    assert [(x["detail"], x["early"]) for x in launches(state)][:2] == [("no key", False)] * 2


def test_one_that_never_starts_puts_the_run_down_for_later(external):
    run = external("fail:no key")
    with pytest.raises(InfraError, match="no key"):
        run.run()
    state = run.state()
    assert state.paused["reason"] == "infra"
    assert len(launches(state)) == 1 + visit.RETRIES
    assert not state.nodes


def test_two_calls_at_once_are_two_steps_one_after_the_other(external):
    run = external("twice:30", steps=2)
    state = run.run()
    assert statuses(state) == ["ok", "noop"]
    first, second = state.history()
    assert second.started >= first.started + first.seconds_exec
    assert sorted(a["steps_left"] for a in answers(run.folder)) == [0, 1]


@pytest.mark.parametrize(
    ("limit", "reason"),
    [({"tokens": 50}, "tokens"), ({"dollars": 0.001}, "dollars")],
)
def test_other_budgets_end_it_too(limit, reason, external):
    moves = ("step:30", "spend:100", "hang")
    state = external(*moves, steps=9, priced=True, **limit).run()
    assert state.closed["reason"] == reason
    assert len(state.nodes) == 1


def test_dollars_cannot_be_kept_for_one_that_does_not_tell_them(external):
    with pytest.raises(ConfigError, match="does not tell its cost"):
        external("step:30", dollars=1).run()


def test_a_missing_program_is_named_before_anything_runs(cell):
    with pytest.raises(ConfigError, match=r"agent.program.path.*npm install -g @anthropic-ai"):
        cell("agent=claude_code", "agent.program.path=no-such-program")
    with pytest.raises(ConfigError, match="no-such-program"):
        cell("agent=external", "agent.program.command=[no-such-program]")
    with pytest.raises(ConfigError, match=r"agent.program.command=\[...\]"):
        cell("agent=external")


def test_it_sees_its_copy_and_its_tools_and_nothing_of_ours(external, monkeypatch, tmp_path):
    if why := probe("bubblewrap"):
        pytest.skip(f"bubblewrap: {why}")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://tracking")
    monkeypatch.setenv("SOME_KEY", "given")
    task = external("exit:0").experiment.task
    hidden = [task.dir / "grade.py", task.dir / "ideas", tmp_path / "run" / "journal.jsonl"]
    looks = [f"look:{path}" for path in (*hidden, Path.home() / ".ssh", "/agent/repo/run.py")]
    run = external("environ:", *looks, "step:30", steps=1, pass_env=("SOME_KEY",))
    assert run.folder == tmp_path / "run"
    run.run()
    environ = json.loads((run.folder / "agent/home/environ.json").read_text())
    assert environ["SOME_KEY"] == "given"
    assert not {"MLFLOW_TRACKING_URI", "OPENAI_API_KEY", "PYTHONPATH"} & set(environ)
    seen = dict(x.rsplit(" ", 1) for x in (run.folder / "agent/home/seen.txt").open())
    assert [value.strip() for value in seen.values()] == ["False"] * 4 + ["True"]


def test_without_walls_it_works_too(external):
    state = external("step:30", "step:40", steps=2, level="process").run()
    assert statuses(state) == ["ok", "ok"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_killed_in_the_middle_it_goes_on_from_the_last_step(external, tmp_path):
    """Kill -9 once two steps are on disk: they stay, and a fresh launch gets what is left."""
    moves = ["session:abc", "spend:9", "step:30", "step:40", "edit:99", "hang"]
    moves += ["--", "environ:", "eval:same", "step:50"]
    run = external(*moves, steps=4)
    pid = os.fork()
    if pid == 0:
        logging.disable()
        try:
            run.run()
        finally:
            os._exit(1)
    for _ in wait(60):
        records = read_records(run.folder / "journal.jsonl")[0]
        if sum(r["e"] == "node" for r in records) == 2 and edited(run.folder, "99"):
            break
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    state = run.run()
    assert statuses(state) == ["ok", "ok", "noop", "ok"]  # noop: the unfinished edit is gone
    first, second = launches(state)
    assert (first["reason"], first["session"], first["usage"]["input"]) == ("interrupted", "abc", 9)
    assert second["evaluations"] == 2
    environ = json.loads((run.folder / "agent/home/environ.json").read_text())
    assert (environ["FML_SESSION"], environ["FML_STEPS_LEFT"]) == ("abc", "2")
    assert state.closed["reason"] == "steps"


def wait(seconds: float) -> Iterator[None]:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        yield
        time.sleep(0.05)
    raise TimeoutError


def edited(folder: Path, steps: str) -> bool:
    return f"STEPS = {steps}" in (folder / "agent/repo/solution.py").read_text()


def test_the_program_is_gone_when_the_run_is_interrupted(external, monkeypatch):
    run = external("step:30", "hang", steps=5)

    class Interrupting:
        def changed(self) -> None:
            if run.state().nodes:
                raise KeyboardInterrupt

        def doing(self, what: str) -> None:
            pass

    with pytest.raises(KeyboardInterrupt):
        run.run([Interrupting()])
    assert run.state().paused["reason"] == "interrupted"
    assert not running_programs()


def running_programs() -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if str(PROGRAM).encode() in words and sys.executable.encode() in words:
            found.append(path.parent.name)
    return found
