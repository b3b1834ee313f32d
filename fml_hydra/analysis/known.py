"""Our results beside those of known methods: the reference solutions that tasks ship with."""

from collections.abc import Mapping
from pathlib import Path

import pandas as pd
from omegaconf import OmegaConf
from pydantic import TypeAdapter, ValidationError

from fml_hydra.errors import TaskError
from fml_hydra.metric import Direction
from fml_hydra.resources import conf_dir
from fml_hydra.terms import Reported


def known_methods(folder: Path | None = None) -> pd.DataFrame:
    """What was measured when the tasks were made: a row per task and method.

    Columns: `task`, `direction`, `method` (`baseline` among them), `val`, `test`, `val_sd`,
    `test_sd`, in the metric's unit. `folder` holds the tasks' YAML files (None: the shipped ones).
    Raises TaskError when one cannot be read.
    """
    rows = []
    for path in sorted((folder or conf_dir() / "task").glob("*.yaml")):
        raw = OmegaConf.to_container(OmegaConf.load(path))
        if not isinstance(raw, dict) or not raw.get("reported"):
            continue
        try:
            reported = TypeAdapter(Reported).validate_python(raw["reported"])
        except ValidationError as error:
            raise TaskError(f"{path}: reported: {error.errors()[0]['msg']}") from error
        for method, m in {"baseline": reported.baseline, **reported.references}.items():
            numbers = {"val": m.val, "test": m.test, "val_sd": m.val_sd, "test_sd": m.test_sd}
            head = {"task": raw["name"], "direction": raw["metric"]["direction"]}
            rows.append(head | {"method": method} | numbers)
    columns = ["task", "direction", "method", "val", "test", "val_sd", "test_sd"]
    return pd.DataFrame(rows, columns=columns)


def relative_to_known(runs: pd.DataFrame, known: pd.DataFrame | None = None) -> pd.DataFrame:
    """`runs` (or a table of `best_of_n`) with the columns `reference`, `relative`, `undefined`.

    `reference` is the test value of the task's best shipped solution, `relative` is
    100 (test - base) / (reference - base), base being the run's own baseline (MLRC-Bench's relative
    improvement to human): 100 is as good as the reference. Where that cannot be said, such as for a
    task this installation does not know, `undefined` says why.
    """
    references = _best_references(known_methods() if known is None else known)
    reference = runs["task"].map(references).astype(float)
    span = reference - runs["baseline_test"]
    relative = 100 * (runs["test"] - runs["baseline_test"]) / span.where(span != 0)
    why = pd.Series("", index=runs.index)
    why = why.mask(runs["test"].isna(), "not tested")
    why = why.mask(span == 0, "the reference is no better than the baseline")
    why = why.mask(reference.isna(), "no reference solution is known")
    return runs.assign(reference=reference, relative=relative, undefined=why)


def _best_references(known: pd.DataFrame) -> Mapping[str, float]:
    methods = known[known["method"] != "baseline"]
    found: dict[str, float] = {}
    for (task, direction), group in methods.groupby(["task", "direction"]):
        higher = direction == Direction.HIGHER.value
        found[str(task)] = float(group["test"].max() if higher else group["test"].min())
    return found
