"""The analysis reads runs through a real server, from which alone their journals can be had."""

import math

from fml_hydra.analysis.load import load_runs, load_steps
from fml_hydra.tracking import Tracking

LINES = (
    '{"e": "open", "t": 1.0, "instance": "i", "sweep": "s", "task": "toy", "agent": "aide",'
    ' "llm": "offline", "seed": 3, "steps": 2, "sandbox": "", "isolation": "separate",'
    ' "identity": "r", "started": 1.0, "metric": {"name": "acc", "direction": "higher",'
    ' "best": 1.0, "worst": 0.0}, "baseline": {"val": {"acc": 0.5}, "test": {"acc": 0.4}}}\n'
    '{"e": "close", "t": 2.0, "reason": "steps", "step": 0}\n'
    '{"e": "test", "t": 2.0, "value": 0.7, "metrics": {"acc": 0.7}}\n'
)


def test_runs_of_a_server_with_and_without_a_journal(server, tmp_path):
    opened = Tracking(server.start().uri, "fml_hydra").open(tmp_path / "sender")
    (tmp_path / "journal.jsonl").write_text(LINES)
    for number, instance in enumerate(("i", "lost")):
        tags = {"fml.kind": "run", "fml.instance": instance, "fml.seed": "8"}
        run = opened.client.create_run(opened.experiment_id, 1000 * (number + 1), tags).info.run_id
        if instance == "i":
            opened.client.log_artifact(run, str(tmp_path / "journal.jsonl"))
        opened.client.set_terminated(run, "FINISHED", 3000)
    runs = load_runs(server.uri, tmp_path / "reader")
    assert list(runs["seed"]) == [3, 8]
    assert runs["test"][0] == 0.7
    assert math.isnan(runs["test"][1])
    assert load_steps(runs).empty
    server.kill()
    assert not list((tmp_path / "reader").rglob("*.part"))
