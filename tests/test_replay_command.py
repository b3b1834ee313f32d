"""`python -m fml_hydra replay`: identical, or where it diverges, or one line why it cannot be."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from fml_hydra import cli
from fml_hydra.commands import replay
from fml_hydra.config import load_experiment
from fml_hydra.errors import ConfigError
from fml_hydra.journal import Folded, Journal
from fml_hydra.jsonl import read_records
from fml_hydra.overrides import compose_config
from fml_hydra.runner import run

STEPS = 3


@pytest.fixture(scope="session")
def home(toy: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with one finished run, whose name is its identity; for copying only."""
    root = tmp_path_factory.mktemp("recorded") / "mlruns"
    words = ["--config-dir", f"{toy}/conf", "task=toy", f"tasks_dir={toy}/tasks", "seed=5"]
    words += [f"cache_dir={toy}/cache", f"root={root}", "tracking=none", f"budget.steps={STEPS}"]
    cfg = compose_config([*words, "agent=ai_scientist"])
    experiment = load_experiment(cfg)
    folder = root / "runs" / experiment.identity(cfg)
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text(OmegaConf.to_yaml(cfg, resolve=True))
    journal = Journal(folder / "journal.jsonl")
    run(experiment, folder.name, folder, [], journal)
    journal.close()
    return root


@pytest.fixture
def recorded(home: Path, tmp_path: Path) -> Path:
    """The run, below a root of the test's own."""
    shutil.copytree(home, tmp_path / "mlruns")
    (folder,) = (tmp_path / "mlruns" / "runs").iterdir()
    return folder


Said = Callable[..., str]


@pytest.fixture
def replayed(recorded: Path, capsys: pytest.CaptureFixture[str]) -> Said:
    """Replay it and return what was said; the last line is the exit code."""

    def go(*words: str, what: str | None = None) -> str:
        root = recorded.parent.parent
        code = replay.main([what or recorded.name, f"root={root}", *words])
        return f"{capsys.readouterr().out}{code}"

    return go


def change(folder: Path, kind: str, number: int, **fields) -> None:
    """Change the event of that kind and number in a run's journal."""
    path = folder / "journal.jsonl"
    events = read_records(path)[0]
    [e for e in events if e["e"] == kind][number].update(fields)
    path.write_text("".join(json.dumps(event) + "\n" for event in events))


def cut(folder: Path, after: str, number: int) -> None:
    """As if the run had been killed right after that event."""
    path = folder / "journal.jsonl"
    events = read_records(path)[0]
    ends = [i for i, e in enumerate(events) if e["e"] == after]
    path.write_text("".join(json.dumps(e) + "\n" for e in events[: ends[number] + 1]))


def test_identical_in_a_new_folder_without_spending_anything(recorded, replayed):
    before = {p: p.read_bytes() for p in recorded.rglob("*") if p.is_file()}
    told = replayed().splitlines()
    calls = read_records(recorded / "calls.jsonl")[0]
    tokens = sum(r["usage"]["input"] + r["usage"]["output"] for r in calls)
    assert [line for line in told if line.endswith(": as recorded")] == told[:STEPS]
    assert told[STEPS].startswith(f"IDENTICAL: {STEPS} steps, {len(calls)} calls, test ")
    assert f"{tokens:,} tokens, $0.0000 at the time; nothing was spent now" in told[STEPS + 1]
    assert told[-1] == "0"
    folder = Path(told[-2].removeprefix("Replay: "))
    assert folder == recorded.parent.parent / "replays" / f"{recorded.name}.0"
    assert Folded.read(folder / "journal.jsonl").test is not None
    assert {p: p.read_bytes() for p in before} == before
    assert any(r["key"].startswith("p") for r in calls), "proposals are replayed as well"


def test_a_changed_prompt_is_shown_at_its_call(replayed):
    told = replayed("agent.feedback.head=3", "agent.feedback.tail=3").splitlines()
    assert told[-1] == "1"
    (prompt,) = [line for line in told if line.startswith("prompt: ")]
    assert "is not the recorded one: message" in prompt
    assert "--- recorded" in told
    assert "DIVERGED from the recording." in told
    assert not any("IDENTICAL" in line for line in told)


def test_a_changed_outcome_is_shown_at_its_step(recorded, replayed):
    events = [e for e in read_records(recorded / "journal.jsonl")[0] if e["e"] == "node"]
    good = next(i for i, e in enumerate(events) if e["status"] == "ok")
    utility = events[good]["utility"]
    change(recorded, "node", good, utility=-123.5, outputs="another hash of outputs", cost=7.0)
    told = replayed()
    assert f"step {good}: {events[good]['op']}, mse" in told
    assert (
        f"DIFFERS: utility {utility!r}, recorded -123.5; outputs {events[good]['outputs'][:12]}, "
        "recorded another hash" in told
    )
    assert f"1 steps differ, the first: step {good}" in told
    assert told.endswith("1")


