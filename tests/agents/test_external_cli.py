"""The real command-line agents against model servers of our own on loopback.

Skipped where a program is neither on PATH nor named by FML_CLAUDE, FML_CODEX or FML_GEMINI:

    npm install --prefix /tmp/cli @anthropic-ai/claude-code @openai/codex @google/gemini-cli
    FML_CLAUDE=/tmp/cli/node_modules/.bin/claude pytest tests/agents/test_external_cli.py -n 0
"""

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fml_hydra.errors import InfraError
from fml_hydra.external import visit
from fml_hydra.external.endpoint import Endpoint
from fml_hydra.sandbox import probe

sys.path.insert(0, str(Path(__file__).parents[1] / "external"))
from fake_models import Fail, Hang, Models, Move, Say, Use, served  # noqa: E402

IDLE = 30
"""Seconds a program may need to say its first word on a busy machine."""


@dataclass(frozen=True)
class Cli:
    """How a program is driven: its edits and evaluations as moves of a model."""

    agent: str
    command: str
    path: str
    evaluate: Callable[[str], Move]
    edit: Callable[[str, str, str, str], Move]
    opening: Callable[[str], Sequence[Move]]


def shell(tool: str, key: str) -> Callable[[str, str, str, str], Move]:
    def edit(repo: str, name: str, old: str, new: str) -> Move:
        return Use(tool, {key: f"sed -i 's/{old}/{new}/' {name}"})

    return edit


def claude_edit(repo: str, name: str, old: str, new: str) -> Move:
    arguments = {"file_path": f"{repo}/{name}", "old_string": old, "new_string": new}
    return Use("Edit", arguments)


def claude_reads(repo: str) -> list[Move]:
    names = ("solution.py", "run.py")
    return [Use("Read", {"file_path": f"{repo}/{name}"}) for name in names]


CLIS = {
    "claude": Cli(
        "claude_code",
        "claude",
        "FML_CLAUDE",
        lambda note: Use("mcp__fml__evaluate", {"note": note}),
        claude_edit,
        claude_reads,
    ),
    "codex": Cli(
        "codex",
        "codex",
        "FML_CODEX",
        lambda note: Use("mcp__fml/evaluate", {"note": note}),
        shell("exec_command", "cmd"),
        lambda repo: [],
    ),
    "gemini": Cli(
        "gemini",
        "gemini",
        "FML_GEMINI",
        lambda note: Use("run_shell_command", {"command": f"fml-eval '{note}'"}),
        shell("run_shell_command", "command"),
        lambda repo: [],
    ),
}


class Bench:
    """One program, a script for its model, and cells to run it in."""

    def __init__(self, cli: Cli, path: str, cell: Callable[..., Any], repo: str) -> None:
        self.cli, self.path, self.cell, self.repo = cli, path, cell, repo
        self._steps = 20

    def opening(self) -> list[Move]:
        return list(self.cli.opening(self.repo))

    def steps(self, count: int) -> list[Move]:
        """Moves that edit and evaluate, so many times, each time training longer."""
        moves: list[Move] = []
        for _ in range(count):
            old, self._steps = f"STEPS = {self._steps}", self._steps + 10
            moves.append(self.edit("solution.py", old, f"STEPS = {self._steps}"))
            moves.append(self.cli.evaluate(f"{self._steps} steps"))
        return moves

    def edit(self, name: str, old: str, new: str) -> Move:
        return self.cli.edit(self.repo, name, old, new)

    def build(self, models: Models, *overrides: str) -> Any:
        address = {
            "claude": ("+agent.env.ANTHROPIC_BASE_URL=%s", "+agent.env.ANTHROPIC_API_KEY=fake"),
            "codex": (
                "agent.program.base_url=%s/v1",
                "agent.program.model=gpt-5",
                "+agent.env.OPENAI_API_KEY=fake",
            ),
            "gemini": (
                "+agent.env.GOOGLE_GEMINI_BASE_URL=%s",
                "+agent.env.GEMINI_API_KEY=fake",
                "agent.program.model=gemini-2.5-pro",
            ),
        }[self.cli.command]
        words = [word.replace("%s", models.url) for word in address]
        path = f"agent.program.path={self.path}"
        return self.cell(f"agent={self.cli.agent}", path, *words, *overrides)


@pytest.fixture
def bench(request: pytest.FixtureRequest, cell, tmp_path: Path, monkeypatch) -> Bench:
    cli = CLIS[request.param]
    path = os.environ.get(cli.path) or shutil.which(cli.command)
    if not path:
        pytest.skip(f"{cli.command} is not on PATH, and {cli.path} is not set")
    monkeypatch.setattr(visit, "RETRY_SECONDS", 0.01)
    repo = "/agent/repo" if not probe("bubblewrap") else str(tmp_path / "run/agent/repo")
    return Bench(cli, path, cell, repo)


each = pytest.mark.parametrize("bench", ["claude", "codex"], indirect=True)
every = pytest.mark.parametrize("bench", list(CLIS), indirect=True)


def launches(state) -> list[dict]:
    return [value for key, value in sorted(state.notes.items()) if key.startswith("launch/")]


def statuses(state) -> list[str]:
    return [node.status for node in state.history()]


