"""What MLflow costs per step on a local store, beside the fluent API used plainly in the same run.

The run itself does not wait for any of it but the last line: a thread of its own sends.

Run with: pytest tests/bench/test_tracking_bench.py -n 0 --benchmark-enable
"""

from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from fml_hydra.journal import Folded
from fml_hydra.jsonl import read_records
from fml_hydra.steps import step_folder
from fml_hydra.summary import metric_of
from fml_hydra.tracking import MlflowSink, Tracking
from fml_hydra.tracking.content import step_numbers, step_tags
from fml_hydra.tracking.delivery import Delivery
from fml_hydra.tracking.exchanges import Exchanges
from fml_hydra.tracking.spans import Trace, trace
from fml_hydra.tracking.traces import Traces

STEPS, WARM = 20, 3
TRACKING, QUIET = Tracking(None, "bench"), Tracking(None, "bench", traces=False)


@pytest.fixture
def run_folder(cell) -> Path:
    """A toy run that nobody was told of."""
    done = cell("agent=aide", f"budget.steps={STEPS}")
    done.run()
    (done.folder / "config.yaml").write_text("seed: 0\n")
    return done.folder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Where a local store lies; its creation is not measured."""
    TRACKING.open(tmp_path / "store")
    return tmp_path / "store"


def growing(folder: Path) -> Callable[[], tuple[tuple[Folded], dict]]:
    """A setup that gives the run's state after one more step each time."""
    events = read_records(folder / "journal.jsonl")[0]
    ends = [i + 1 for i, e in enumerate(events) if e["e"] == "node"]
    states = iter([Folded(folder / "journal.jsonl", events[:end]) for end in ends])
    return lambda: ((next(states),), {})


def test_delivery(run_folder, root, benchmark):
    delivery = Delivery(run_folder, TRACKING, root)
    benchmark.pedantic(
        delivery.send, setup=growing(run_folder), rounds=STEPS - WARM, warmup_rounds=WARM
    )


def test_delivery_without_traces(run_folder, root, benchmark):
    delivery = Delivery(run_folder, QUIET, root)
    benchmark.pedantic(
        delivery.send, setup=growing(run_folder), rounds=STEPS - WARM, warmup_rounds=WARM
    )


@pytest.mark.parametrize("steps", [1, STEPS])
def test_traces_alone(run_folder, root, benchmark, steps):
    """So many steps' calls in one request, and their links; divide by `steps`."""
    state = Folded.read(run_folder / "journal.jsonl")
    store, parent = TRACKING.open(root), _run_of(root)
    children = [_run_of(root) for _ in range(STEPS)]
    calls = Exchanges(run_folder / "calls.jsonl")
    assert len(calls.made()) == STEPS
    instances = count()

    def fresh() -> tuple[tuple[list[Trace]], dict]:
        state.header["instance"] = f"run {next(instances)}"  # spans that are not there yet
        return ([trace(state, step, calls.of(step)) for step in range(steps)],), {}

    sender = Traces(run_folder / "calls.jsonl")
    benchmark.pedantic(
        lambda traces: sender.send(store, traces, parent, children.__getitem__),
        setup=fresh,
        rounds=8,
        warmup_rounds=2,
    )


def _run_of(root: Path) -> str:
    store = TRACKING.open(root)
    return str(store.client.create_run(store.experiment_id).info.run_id)


def test_fluent_api(run_folder, root, benchmark):
    import mlflow

    mlflow.set_tracking_uri(TRACKING.address(root))
    mlflow.set_experiment(TRACKING.experiment)

    def log_plainly(state: Folded) -> None:
        node = list(state.history())[-1]
        with mlflow.start_run(nested=True) as run:
            for name, value in step_tags(state.header, node, metric_of(state), "").items():
                if not name.startswith("mlflow."):
                    mlflow.set_tag(name, value)
            for name, value in step_numbers(node).items():
                mlflow.log_metric(name, value)
            folder = step_folder(run_folder, node.id)
            for path in sorted(folder.rglob("*")):
                if path.is_file():
                    below = path.parent.relative_to(folder)
                    mlflow.log_artifact(str(path), str(below) if below.name else None)
        for name in ("val", "best_val", "tokens", "cost_usd", "seconds_llm", "seconds_exec"):
            mlflow.log_metric(name, 1.0, step=node.id, run_id=parent)
        assert run.info.run_id

    with mlflow.start_run() as outer:
        parent = outer.info.run_id
        benchmark.pedantic(
            log_plainly, setup=growing(run_folder), rounds=STEPS - WARM, warmup_rounds=WARM
        )


def test_what_the_run_waits_for(run_folder, root, benchmark):
    sink = MlflowSink(run_folder, TRACKING, root)
    benchmark(sink.changed)
    assert sink.finish() == ""
