"""Die, or be refused, before each request of a delivery: afterwards everything is there once."""

import os
import shutil
import signal
from pathlib import Path

import pytest
from filelock import FileLock

from fml_hydra.errors import InfraError
from fml_hydra.journal import Folded
from fml_hydra.tracking import Tracking
from fml_hydra.tracking import delivery as module
from fml_hydra.tracking.delivery import Delivery, Receipt

REQUESTS = ("search_runs", "create_run", "log_batch", "log_artifacts", "log_artifact", "log_text")
REQUESTS += ("set_tag", "update_run", "set_terminated")
TRACKING = Tracking(None, "fml_hydra")


@pytest.fixture(params=[2])
def run_folder(cell, request) -> Path:
    """A run of two steps, or of so many, that nobody was told of."""
    steps = f"budget.steps={request.param}"
    done = cell("agent=aide", "agent.policy.num_drafts=2", steps, "seed=5")
    done.run()
    (done.folder / "config.yaml").write_text("seed: 5\nagent: {name: aide}\n")
    return done.folder


def state_of(folder: Path) -> Folded:
    return Folded.read(folder / "journal.jsonl")


def copy_as(folder: Path, name: str) -> Path:
    """The same run under another name, for the same store."""
    other = folder.with_name(name)
    shutil.copytree(folder, other)
    journal = other / "journal.jsonl"
    instance = state_of(folder).header["instance"]
    journal.write_text(journal.read_text().replace(instance, name))
    return other


def before_request(number: int, act) -> list[str]:
    """Call `act` before the request, or the receipt, of that number; returns the growing list."""
    from mlflow import MlflowClient

    made: list[str] = []

    def counting(owner, name):
        original = getattr(owner, name)

        def wrapped(*args, **kwargs):
            made.append(name)
            if len(made) == number:
                act()
            return original(*args, **kwargs)

        setattr(owner, name, wrapped)

    for name in REQUESTS:
        counting(MlflowClient, name)
    counting(Receipt, "write")
    return made


def dies_before(folder: Path, root: Path, number: int) -> bool:
    """Deliver in a process that is killed before its request of that number; False if it lived."""
    pid = os.fork()
    if pid == 0:
        before_request(number, lambda: os.kill(os.getpid(), signal.SIGKILL))
        try:
            Delivery(folder, TRACKING, root).send(state_of(folder))
            os._exit(0)
        finally:
            os._exit(1)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert code in {0, -signal.SIGKILL}
    return code != 0


def assert_complete(seen, folder: Path) -> None:
    """The store holds the run exactly once."""
    state = state_of(folder)
    (parent,) = seen.search(f"tags.`fml.instance` = '{state.header['instance']}'")
    steps = seen.search(f"tags.`mlflow.parentRunId` = '{parent.info.run_id}'")
    nodes = list(state.history())
    assert sorted(s.data.tags["fml.step"] for s in steps) == [str(n.id) for n in nodes]
    assert parent.info.status == "FINISHED"
    assert parent.data.params == {"seed": "5", "agent.name": "aide"}
    assert seen.curve(parent, "tokens") == [
        (n.id, sum(m.usage.total for m in nodes[: n.id + 1])) for n in nodes
    ]
    assert seen.curve(parent, "test") == [(0, state.test["value"])]
    assert seen.curve(parent, "baseline_val") == [(0, state.header["baseline"]["val"]["mse"])]
    assert "best/patch.diff" in seen.files(parent)
    for step in steps:
        node = nodes[int(step.data.tags["fml.step"])]
        assert seen.curve(step, "tokens") == [(0, node.usage.total)]
        assert step.info.status == ("FINISHED" if node.ok else "FAILED")
        assert "metrics.json" in seen.files(step)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("run_folder", [1], indirect=True)  # a fork per request takes long