@every
def test_it_spends_its_budget_and_tells_its_tokens(bench):
    moves = [*bench.opening(), *bench.steps(2), Say("All steps are used.")]
    with served(moves) as models:
        state = bench.build(models, "budget.steps=2").run()
    assert statuses(state) == ["ok", "ok"]
    assert [n.plan for n in state.history()] == ["30 steps", "40 steps"]
    assert state.closed["reason"] == "steps"
    (launch,) = launches(state)
    assert launch["reason"] == "exit 0"
    requests = len(models.script.requests)
    assert requests == len(moves)
    spent = state.notes["spend"]["usage"]
    assert (spent["input"], spent["cached"]) == (150 * requests, 50 * requests)
    assert spent["output"] == 20 * requests
    priced = bench.cli.command == "claude"
    assert (state.notes["spend"]["cost"] is not None) == priced
    if priced:  # and token by token what led to a step
        per_step = [n.usage.input for n in state.history()]
        assert sum(per_step) == 150 * (requests - 1)


@every
def test_stopping_after_three_of_ten_steps_it_is_resumed_once_in_its_own_session(bench):
    moves = [*bench.opening(), *bench.steps(3), Say("Enough."), *bench.steps(2), Say("Enough!")]
    with served(moves) as models:
        state = bench.build(models, "budget.steps=10", "agent.resumes=1").run()
    assert statuses(state) == ["ok"] * 5
    assert state.closed["reason"] == "finished_early"
    first, second = launches(state)
    assert (first["evaluations"], second["evaluations"]) == (3, 2)
    assert first["session"] == second["session"]
    last = json.dumps(models.script.requests[-1])
    assert "7 steps are left" in last
    assert "Enough." in last  # it remembers the first launch
    assert state.notes["spend"]["usage"]["input"] == 150 * len(models.script.requests)


@each
def test_without_resumes_stopping_after_three_of_ten_is_final(bench):
    moves = [*bench.opening(), *bench.steps(3), Say("Enough.")]
    with served(moves) as models:
        state = bench.build(models, "budget.steps=10", "agent.resumes=0").run()
    assert len(state.nodes) == 3
    assert state.closed["reason"] == "finished_early"
    assert state.test["step"] == 2


@each
def test_an_edit_of_a_protected_file_is_refused_undone_and_told(bench):
    cheat = bench.edit("run.py", "import json", "import  json")
    moves = [*bench.opening(), cheat, *bench.steps(2), Say("Done.")]
    with served(moves) as models:
        run = bench.build(models, "budget.steps=2")
        state = run.run()
    assert statuses(state) == ["protected", "ok"]
    pristine = (run.experiment.task.repo / "run.py").read_bytes()
    assert (run.folder / "agent/repo/run.py").read_bytes() == pristine
    assert "may not be edited: run.py" in json.dumps(models.script.requests[-1])


@each
def test_asking_after_the_budget_is_gone_runs_nothing(bench):
    moves = [*bench.opening(), *bench.steps(4), Say("Done.")]
    with served(moves) as models:
        state = bench.build(models, "budget.steps=2").run()
    assert statuses(state) == ["ok", "ok"]
    assert state.closed["reason"] == "steps"
    told = json.dumps(models.script.requests[-1])
    assert told.count("budget_exhausted") == 2


@each
def test_a_model_that_never_answers_is_not_waited_for(bench):
    with served([*bench.opening(), *bench.steps(1), Hang()]) as models:
        overrides = ("budget.steps=9", "agent.resumes=0", f"agent.idle_seconds={IDLE}")
        state = bench.build(models, *overrides).run()
    assert statuses(state) == ["ok"]
    assert state.closed["reason"] == "finished_early"
    assert [x["reason"] for x in launches(state)] == ["idle"]


@pytest.fixture
def unconnected(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The first launch finds a client that does not start."""
    seen: list[int] = []
    equip = Endpoint.equip

    def broken(self: Endpoint, inside: str, texts: dict[str, str]) -> None:
        equip(self, inside, texts)
        if not seen:
            (self.folder / "client.py").write_text("raise SystemExit(1)\n")
        seen.append(1)

    monkeypatch.setattr(Endpoint, "equip", broken)
    return seen


@each
def test_when_its_mcp_server_is_not_connected_it_is_started_again_uncharged(bench, unconnected):
    again = [*bench.opening()] * 3  # the first launch may get to a request before it is ended
    with served([*again, *bench.steps(1), Say("Done.")]) as models:
        state = bench.build(models, "budget.steps=1", "agent.resumes=0").run()
    assert statuses(state) == ["ok"]
    first, second = launches(state)
    assert (first["evaluations"], first["early"]) == (0, False)
    assert second["reason"] == "exit 0"
    if bench.cli.command == "claude":
        assert first["reason"] == "not connected"


@each
def test_a_provider_that_refuses_the_key_puts_the_run_down(bench):
    with served([Fail(401)]) as models:
        run = bench.build(models, "budget.steps=1")
        with pytest.raises(InfraError, match="401|[Aa]uth"):
            run.run()
    assert run.state().paused["reason"] == "infra"
    assert not run.state().nodes
