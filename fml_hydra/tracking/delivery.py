"""Sending a run to MLflow from its folder: in order, each thing once, from wherever it stopped.

What has arrived is kept in `mlflow.json` beside the journal. A process may die between a request
and its receipt, so before it creates anything the first time it asks the store what is there; all
other requests may be repeated without harm. Not here: what is sent (content).
"""

import json
import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock

from fml_hydra.errors import InfraError
from fml_hydra.files import replace_json
from fml_hydra.journal import Folded, Node
from fml_hydra.steps import step_folder, write_code
from fml_hydra.summary import Summary, metric_of, summarize
from fml_hydra.tracking import content
from fml_hydra.tracking.store import Store, Tracking
from fml_hydra.tracking.traces import Traces
from fml_hydra.tracking.tree import tree_svg

if TYPE_CHECKING:
    from mlflow.entities import Run

BATCH = 100
"""MLflow's limit of params per request."""
PAGE = 1000
"""Runs per page of a search."""
OTHER_SENDER = 10.0
"""Seconds to wait for another sender of the same run."""
_CLOSED_AS = {"finished": "FINISHED", "interrupted": "KILLED"}


@dataclass
class Receipt:
    """What of a run has arrived in MLflow."""

    store: str = ""
    """Address and experiment it was sent to."""
    run_id: str = ""
    """The parent run; empty before it has arrived whole."""
    steps: list[int] = field(default_factory=list)
    """Ids of the nodes that have arrived whole."""
    points: int = 0
    """Points of the parent's curves that have arrived."""
    status: str = ""
    """The run's status as last reported, with the seconds worked until then."""
    calls: dict[str, int] = field(default_factory=dict)
    """How many calls of each step have arrived as spans of its trace."""

    @classmethod
    def read(cls, path: Path, store: str) -> "Receipt":
        """The receipt of a run; an empty one if nothing was sent to this store the last time."""
        receipt = cls(**json.loads(path.read_text())) if path.exists() else cls()
        return receipt if receipt.store == store else cls(store)

    def write(self, path: Path) -> None:
        """Replace the file at once."""
        replace_json(path, asdict(self))