def test_killed_before_each_request(run_folder, root, look):
    import mlflow  # noqa: F401  # before the forks: two seconds each otherwise

    folders = []
    while True:
        folders.append(copy_as(run_folder, f"killed{len(folders) + 1}"))
        if not dies_before(folders[-1], root, len(folders)):
            break
    assert len(folders) > 20
    seen = look()  # opened only now: the forks must not inherit a connection
    for folder in folders:
        Delivery(folder, TRACKING, root).send(state_of(folder))
        assert_complete(seen, folder)
    assert len(seen.parents()) == len(seen.steps()) == len(folders)


@pytest.mark.parametrize("run_folder", [1], indirect=True)
def test_refused_at_each_request_the_same_process_completes_it(run_folder, root, look, monkeypatch):
    from mlflow import MlflowClient

    def refuse():
        raise ConnectionError("away")

    folders: list[Path] = []
    refused = True
    while refused:
        folders.append(copy_as(run_folder, f"refused{len(folders) + 1}"))
        with monkeypatch.context() as patch:
            for name in REQUESTS:  # so that what `before_request` does is undone
                patch.setattr(MlflowClient, name, getattr(MlflowClient, name))
            patch.setattr(Receipt, "write", Receipt.write)
            before_request(len(folders), refuse)
            delivery = Delivery(folders[-1], TRACKING, root)
            refused = was_refused(delivery, folders[-1])
            delivery.send(state_of(folders[-1]))
    assert len(folders) > 20
    seen = look()
    for folder in folders:
        assert_complete(seen, folder)
    assert len(seen.parents()) == len(seen.steps()) == len(folders)


def was_refused(delivery: Delivery, folder: Path) -> bool:
    try:
        delivery.send(state_of(folder))
    except InfraError as error:
        return str(error) == "away"
    return False


def test_a_lost_receipt_adds_nothing(run_folder, root, look):
    for _ in range(2):
        Delivery(run_folder, TRACKING, root).send(state_of(run_folder))
        (run_folder / "mlflow.json").unlink()
    seen = look()
    assert len(seen.parents()) == 1
    assert len(seen.steps()) == 2


def test_going_back_to_an_earlier_store_adds_nothing(run_folder, root, tmp_path, look):
    other = Tracking(None, "another experiment")
    for tracking in (TRACKING, other, TRACKING):
        Delivery(run_folder, tracking, root).send(state_of(run_folder))
    for experiment in (TRACKING.experiment, other.experiment):
        seen = look(experiment=experiment)
        assert len(seen.parents()) == 1
        assert len(seen.steps()) == 2
        assert {s.data.tags["mlflow.parentRunId"] for s in seen.steps()} == {
            seen.parent().info.run_id
        }


def test_a_run_deleted_in_the_ui_is_not_brought_back(run_folder, root, look):
    Delivery(run_folder, TRACKING, root).send(state_of(run_folder))
    seen = look()
    seen.client.delete_run(seen.steps()[0].info.run_id)
    Delivery(run_folder, TRACKING, root).send(state_of(run_folder))
    assert len(seen.steps()) == 1


def test_one_sender_at_a_time(run_folder, root, look, monkeypatch):
    monkeypatch.setattr(module, "OTHER_SENDER", 0.1)
    with (
        FileLock(run_folder / "mlflow.lock"),
        pytest.raises(InfraError, match="could not be acquired"),
    ):
        Delivery(run_folder, TRACKING, root).send(state_of(run_folder))
    assert look().parents() == []


def test_changed_configuration_of_a_resumed_run_is_no_obstacle(run_folder, root, look):
    """Where it lies may change between two processes; MLflow keeps a param's first value."""
    for config in ("root: here\n", "root: there\nslots: 1\n"):
        (run_folder / "config.yaml").write_text(config)
        (run_folder / "mlflow.json").unlink(missing_ok=True)
        Delivery(run_folder, TRACKING, root).send(state_of(run_folder))
    assert look().parent().data.params == {"root": "here", "slots": "1"}
