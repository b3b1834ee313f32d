"""What the suite adds to a step, beside the time of the candidate's own processes in the same run.

Run with: pytest tests/bench -n 0 --benchmark-enable -s
"""

import json
import resource
from itertools import pairwise
from statistics import median

import pytest

from fml_hydra.tracking import MlflowSink, Tracking

STEPS = 30


def overheads(journal) -> tuple[list[float], list[float]]:
    """Milliseconds per step: all but the candidate's commands, and those commands."""
    events = [json.loads(line) for line in journal.read_text().splitlines()]
    nodes = [e for e in events if e["e"] == "node"]
    ours = [(b["t"] - a["t"] - b["seconds_exec"]) * 1000 for a, b in pairwise(nodes)]
    return ours, [n["seconds_exec"] * 1000 for n in nodes[1:]]


@pytest.mark.parametrize("tracking", ["none", "mlflow"])
def test_overhead_of_a_step(tracking, cell, tmp_path, benchmark):
    runs = []

    def one_run():
        folder = tmp_path / f"run{len(runs)}"
        built = cell(f"budget.steps={STEPS}", folder=folder)
        folder.mkdir()
        (folder / "config.yaml").write_text("toy: true\n")
        sinks = []
        if tracking == "mlflow":
            sinks.append(MlflowSink(folder, Tracking(None, "bench"), tmp_path / "store"))
        built.run(sinks)
        for sink in sinks:
            sink.finish()
        runs.append(folder)

    benchmark.pedantic(one_run, rounds=3, warmup_rounds=1)
    ours, theirs = overheads(runs[-1] / "journal.jsonl")
    numbers = {
        "overhead_ms_median": round(median(ours), 1),
        "overhead_ms_max": round(max(ours), 1),
        "candidate_ms_median": round(median(theirs), 1),
        "suite_max_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }
    benchmark.extra_info.update(numbers)
    print(f"\n{tracking}: {numbers}")  # noqa: T201
