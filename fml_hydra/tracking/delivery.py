"""Sending a run to MLflow from its folder: in order, each thing once, from wherever it stopped.

What has arrived is kept in `mlflow.json` beside the journal. Before something is created there, the
intent is written here; after a crash in between, MLflow is asked whether it exists already.
"""

import csv
import getpass
import io
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from fml_hydra.journal import Folded, Node
from fml_hydra.steps import step_folder, write_code
from fml_hydra.summary import Summary, best_so_far, metric_of, summarize
from fml_hydra.tracking.store import Tracking
from fml_hydra.tracking.tree import tree_svg
from fml_hydra.usage import Spend

PARAM_CHARS, TAG_CHARS = 6000, 8000
BATCH = 100
"""MLflow's limit of params per request."""
_CLOSED_AS = {"finished": "FINISHED", "interrupted": "KILLED", "infra": "FAILED"}


@dataclass
class Receipt:
    """What of a run has arrived in MLflow."""

    uri: str = ""
    experiment_id: str = ""
    run_id: str = ""
    steps: list[int] = field(default_factory=list)
    """Ids of the nodes that have arrived whole."""
    creating: int | None = None
    """Node whose run may have been created already; -1 is the parent."""
    closed: str = ""
    """The run's status as last reported at its end."""

    @classmethod
    def read(cls, path: Path) -> "Receipt":
        """The receipt of a run; an empty one if nothing was sent yet."""
        return cls(**json.loads(path.read_text())) if path.exists() else cls()

    def write(self, path: Path) -> None:
        """Replace the file at once."""
        partial = path.with_suffix(".part")
        partial.write_text(json.dumps(asdict(self)))
        partial.replace(path)


class Delivery:
    """Sends one run's folder to one store."""

    def __init__(self, folder: Path, tracking: Tracking, root: Path) -> None:
        self._folder = folder
        self._path = folder / "mlflow.json"
        self._receipt = Receipt.read(self._path)
        self._client, experiment_id = tracking.open(root)
        address = tracking.address(root)
        if self._receipt.uri not in {"", address}:
            self._receipt = Receipt()  # another store than last time: send everything there
        self._receipt.uri, self._receipt.experiment_id = address, experiment_id

    @property
    def run_id(self) -> str:
        """Id of the parent run; empty before it was created."""
        return self._receipt.run_id

    def send(self, state: Folded) -> None:
        """Send what has not arrived yet."""
        if not state.header:
            return
        summary = summarize(state)
        self._parent(state, summary)
        nodes = list(state.history())
        curve = best_so_far(nodes, metric_of(state))
        spent = Spend()
        for node, best in zip(nodes, curve, strict=True):
            spent += Spend(node.usage, node.cost, node.seconds_llm)
            if node.id not in self._receipt.steps:
                self._step(state, node)
                self._point(state, nodes, node, best, spent)
                self._receipt.steps.append(node.id)
                self._receipt.creating = None
                self._keep()
        self._status(state, summary)

    def _parent(self, state: Folded, summary: Summary) -> None:
        if self._receipt.run_id:
            return
        header = state.header
        tags = _common_tags(header) | {
            "fml.kind": "run",
            "fml.identity": header["identity"],
            "fml.instance": header["instance"],
            "fml.sweep": header["sweep"],
            "fml.status": summary.status,
            "fml.sandbox": header["sandbox"],
            "fml.commit": header["commit"],
            "mlflow.runName": " · ".join(
                [header["task"], header["agent"], header["llm"], f"seed {header['seed']}"]
            ),
        }
        wanted = f"tags.`fml.instance` = '{header['instance']}'"
        self._receipt.run_id = self._create(-1, tags, _ms(header["started"]), wanted)
        self._params()
        self._log(
            self._receipt.run_id,
            {"baseline_val": summary.baseline_val, "baseline_test": summary.baseline_test},
            header["started"],
        )
        self._keep()

    def _params(self) -> None:
        from mlflow.entities import Param

        config = OmegaConf.load(self._folder / "config.yaml")
        flat = [(k, str(v)[:PARAM_CHARS]) for k, v in _flat(OmegaConf.to_container(config))]
        for start in range(0, len(flat), BATCH):
            params = [Param(k, v) for k, v in flat[start : start + BATCH]]
            self._client.log_batch(self._receipt.run_id, params=params)

    def _step(self, state: Folded, node: Node) -> None:
        header = state.header
        parents = ",".join(map(str, node.parents))
        tags = _common_tags(header) | {
            "fml.kind": "step",
            "fml.identity": header["identity"],
            "fml.sweep": header["sweep"],
            "fml.step": str(node.id),
            "fml.op": node.op,
            "fml.parents": parents,
            "fml.status": node.status,
            "fml.sandbox": node.sandbox,
            "mlflow.parentRunId": self._receipt.run_id,
            "mlflow.runName": _step_name(node, metric_of(state).name),
        }
        if node.flags:
            tags["fml.flags"] = "; ".join(node.flags)[:TAG_CHARS]
        wanted = (
            f"tags.`mlflow.parentRunId` = '{self._receipt.run_id}'"
            f" and tags.`fml.step` = '{node.id}'"
        )
        run_id = self._create(node.id, tags, _ms(node.started), wanted)
        numbers = {
            **node.metrics,
            "tokens": node.usage.total,
            "tokens_input": node.usage.input,
            "tokens_output": node.usage.output,
            "seconds_llm": node.seconds_llm,
            "seconds_exec": node.seconds_exec,
        }
        if node.cost is not None:
            numbers["cost_usd"] = node.cost
        ended = node.started + node.seconds_llm + node.seconds_exec
        self._log(run_id, numbers, ended)
        folder = step_folder(self._folder, node.id)
        if folder.is_dir():
            self._client.log_artifacts(run_id, str(folder))
        status = "FINISHED" if node.ok else "FAILED"
        self._client.set_terminated(run_id, status, _ms(ended))

    def _point(
        self, state: Folded, nodes: list[Node], node: Node, best: float | None, spent: Spend
    ) -> None:
        """One point of the parent's curves; spend is cumulative there."""
        numbers: dict[str, float] = {
            "tokens": spent.usage.total,
            "seconds_llm": spent.seconds,
            "seconds_exec": sum(n.seconds_exec for n in nodes if n.id <= node.id),
        }
        if node.ok and node.utility is not None:
            numbers["val"] = metric_of(state).value(node.utility)
        if best is not None:
            numbers["best_val"] = best
        if spent.cost is not None:
            numbers["cost_usd"] = spent.cost
        self._log(self._receipt.run_id, numbers, node.started, node.id)

    def _status(self, state: Folded, summary: Summary) -> None:
        if summary.status == self._receipt.closed:
            return
        run_id = self._receipt.run_id
        self._client.set_tag(run_id, "fml.status", summary.status)
        if summary.status == "running":
            self._client.update_run(run_id, status="RUNNING")
        else:
            self._finish(state, summary)
        self._receipt.closed = summary.status
        self._keep()

    def _finish(self, state: Folded, summary: Summary) -> None:
        run_id, now = self._receipt.run_id, state.header["started"] + state.seconds
        numbers = {
            "test": summary.test,
            "improvement": summary.improvement,
            "normalized_improvement": summary.normalized_improvement,
            "step_success_rate": summary.success_rate,
            "step_completion_rate": summary.completion_rate,
            "seconds": summary.seconds,
        }
        self._log(run_id, {k: v for k, v in numbers.items() if v is not None}, now)
        if summary.termination:
            self._client.set_tag(run_id, "fml.termination", summary.termination)
        for name in ("journal.jsonl", "calls.jsonl", "config.yaml"):
            if (self._folder / name).exists():
                self._client.log_artifact(run_id, str(self._folder / name))
        nodes = list(state.history())
        self._client.log_text(run_id, steps_csv(nodes), "steps.csv")
        self._client.log_text(run_id, tree_svg(state), "tree.svg")
        best = state.history().best()
        if best:
            write_code(self._folder / "best", best.snapshot, state.header["pristine"])
            self._client.log_artifacts(run_id, str(self._folder / "best"), "best")
        self._client.set_terminated(run_id, _CLOSED_AS.get(summary.status, "FAILED"), _ms(now))

    def _create(self, what: int, tags: dict[str, str], start: int, wanted: str) -> str:
        """Create a run once: if we died while creating it, it may be there already."""
        found: list[Any] = []
        if self._receipt.creating == what:
            found = self._client.search_runs([self._receipt.experiment_id], wanted, max_results=1)
        self._receipt.creating = what
        self._keep()
        if found:
            return str(found[0].info.run_id)
        created = self._client.create_run(
            self._receipt.experiment_id, start, tags, tags["mlflow.runName"]
        )
        return str(created.info.run_id)

    def _log(self, run_id: str, numbers: dict[str, Any], when: float, step: int = 0) -> None:
        from mlflow.entities import Metric

        metrics = [Metric(k, float(v), _ms(when), step) for k, v in numbers.items()]
        self._client.log_batch(run_id, metrics=metrics)

    def _keep(self) -> None:
        self._receipt.write(self._path)


