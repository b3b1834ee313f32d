"""The control repeats the baseline with a seed of its own each time, and shows the noise floor."""

import shutil
from statistics import mean

import pytest

from fml_hydra.config import load_experiment
from fml_hydra.journal import Folded, Journal
from fml_hydra.overrides import compose_config
from fml_hydra.runner import run as run_cell
from fml_hydra.simulation import make_landscape, simulate
from fml_hydra.testing import ScriptedLLM


@pytest.fixture(scope="module")
def agent():
    return load_experiment(compose_config(["agent=repeat_baseline"])).agent


def never(request):
    raise AssertionError("it asked a language model")


def test_every_step_is_the_baseline_with_another_seed(agent):
    run = simulate(agent, make_landscape(0.1, 0), steps=9, slots=2, llm=ScriptedLLM(never))
    assert [n.snapshot for n in run.history] == [{}] * 9
    assert [n.status for n in run.history] == ["ok"] * 9
    assert [n.meta["shift"] for n in run.history] == list(range(1, 10))
    assert len({n.utility for n in run.history}) == 9
    assert not any(n.flags for n in run.history)


def test_best_of_n_exceeds_the_baseline_by_the_expected_maximum_of_the_noise(agent):
    """Of 50 normal values the largest is 2.249 standard deviations above their mean."""
    noise, landscapes = 0.1, [make_landscape(0.1, seed) for seed in range(20)]
    runs = [simulate(agent, landscape, steps=50, noise=noise) for landscape in landscapes]
    best = mean(run.history.best().utility for run in runs)
    assert best / noise == pytest.approx(2.249, abs=0.3)  # 0.46 / sqrt(20) is 0.1
    assert all(run.curve()[-1] == 0 for run in runs)  # and nothing is gained in truth


def test_the_training_seed_of_a_real_task_is_shifted(agent, toy, words, tmp_path):
    """On the toy task, whose predictions are moved by the seed here, no two steps are equal."""
    seeded = tmp_path / "tasks" / "toy"
    shutil.copytree(toy / "tasks" / "toy", seeded)
    runner = seeded / "repo" / "run.py"
    text = runner.read_text().replace(
        "data, out = sys.argv[1:3]", "data, out, seed = sys.argv[1:4]"
    )
    runner.write_text(
        text.replace("slope * x + intercept", "slope * x + intercept + int(seed) / 1e3")
    )
    extra = [
        "agent=repeat_baseline",
        "budget.steps=3",
        "tracking=none",
        f"tasks_dir={tmp_path}/tasks",
        'task.commands=[{run: "{python} run.py {data} {out} {seed}", data: [train, eval]}]',
    ]
    experiment = load_experiment(compose_config(words(*extra)))
    folder = tmp_path / "run"
    journal = Journal(folder / "journal.jsonl")
    run_cell(experiment, "identity", folder, (), journal)
    journal.close()
    state = Folded.read(folder / "journal.jsonl")
    values = [n.metrics["mse"] for n in state.history()]
    assert len({*values, state.header["baseline"]["val"]["mse"]}) == 4
    assert state.test["value"] == state.header["baseline"]["test"]["mse"]
