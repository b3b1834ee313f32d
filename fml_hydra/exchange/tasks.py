"""FML-bench's tasks: which number counts, its range, and the baseline's values and code.

The facts are those that its `compute_agent_metrics.py` goes by. A checkout of FML-bench, or the
`fml_bench/` folder of an export, knows more: other tasks, other baselines, the baseline's code.
"""

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from fml_hydra.errors import ConfigError
from fml_hydra.metric import Direction, Metric
from fml_hydra.resources import conf_dir

FOLDER = "fml_bench"
"""Where an export keeps what belongs to FML-bench's checkout rather than to its results."""
LOG_SCALED = {"Unlearning_open_unlearning"}
"""Tasks whose raw values v3 compares as -log10, lower is better."""
NO_CODE = {"split_config.json", "notes.txt"}
"""Target files that never count as code."""

_OWN = re.compile(r"ml_tasks/([^/]+)/")
"""Where the scripts of a task lie in a checkout, and so its name."""


@dataclass(frozen=True)
class ScoredTask:
    """What must be known of a task to read its results."""

    name: str
    """FML-bench's name, or ours."""
    dataset: str
    """Key of the data set in `val_info.json` and `test_info.json`."""
    key: str
    """Key of the value below that data set's `means`."""
    metric: Metric
    """How it is compared."""
    baseline: Mapping[str, float] = field(default_factory=dict)
    """The baseline's raw values by split, as far as they are known."""
    code: Mapping[str, str] = field(default_factory=dict)
    """The baseline's target files; empty when they are not known."""
    commit: str = ""
    """Commit of the task's repository; empty when it is not known."""

    def raw(self, info: Any) -> float | None:
        """The value in a `*_info.json`; None if it is not there."""
        try:
            return float(info[self.dataset]["means"][self.key])
        except (KeyError, TypeError, ValueError):
            return None

    def compared(self, raw: Any) -> float | None:
        """A raw value in the metric's unit; None if it does not count."""
        if isinstance(raw, bool) or not isinstance(raw, int | float) or not math.isfinite(raw):
            return None
        if self.name not in LOG_SCALED:
            return float(raw)
        return -math.log10(raw) if raw > 0 else None

    @property
    def range(self) -> dict[str, Any]:
        """What its script has to be told of a task it does not know."""
        worst = "baseline" if self.metric.worst is None else self.metric.worst
        named = {"dataset": self.dataset, "metric": self.key}
        direction = str(self.metric.direction)
        return {**named, "direction": direction, "best": self.metric.best, "worst": worst}


@cache
def known_tasks() -> dict[str, ScoredTask]:
    """The 18 tasks of FML-bench v3, as our own definitions declare them, by FML-bench's names."""
    folders = [conf_dir() / "task" / group for group in ("paper", "fml18")]
    defined = [OmegaConf.load(path) for folder in folders for path in sorted(folder.glob("*.yaml"))]
    return {t.name: t for t in (_declared(raw) for raw in defined if "origin" in raw)}


def _declared(raw: Any) -> ScoredTask:
    """A task of ours as FML-bench would tell it: `compas.means.abs_aod_mean` says data set and key.

    What we take as -log10 it keeps as it is.
    """
    name = next(m[1] for m in map(_OWN.match, raw.origin.files.values()) if m)
    metric, result, declared = raw.metric, raw.results[0], raw.reported.baseline
    dataset, _, key = result.metrics[metric.name].split(".")
    scaled = name in LOG_SCALED
    baseline = {s: 10 ** -declared[s] if scaled else float(declared[s]) for s in ("val", "test")}
    worst = metric.get("worst")
    known = _metric(name, key, metric.direction, metric.best, worst)
    return ScoredTask(name, dataset, key, known, baseline)


def _metric(name: str, key: str, direction: str, best: float, worst: float | None) -> Metric:
    shown = f"neg_log10_{key}" if name in LOG_SCALED else key
    return Metric(shown, Direction(direction), best, worst)


@dataclass(frozen=True)
class Bench:
    """FML-bench itself: a checkout, or what an export keeps of it."""

    root: Path | None
    """The folder with `ml_tasks/`; None if there is none."""

    @classmethod
    def near(cls, results: Path, given: str = "") -> "Bench":
        """The one that was `given`, or one around `results`; raises ConfigError."""
        if given:
            if not (Path(given) / "ml_tasks").is_dir():
                raise ConfigError(f"bench={given}: there is no ml_tasks/; name FML-bench's folder")
            return cls(Path(given))
        around = [results / FOLDER, results, *results.absolute().parents]
        around += [folder / FOLDER for folder in results.absolute().parents]
        return cls(next((folder for folder in around if (folder / "ml_tasks").is_dir()), None))

    def task(self, name: str) -> ScoredTask:
        """What is known of a task; raises ConfigError when that is too little to read results."""
        found = self._told(name) or known_tasks().get(name)
        if found is None:
            raise ConfigError(
                f"task {name!r} is none of FML-bench's 18, and no {FOLDER}/tasks.json tells its"
                " metric and range; name the folder that has one as bench=FOLDER"
            )
        config = self._json(f"ml_tasks/{name}/config.json") or {}
        folder = f"ml_tasks/{name}/baseline_results"
        own = {s: found.raw(self._json(f"{folder}/{s}_info.json")) for s in ("val", "test")}
        baseline = {**found.baseline, **{s: v for s, v in own.items() if v is not None}}
        facts = (found.dataset, found.key, found.metric, baseline)
        return ScoredTask(name, *facts, self._code(config), str(config.get("pinned_commit", "")))

    def _told(self, name: str) -> ScoredTask | None:
        told = (self._json("tasks.json") or {}).get(name)
        if told is None:
            return None
        try:
            worst = None if told["worst"] == "baseline" else float(told["worst"])
            best = float(told["best"])
            metric = _metric(name, told["metric"], told["direction"], best, worst)
            return ScoredTask(name, str(told["dataset"]), str(told["metric"]), metric)
        except (KeyError, TypeError, ValueError) as error:
            raise ConfigError(f"{self.root}/tasks.json: {name}: {error!r} is wrong") from error

    def _code(self, config: Mapping[str, Any]) -> dict[str, str]:
        if self.root is None:
            return {}
        repo = self.root / str(config.get("repo_dir", ""))
        paths = {name: repo / name for name in code_files(config.get("target_files", ()))}
        return {name: read_text(path) for name, path in paths.items() if path.is_file()}

    def _json(self, name: str) -> Any:
        if self.root is None or not (self.root / name).is_file():
            return None
        try:
            return json.loads((self.root / name).read_text())
        except ValueError as error:
            raise ConfigError(f"{self.root / name}: not JSON ({error})") from error


def code_files(names: Iterable[str]) -> list[str]:
    """The target files that count as code, in path order."""
    return sorted(name for name in names if Path(name).name not in NO_CODE)


def read_text(path: Path) -> str:
    """A file's text with its line ends as they are."""
    with path.open(newline="") as file:
        return file.read()
