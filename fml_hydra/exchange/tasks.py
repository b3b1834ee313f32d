"""FML-bench's tasks: which number counts, its range, and the baseline's values and code.

The facts are those that its `compute_agent_metrics.py` goes by. A checkout of FML-bench, or the
`fml_bench/` folder of an export, knows more: other tasks, other baselines, the baseline's code.
"""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fml_hydra.errors import ConfigError
from fml_hydra.metric import Direction, Metric

FOLDER = "fml_bench"
"""Where an export keeps what belongs to FML-bench's checkout rather than to its results."""
LOG_SCALED = {"Unlearning_open_unlearning"}
"""Tasks whose raw values v3 compares as -log10, lower is better."""
NO_CODE = {"split_config.json", "notes.txt"}
"""Target files that never count as code."""

# task, data set, metric, direction, best, worst (- is the baseline), baseline on val and on test
_KNOWN = """
Causality_causalml ihdp_test mae_mean lower 0 - 1.2962585694753708 1.328343456347623
Causality_gcastle synthetic_dag shd_mean lower 0 - 72.0 71.0
Continual_Learning_continual_learning splitMNIST_scenario_class average_acc_mean higher 1 0 \
0.2712503183091418 0.2709019474984232
Continual_Learning_pycil cifar100_incremental avg_incremental_acc_mean higher 1 0 \
0.5910666666666667 0.5951666666666667
Data_Efficiency_easyfsl miniimagenet_test accuracy_mean higher 1 0 0.6584 0.6534
Data_Efficiency_usb cifar100_ssl test_acc_mean higher 1 0 0.07566666666666666 0.079
Fairness_and_Bias_aif360 compas abs_aod_mean lower 0 1 0.2657268424611224 0.23986259586405548
Fairness_fairlearn adult abs_demographic_parity_diff_mean lower 0 1 \
0.18663158848996153 0.1730295772151227
Federated_Learning_PFLlib cifar10_fl test_acc_mean higher 1 0 \
0.4405712594723812 0.45259903175692706
Generalization_domainbed ColoredMNIST_test_env2 in_acc_mean higher 1 0 \
0.2791827403914845 0.2868250275498959
Generalization_domainbed_officehome OfficeHome_test_env0 avg_acc_mean higher 1 0 \
0.8832417582417582 0.8628605061801059
Privacy_opacus cifar10_dp test_acc_mean higher 1 0 0.5893848545414169 0.5877142857142857
Privacy_privacymeter cifar10 AUC_gap_mean lower 0 0.5 0.3339 0.3213666666666667
Representation_Learning_lightly cifar10_linear_probing test_acc_mean higher 1 0 \
0.7527309060096741 0.7564285397529602
Representation_Learning_solo_learn cifar100_ssl linear_eval_acc_mean higher 1 0 \
0.47765642404556274 0.4895714223384857
Robustness_and_Reliability_art poisoned_mnist defense_score_mean higher 1 0 \
0.4720302724887606 0.47742915945583675
Robustness_openood openood auroc_mean higher 1 0 0.8757909632571994 0.9302045714285714
Unlearning_open_unlearning tofu_unlearning forget_quality_mean lower 0 - \
2.2001332500149066e-71 1.572462355189384e-167
"""


@dataclass(frozen=True)
class BenchTask:
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


def known_tasks() -> dict[str, BenchTask]:
    """The 18 tasks of FML-bench v3 with their published baselines."""
    return {t.name: t for t in map(_known, filter(None, _KNOWN.splitlines()))}


def _known(line: str) -> BenchTask:
    name, dataset, key, direction, best, worst, val, test = line.split()
    metric = _metric(name, key, direction, float(best), None if worst == "-" else float(worst))
    return BenchTask(name, dataset, key, metric, {"val": float(val), "test": float(test)})


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

    def task(self, name: str) -> BenchTask:
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
        return BenchTask(name, *facts, self._code(config), str(config.get("pinned_commit", "")))

    def _told(self, name: str) -> BenchTask | None:
        told = (self._json("tasks.json") or {}).get(name)
        if told is None:
            return None
        try:
            worst = None if told["worst"] == "baseline" else float(told["worst"])
            best = float(told["best"])
            metric = _metric(name, told["metric"], told["direction"], best, worst)
            return BenchTask(name, str(told["dataset"]), str(told["metric"]), metric)
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