class Delivery:
    """Sends one run's folder to one store."""

    def __init__(self, folder: Path, tracking: Tracking, root: Path) -> None:
        self._folder, self._tracking, self._root = folder, tracking, root
        self._path = folder / "mlflow.json"
        self._receipt = Receipt()
        self._opened: Store | None = None
        self._children: dict[str, str] | None = None
        """Run ids of the steps that are in the store, by step; None before it was asked."""
        self._traces = Traces(folder / "calls.jsonl")

    @property
    def run_id(self) -> str:
        """Id of the parent run; empty before it has arrived."""
        return self._receipt.run_id

    def send(self, state: Folded) -> None:
        """Send what has not arrived yet; raises InfraError when the store does not take it."""
        if not state.header:
            return
        try:
            with FileLock(self._folder / "mlflow.lock", timeout=OTHER_SENDER):
                store = f"{self._tracking.address(self._root)} {self._tracking.experiment}"
                self._receipt = Receipt.read(self._path, store)
                self._send(state, summarize(state))
        except Exception as error:
            self._opened = self._children = None  # what is there must be asked again
            raise InfraError(_first_line(error)) from error

    def _send(self, state: Folded, summary: Summary) -> None:
        if not self._receipt.run_id:
            self._receipt.run_id = self._parent(state, summary)
            self._keep()
        for node in state.history():
            if node.id not in self._receipt.steps:
                self._step(state, node)
                self._receipt.steps.append(node.id)
                self._keep()
        curves = content.points(state)
        for position in range(self._receipt.points, len(curves)):
            when = state.nodes[position].started
            self._log(self._receipt.run_id, curves[position], when, position)
            self._receipt.points = position + 1
            self._keep()
        self._status(state, summary)
        if self._tracking.traces:  # last: nothing else waits for them, or fails with them
            self._calls(state, over=summary.status != "running")

    @property
    def _store(self) -> Store:
        self._opened = self._opened or self._tracking.open(self._root)
        return self._opened

    def _parent(self, state: Folded, summary: Summary) -> str:
        """Create the parent run, or complete the one that is there; its id."""
        header = state.header
        found = self._search(f"tags.`fml.instance` = '{header['instance']}'")
        known = found[0].data.params if found else {}
        if found:
            run_id = str(found[0].info.run_id)
        else:
            run_id = self._create(content.run_tags(header, summary), header["started"])
            self._children = {}
        self._params(run_id, known)
        base = {"baseline_val": summary.baseline_val, "baseline_test": summary.baseline_test}
        self._log(run_id, content.finite(base), header["started"])
        return run_id

    def _params(self, run_id: str, known: dict[str, str]) -> None:
        """Send the params that are not there; MLflow refuses to change those that are."""
        from mlflow.entities import Param

        flat = content.params(self._folder / "config.yaml")
        new = [Param(name, value) for name, value in flat.items() if name not in known]
        for start in range(0, len(new), BATCH):
            self._store.client.log_batch(run_id, params=new[start : start + BATCH])

    def _step(self, state: Folded, node: Node) -> None:
        tags = content.step_tags(state.header, node, metric_of(state), self._receipt.run_id)
        run_id = self._child(node.id) or self._create(tags, node.started)
        self._children = {**(self._children or {}), str(node.id): run_id}
        ended = node.started + node.seconds_llm + node.seconds_exec
        self._log(run_id, content.step_numbers(node), ended)
        folder = step_folder(self._folder, node.id)
        if folder.is_dir():
            self._store.client.log_artifacts(run_id, str(folder))
        self._store.client.set_terminated(run_id, "FINISHED" if node.ok else "FAILED", _ms(ended))

    def _child(self, node_id: int) -> str:
        """Run id of a step that a dead process has begun to send; empty if there is none."""
        if self._children is None:
            runs = self._search(f"tags.`mlflow.parentRunId` = '{self._receipt.run_id}'")
            self._children = {r.data.tags.get("fml.step", ""): str(r.info.run_id) for r in runs}
        return self._children.get(str(node_id), "")

    def _calls(self, state: Folded, over: bool) -> None:
        arrived = {int(step): count for step, count in self._receipt.calls.items()}
        for traces in self._traces.waiting(state, arrived, over):
            self._traces.send(self._store, traces, self._receipt.run_id, self._child)
            self._receipt.calls.update({str(t.step): t.calls for t in traces})
            self._keep()

    def _search(self, wanted: str) -> list["Run"]:
        store, token = self._store, None
        found: list[Run] = []
        while True:
            page = store.client.search_runs(
                [store.experiment_id], wanted, max_results=PAGE, page_token=token
            )
            found += page
            token = page.token
            if not token:
                return found

    def _status(self, state: Folded, summary: Summary) -> None:
        running = summary.status == "running"
        status = summary.status if running else f"{summary.status} {state.seconds:.3f}"
        if status == self._receipt.status:
            return
        if running:
            self._store.client.set_tag(self._receipt.run_id, "fml.status", summary.status)
            self._store.client.update_run(self._receipt.run_id, status="RUNNING")
        else:
            self._finish(state, summary)
        self._receipt.status = status
        self._keep()

    def _finish(self, state: Folded, summary: Summary) -> None:
        client, run_id = self._store.client, self._receipt.run_id
        now = state.header["started"] + state.seconds
        self._log(run_id, content.end_numbers(summary), now)
        self._files(state)
        tags = {
            "fml.status": summary.status,
            "fml.termination": summary.termination,
            "mlflow.note.content": content.run_note(summary, metric_of(state)),
        }
        for name, text in tags.items():
            client.set_tag(run_id, name, content.cut(text, content.TAG_CHARS))
        client.set_terminated(run_id, _CLOSED_AS.get(summary.status, "FAILED"), _ms(now))

    def _files(self, state: Folded) -> None:
        """Artifacts of the parent; the best code only when it can no longer be another."""
        client, run_id, history = self._store.client, self._receipt.run_id, state.history()
        for name in ("journal.jsonl", "calls.jsonl", "config.yaml"):
            if (self._folder / name).exists():
                client.log_artifact(run_id, str(self._folder / name))
        client.log_text(run_id, content.steps_csv(history), "steps.csv")
        client.log_text(run_id, tree_svg(state), "tree.svg")
        best = history.best()
        if best and state.closed:
            shutil.rmtree(self._folder / "best", ignore_errors=True)
            write_code(self._folder / "best", best.snapshot, state.header["pristine"])
            client.log_artifacts(run_id, str(self._folder / "best"), "best")

    def _create(self, tags: dict[str, str], start: float) -> str:
        tags = {name: content.cut(text, content.TAG_CHARS) for name, text in tags.items()}
        name = content.cut(tags.pop("mlflow.runName"), content.NAME_CHARS)
        created = self._store.client.create_run(self._store.experiment_id, _ms(start), tags, name)
        return str(created.info.run_id)

    def _log(self, run_id: str, numbers: dict[str, float], when: float, step: int = 0) -> None:
        from mlflow.entities import Metric

        metrics = [Metric(name, value, _ms(when), step) for name, value in numbers.items()]
        self._store.client.log_batch(run_id, metrics=metrics)

    def _keep(self) -> None:
        self._receipt.write(self._path)


def check_reachable(tracking: Tracking, root: Path) -> str:
    """Why the store cannot be used, or an empty string."""
    try:
        tracking.open(root)
    except Exception as error:  # noqa: BLE001  # whatever a store's driver raises
        return _first_line(error)
    return ""


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _ms(seconds: float) -> int:
    return int(seconds * 1000)
