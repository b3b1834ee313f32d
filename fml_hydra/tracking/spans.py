"""The LLM calls of a step as one trace: a root for the step, a span per call. Pure.

Ids are hashes of what a span is about: what is sent twice lands on the same place. Names of
attributes are MLflow's, so that it adds up tokens and dollars and shows messages as a chat.
Not here: which calls there are (exchanges), how spans are sent (delivery).
"""

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fml_hydra.hashing import text_hash
from fml_hydra.journal import Folded
from fml_hydra.jsonl import Record
from fml_hydra.summary import metric_of
from fml_hydra.tracking.content import origin, result

Json = dict[str, Any]
TAGS = ("task", "agent", "llm", "seed", "identity", "sweep")
"""Parts of a run's header that its traces carry, so that they can be searched for."""


@dataclass(frozen=True)
class Trace:
    """The calls of one step."""

    step: int
    """Id of the step they belong to, or would have belonged to."""
    id: str
    """MLflow's trace id."""
    spans: tuple[Json, ...]
    """The root and the calls, as `mlflow.entities.Span.from_dict` reads them."""

    @property
    def calls(self) -> int:
        """How many calls it shows."""
        return len(self.spans) - 1


def size(span: Json) -> int:
    """Characters that a span fills, about."""
    return sum(len(value) for value in span["attributes"].values())


def trace(state: Folded, step: int, calls: Sequence[Record]) -> Trace:
    """The trace of a step's `calls`, of which there is at least one."""
    number = text_hash(f"{state.header['instance']}:{step}")[:32]
    starts = _starts(state, step, calls)
    ends = [start + _took(call) for start, call in zip(starts, calls, strict=True)]
    node = state.nodes.get(step)
    end = max([*ends, node.started + node.seconds_llm + node.seconds_exec if node else 0.0])
    root = _span(number, "root", _title(state, step), min(starts), end, _root(state, step))
    priced = all(call["cost"] is not None for call in calls)
    children = [
        _span(number, f"{i}", call["purpose"], starts[i], ends[i], _call(state, call, priced), root)
        for i, call in enumerate(calls)
    ]
    return Trace(step, f"tr-{number}", (root, *children))


def _title(state: Folded, step: int) -> str:
    node = state.nodes.get(step)
    return f"{step:02d} {origin(node)}" if node else f"{step:02d} unfinished"


def _root(state: Folded, step: int) -> Json:
    """Attributes of the step itself."""
    header, node, title = state.header, state.nodes.get(step), _title(state, step)
    about: Json = {"mlflow.spanType": "AGENT", "mlflow.spanInputs": f"step {step}"}
    if node:
        outcome = result(node, metric_of(state))
        about |= {"mlflow.spanInputs": title, "mlflow.spanOutputs": outcome}
    tags = {f"fml.{name}": header[name] for name in TAGS}
    tags |= {"mlflow.traceName": title, "fml.kind": "calls", "fml.step": step}
    tags |= {"fml.op": node.op if node else "", "fml.status": node.status if node else "unfinished"}
    about |= {f"mlflow.traceTag.{name}": str(value) for name, value in tags.items()}
    return about


def _call(state: Folded, call: Record, priced: bool) -> Json:
    """Attributes of one call.

    Unless all calls of the step are `priced` MLflow is given no cost at all, since it would add up
    those it has; and no model it knows, since it would look up a price of its own.
    """
    model = call.get("model") or state.header["llm"]
    answer = {"role": "assistant", "content": call["text"]}
    return {
        "mlflow.spanType": "CHAT_MODEL",
        "mlflow.message.format": "openai",
        "mlflow.spanInputs": {"messages": call["messages"]},
        "mlflow.spanOutputs": {"choices": [{"message": answer, "finish_reason": call["finish"]}]},
        "mlflow.chat.tokenUsage": _tokens(call["usage"]),
        "mlflow.llm.model": model if priced else f"{model} (unpriced)",
        "fml.call": call["key"],
        "fml.purpose": call["purpose"],
        "fml.seed": call["seed"],
        "fml.seconds": call["seconds"],
        "fml.seconds_waited": call.get("waited", 0.0),
        "fml.cost_usd": call["cost"],
        "fml.reasoning_tokens": call["usage"]["reasoning"],
        "fml.notes": list(call.get("notes", ())),
        **({"mlflow.llm.cost": {"total_cost": call["cost"]}} if priced else {}),
        **({"fml.failed": call["failed"]} if "failed" in call else {}),
    }


def _tokens(usage: Mapping[str, int]) -> dict[str, int]:
    tokens = {
        "input_tokens": usage["input"],
        "output_tokens": usage["output"],
        "total_tokens": usage["input"] + usage["output"],
        "cache_read_input_tokens": usage["cached"],
        "cache_creation_input_tokens": usage.get("cache_write", 0),
    }
    return {name: count for name, count in tokens.items() if count or not name.startswith("cache")}


def _took(call: Record) -> float:
    """Seconds from its first attempt to its answer, waiting for the provider included."""
    return float(call["seconds"]) + float(call.get("waited", 0.0))


def _starts(state: Folded, step: int, calls: Iterable[Record]) -> list[float]:
    """When each call began; where that was not recorded, one after the other."""
    node = state.nodes.get(step)
    clock = node.started if node else float(state.header["started"])
    starts = []
    for call in calls:
        starts.append(float(call.get("started", clock)))
        clock = starts[-1] + _took(call)
    return starts


def _span(
    trace_number: str,
    name: str,
    title: str,
    start: float,
    end: float,
    attributes: Json,
    parent: Json | None = None,
) -> Json:
    about = {"mlflow.traceRequestId": f"tr-{trace_number}"} | attributes
    failed = "fml.failed" in attributes
    return {
        "trace_id": _base64(trace_number),
        "span_id": _base64(text_hash(f"{trace_number}:{name}")[:16]),
        "parent_span_id": parent["span_id"] if parent else None,
        "name": title,
        "start_time_unix_nano": int(start * 1e9),
        "end_time_unix_nano": int(end * 1e9),
        "status": {"code": "STATUS_CODE_ERROR" if failed else "STATUS_CODE_OK", "message": ""},
        "events": [],
        "attributes": {key: json.dumps(value) for key, value in about.items()},
    }


def _base64(digits: str) -> str:
    return base64.b64encode(bytes.fromhex(digits)).decode()