def steps_csv(nodes: list[Node]) -> str:
    """One row per step, for people and spreadsheets."""
    names = sorted({name for node in nodes for name in node.metrics})
    columns = ["step", "op", "parents", "status", "utility", *names, "tokens", "cost_usd"]
    columns += ["seconds_llm", "seconds_exec", "sandbox", "flags", "plan"]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for n in nodes:
        values = [n.metrics.get(name, "") for name in names]
        cost = "" if n.cost is None else n.cost
        parents = " ".join(map(str, n.parents))
        utility = "" if n.utility is None else n.utility
        row = [n.id, n.op, parents, n.status, utility, *values, n.usage.total, cost]
        flags = "; ".join(n.flags)
        writer.writerow([*row, n.seconds_llm, n.seconds_exec, n.sandbox, flags, n.plan])
    return text.getvalue()


def check_reachable(tracking: Tracking, root: Path) -> str:
    """Why the store cannot be used, or an empty string."""
    try:
        tracking.open(root)
    except Exception as error:  # noqa: BLE001  # whatever a store's driver raises
        return str(error).splitlines()[0] if str(error) else type(error).__name__
    return ""


def _common_tags(header: dict[str, Any]) -> dict[str, str]:
    tags = {f"fml.{k}": str(header[k]) for k in ("task", "agent", "llm", "seed")}
    return tags | {
        "mlflow.user": _user(),
        "mlflow.source.name": "fml_hydra",
        "mlflow.source.type": "LOCAL",
    }


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "unknown"


def _step_name(node: Node, metric: str) -> str:
    origin = f" of {', '.join(map(str, node.parents))}" if node.parents else ""
    result = f"{metric} {node.metrics[metric]:.4g}" if node.ok else node.status
    return f"{node.id:02d} {node.op}{origin} · {result}"


def _flat(value: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _flat(inner, f"{prefix}{key}.")
    elif isinstance(value, list):
        yield prefix[:-1], json.dumps(value)
    else:
        yield prefix[:-1], value


def _ms(seconds: float) -> int:
    return int(seconds * 1000)
