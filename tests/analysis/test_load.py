"""Runs from folders and from MLflow: the same tables, whoever is asked."""

import math
import shutil
from pathlib import Path

import pandas as pd
import pytest
from journals import write

from fml_hydra.analysis.load import (
    latest_sweep,
    load_folder,
    load_runs,
    load_steps,
    read_journal,
)
from fml_hydra.errors import ConfigError, JournalError
from fml_hydra.summary import summarize
from fml_hydra.tracking import Tracking
from fml_hydra.tracking.delivery import Delivery


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root whose store has three runs: finished, going on here, going on elsewhere."""
    from mlflow.entities import Metric

    root = tmp_path_factory.mktemp("analysis") / "mlruns"
    opened = Tracking(None, "fml_hydra").open(root)
    client = opened.client

    def parent(number: int, sweep: str) -> str:
        tags = {"kind": "run", "instance": f"i{number}", "task": "toy", "agent": "aide"}
        tags |= {"llm": "offline", "seed": str(number), "sweep": sweep, "identity": f"r{number}"}
        tags |= {"status": "running"}
        named = {f"fml.{k}": v for k, v in tags.items()}
        made = client.create_run(opened.experiment_id, 1000 * (100 + number), named)
        return str(made.info.run_id)

    done = parent(0, "first")
    journal = write(root.parent / "away", [0.6, 0.8], test=0.7, instance="i0", sweep="first")
    client.log_artifact(done, str(journal))
    client.set_terminated(done, "FINISHED", 105_000)
    parent(1, "second")
    write(root / "runs" / "r1", [0.6], instance="i1", sweep="second", seed=1, started=101.0)
    elsewhere = parent(2, "second")
    client.log_batch(elsewhere, metrics=[Metric("baseline_val", 0.5, 0, 0)])
    client.create_run(opened.experiment_id, 0, {"fml.kind": "step", "mlflow.parentRunId": done})
    return root


def test_the_runs_of_a_store(store):
    runs = load_runs(root=store)
    assert list(runs["seed"]) == [3, 1, 2]  # the first one's journal says 3
    assert list(runs["steps"]) == [2, 1, 0]
    assert list(runs["status"]) == ["finished", "running", "running"]
    assert runs["test"][0] == 0.7
    assert math.isnan(runs["test"][2])
    assert runs["baseline_val"][2] == 0.5
    assert list(runs["journal"].map(bool)) == [True, True, False]
    assert list(load_steps(runs)["k"]) == [1, 2, 1]
    assert latest_sweep(runs) == "second"


def test_the_second_time_the_journal_is_not_read(store):
    first = load_runs(root=store, sweep="first")
    journal = Path(first["journal"][0])
    kept = journal.read_bytes()
    journal.write_text("damaged\n")
    try:
        again = load_runs(root=store, sweep="first")
        pd.testing.assert_frame_equal(first, again)
        assert list(load_steps(again)["val"]) == [0.6, 0.8]
        shutil.rmtree(store / "analysis")
        assert load_runs(root=store, sweep="first")["steps"][0] == 0
    finally:
        journal.write_bytes(kept)


def test_selecting(store):
    assert len(load_runs(root=store, sweep="second")) == 2
    assert len(load_runs(root=store, filter="tags.`fml.seed` = '2'")) == 1
    assert load_runs(root=store, sweep="none such").empty
    with pytest.raises(ConfigError, match="filter"):
        load_runs(root=store, filter="what?")


def test_nothing_is_made_where_nothing_is(tmp_path, store):
    with pytest.raises(ConfigError, match="does not exist"):
        load_runs(root=tmp_path / "empty")
    assert not (tmp_path / "empty").exists()
    with pytest.raises(ConfigError, match="no experiment 'misspelt'"):
        load_runs(root=store, experiment="misspelt")


def test_runs_in_folders(tmp_path, caplog):
    write(tmp_path / "runs/b", [0.6, None], seed=2, started=50.0, sweep="x", test=0.6)
    write(tmp_path / "runs/a", [0.6], seed=1, started=60.0, sweep="y")
    write(tmp_path / "runs/a.old0", [0.6], seed=1)
    write(tmp_path / "runs/c", []).write_text("")  # measuring the baseline
    write(tmp_path / "runs/d", []).write_text('{"e": "open", "t": 1, "metric": 1}\n')
    runs = load_folder(tmp_path)
    assert list(runs["seed"]) == [2, 1]  # oldest first
    assert "left out" in caplog.text
    assert len(load_steps(runs)) == 3
    assert list(load_runs("none", tmp_path, sweep="y")["seed"]) == [1]
    assert len(read_journal(runs.loc[0]).nodes) == 2
    with pytest.raises(ConfigError, match="needs MLflow"):
        load_runs("none", tmp_path, filter="x")


def test_no_runs_at_all(tmp_path):
    runs = load_folder(tmp_path)
    assert runs.empty
    assert load_steps(runs).empty
    with pytest.raises(ConfigError, match="no runs"):
        latest_sweep(runs)


def test_a_run_without_a_journal_says_so(store):
    runs = load_runs(root=store)
    with pytest.raises(JournalError, match="r2"):
        read_journal(runs.loc[2])


def test_a_real_run_is_the_same_from_its_folder_and_from_mlflow(cell, store, tmp_path):
    done = cell("agent=aide", "agent.policy.num_drafts=2", "budget.steps=3")
    done.folder = tmp_path / "runs" / "toy"
    state = done.run()
    (done.folder / "config.yaml").write_text("seed: 0\n")
    Delivery(done.folder, Tracking(None, "real"), store).send(state)
    here, there = load_folder(tmp_path), load_runs(root=store, experiment="real")
    own = ["run_id", "journal", "cached"]
    pd.testing.assert_frame_equal(here.drop(columns=own), there.drop(columns=own))
    steps = [load_steps(runs).drop(columns="run_id") for runs in (here, there)]
    pd.testing.assert_frame_equal(*steps)
    summary = summarize(state)
    same = ("test", "normalized_improvement", "steps", "seconds", "tokens", "termination")
    assert {name: here[name][0] for name in same} == {n: getattr(summary, n) for n in same}
    assert list(steps[0]["status"]) == [node.status for node in state.history()]