def test_a_changed_baseline_or_test_and_a_call_that_is_not_made_are_shown(recorded, replayed):
    header = read_records(recorded / "journal.jsonl")[0][0]["baseline"]
    before = {**header, "val": {**header["val"], "n": 21.0}}
    change(recorded, "open", 0, baseline=before)
    change(recorded, "test", 0, value=3.25)
    path = recorded / "calls.jsonl"
    extra = {**read_records(path)[0][-1], "key": "1/9", "seed": 1}
    path.write_text(path.read_text() + json.dumps(extra) + "\n")
    told = replayed()
    assert "calls of the recording that were not made: 1/9" in told
    assert f"baseline: mse on val {header['val']['mse']!r}" in told
    assert ", recorded 3.25" in told
    assert told.endswith("1")


@pytest.mark.parametrize("after", ["node", "batch"])
def test_a_killed_run_is_replayed_as_far_as_it_goes(recorded, replayed, after):
    cut(recorded, after, 1)
    steps = len(Folded.read(recorded / "journal.jsonl").nodes)
    calls = recorded / "calls.jsonl"
    lines = [r for r in read_records(calls)[0] if not r["key"].startswith(("2", "p2"))]
    calls.write_text("".join(json.dumps(r) + "\n" for r in lines))
    told = replayed()
    assert f"IDENTICAL as far as the recording goes: {steps} steps" in told
    assert told.endswith("0")


@pytest.mark.parametrize("reason", ["seconds", "dollars"])
def test_a_run_whose_budget_ended_it_ends_at_the_same_step(recorded, replayed, reason):
    cut(recorded, "node", 1)
    journal = Journal(recorded / "journal.jsonl")
    journal.record("close", reason=reason, step=2)
    journal.record("test", step=0, value=-7.5, metrics={}, status="ok")
    journal.close()
    told = replayed()
    assert "step 1: " in told
    assert "step 2: " not in told
    assert told.count("\ntest: ") == 1
    assert ", recorded -7.5\nDIVERGED" in told
    (folder,) = (recorded.parent.parent / "replays").iterdir()
    assert Folded.read(folder / "journal.jsonl").closed == {"reason": reason, "step": 2}


def test_a_changed_task_is_told_even_if_nothing_comes_of_it(recorded, replayed, toy, tmp_path):
    shutil.copytree(toy / "tasks", tmp_path / "tasks")
    readme = tmp_path / "tasks" / "toy" / "repo" / "README.md"
    readme.write_text("A line.\n")
    told = replayed(f"tasks_dir={tmp_path}/tasks", what=str(recorded))
    assert told.startswith("The task's files, or the program, have changed since the recording.")
    assert "IDENTICAL" in told


def bad_inputs() -> list[tuple[list[str], str]]:
    return [
        ([], "usage: "),
        (["--help"], "usage: "),
        (["a", "b"], "usage: "),
        (["toy.nobody"], "no such path, and no run in"),
        (["0" * 32], "no such run below .* no MLflow store"),
        (["{run}", "agent.policy.nix=1"], "agent.policy.nix: the recorded configuration has no"),
        (["{run}", "budget.steps=many"], r"budget.steps .*valid integer"),
        (["{run}", "slots=[1"], r"slots=\[1: "),
        (["{run}/.."], "there is no config.yaml and no journal.jsonl and no calls.jsonl"),
    ]


@pytest.mark.parametrize(("words", "complaint"), bad_inputs())
def test_what_cannot_be_replayed(recorded, words, complaint):
    given = [word.format(run=recorded) for word in words]
    with pytest.raises(ConfigError, match=complaint) as caught:
        replay.main([*given, f"root={recorded.parent.parent}"])
    assert "\n" not in str(caught.value)
    assert not (recorded.parent.parent / "replays").exists()


def test_a_run_without_a_step_or_without_a_configuration(recorded):
    (recorded / "config.yaml").write_text("- nonsense\n")
    with pytest.raises(ConfigError, match="not a run's configuration"):
        replay.main([str(recorded)])
    cut(recorded, "open", 0)
    with pytest.raises(ConfigError, match="it has no step yet"):
        replay.main([str(recorded)])


def test_a_program_that_asks_its_model_itself(recorded, words):
    cfg = compose_config(words("agent=claude_code"))
    (recorded / "config.yaml").write_text(OmegaConf.to_yaml(cfg, resolve=True))
    with pytest.raises(ConfigError, match="claude_code asks its model itself"):
        replay.main([str(recorded), f"root={recorded.parent.parent}"])


@pytest.mark.parametrize(("words", "code"), [(["nix"], 2), ([], 2)])
def test_exit_codes_of_bad_input(words, code, tmp_path, capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main(["replay", *words, f"root={tmp_path}"])
    assert caught.value.code == code
    assert capsys.readouterr().err.startswith("error: ")
