"""`python -m fml_hydra report` as a user types it, and what MLflow gets of it."""

from dataclasses import replace
from pathlib import Path

import pytest
from studies import WORDS, matrix, run, study_of

from fml_hydra.analysis.load import load_runs
from fml_hydra.commands.report import load_settings, local_sweeps, main
from fml_hydra.errors import ConfigError, InfraError
from fml_hydra.report.files import Folder
from fml_hydra.report.selection import LocalSweep, select
from fml_hydra.report.sending import send
from fml_hydra.status import CellStatus, write_status
from fml_hydra.tracking import Tracking


def test_from_words_to_files(tmp_path, capsys):
    run(tmp_path / "m", "t", "aide", [0.6, None], test=0.6)
    out = tmp_path / "a folder, with = signs"
    quick = ["behaviours=false", "trees=1"]
    assert main([*WORDS, *quick, f"root={tmp_path}/m", f"out={out}"]) == 0
    told = capsys.readouterr().out
    assert f"Page:    {out}/report.html" in told
    assert "1 run, 2 steps: sweep s" in told
    assert "MLflow" not in told
    assert (out / "tables" / "leaderboard.tex").exists()
    assert (out / "figures" / "iqm.svg").exists()


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("best_off=3", "best_off (conf/report.yaml): unknown key; did you mean best_of?"),
        ("best_of=0", "best_of (conf/report.yaml): Input should be greater than 0, got 0"),
        ("figures=[gif]", "figures.0 (conf/report.yaml): Input should be 'svg', 'png' or 'pdf'"),
        ("embedder=none", "embedder=none: no such file in conf/embedder; allowed: auto,"),
        ("trees=many", "trees (conf/report.yaml): Input should be a valid integer"),
    ],
)
def test_a_wrong_word_is_one_line(word, message):
    with pytest.raises(ConfigError) as error:
        load_settings([word])
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_words_that_hydra_would_take_apart(tmp_path):
    where = "tags.`fml.task` = 'fairness' and tags.`fml.seed` = '1'"
    words = [f"filter={where}", "sweep=a,b", "experiment=mine", "uri=http://127.0.0.1:9"]
    settings = load_settings(words)
    assert (settings.filter, settings.sweep) == (where, "a,b")
    assert settings.tracking.experiment == "mine"
    assert settings.tracking.uri == "http://127.0.0.1:9"


def test_the_latest_sweep_named_ones_and_all(tmp_path):
    root = tmp_path / "m"
    for number, sweep in enumerate(("one", "two", "three")):
        knobs = {"sweep": sweep, "started": 100.0 + number, "identity": f"r{number}"}
        run(root, "t", "aide", [0.6], number, test=0.6, **knobs)
    settings = replace(load_settings([*WORDS]), root=root)
    assert list(select(settings).runs["sweep"]) == ["three"]
    assert set(select(replace(settings, sweep="one,two")).runs["sweep"]) == {"one", "two"}
    assert len(select(replace(settings, sweep="all")).runs) == 3
    with pytest.raises(ConfigError, match="no runs: the runs' folders, sweep none such"):
        select(replace(settings, sweep="none such"))
    # cells that a later sweep skipped belong to it as well
    later = LocalSweep("four", 200.0, frozenset({"r0", "r2"}))
    found = select(settings, [LocalSweep("old", 1.0, frozenset()), later])
    assert (found.title, set(found.runs["seed"])) == ("sweep four", {0, 2})
    assert found.pages == ""


def test_sweeps_of_this_machine(tmp_path):
    status = CellStatus("t", "a", "m", 0, folder="/somewhere/runs/r7")
    (tmp_path / "sweeps" / "s" / "cells").mkdir(parents=True)
    write_status(tmp_path / "sweeps" / "s" / "cells" / "0.json", status)
    found = local_sweeps(tmp_path)
    assert [(s.name, s.identities) for s in found] == [("s", frozenset({"r7"}))]
    assert found[0].touched > 0


def test_no_store_says_what_to_do(tmp_path):
    with pytest.raises(ConfigError, match="does not exist; run something first, name its root="):
        select(load_settings([f"root={tmp_path}/none"]))


@pytest.fixture(scope="module")
def logged(tmp_path_factory) -> tuple[Path, str]:
    """A store that has a report, and the report's run."""
    root = tmp_path_factory.mktemp("logged") / "mlruns"
    folder = Folder(root / "reports" / "s")
    folder.write("report.html", "<!doctype html>")
    folder.write("tables/runs.csv", "run_id\n")
    (folder.path / "private.txt").write_text("not part of the report")
    run_id = send(Tracking(None, "fml_hydra"), root, "sweep s", folder.path, folder.written)
    return root, run_id


def test_mlflow_has_the_files_and_does_not_list_it_among_runs(logged):
    root, run_id = logged
    client = Tracking(None, "fml_hydra").open(root).client
    found = client.get_run(run_id)
    assert found.data.tags["fml.kind"] == "report"
    assert found.info.status == "FINISHED"
    assert [a.path for a in client.list_artifacts(run_id)] == ["report.html", "tables"]
    assert [a.path for a in client.list_artifacts(run_id, "tables")] == ["tables/runs.csv"]
    assert load_runs(None, root).empty


def test_a_server_that_is_away_costs_only_the_copy(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "1")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    away = Tracking("http://127.0.0.1:9", "fml_hydra")
    folder = Folder(tmp_path)
    folder.write("report.html", "<!doctype html>")
    with pytest.raises(InfraError, match="127.0.0.1"):
        send(away, tmp_path, "s", tmp_path, folder.written)
    assert (tmp_path / "report.html").exists()


def test_a_study_knows_its_cells(tmp_path):
    matrix(tmp_path / "m")
    study = study_of(tmp_path / "m", "best_of=1")
    assert (study.asked, len(study.best), len(study.tested)) == (1, 8, 15)
    assert set(study.best["seed"]) == {0}
    assert study.label("aide", "other") == "aide · other"
