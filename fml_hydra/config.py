"""The root of the configuration: what one run is made of, and what determines it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

from omegaconf import DictConfig, OmegaConf
from pydantic import PositiveInt
from pydantic.dataclasses import dataclass

from fml_hydra.agents.base import Agent
from fml_hydra.checkout import StandIns
from fml_hydra.construct import construct
from fml_hydra.errors import ConfigError, NotPrepared, TaskError
from fml_hydra.hashing import value_hash
from fml_hydra.knobs import STRICT, Folder
from fml_hydra.llm.base import LLM
from fml_hydra.parts import Roads
from fml_hydra.preparation import Means, unprepared
from fml_hydra.prompts import Prompts
from fml_hydra.sandbox import SandboxPolicy
from fml_hydra.session import Budget
from fml_hydra.task import TaskSpec
from fml_hydra.task_check import check_definition, check_task
from fml_hydra.tracking import Tracking

FORMAT = 2
"""Raised when the same configuration would give another run than before."""
DETERMINING = ("agent", "llm", "prompt", "budget", "sandbox", "seed", "slots")
"""The parts of the configuration, beside the task, that determine a run."""
_ROAD = frozenset(
    ("ideas", "key", "provider", "prices", "cache", "deadline", "attempts", "max_wait")
    + ("requests_per_minute", "tokens_per_minute")
)
"""Settings of a language model that say how it is reached, not what it answers."""


@dataclass(frozen=True, config=STRICT)
class Experiment:
    """Everything about one run."""

    task: TaskSpec
    """What is to be improved."""
    agent: Agent
    """Who improves it."""
    llm: LLM
    """With which language model."""
    prompt: Prompts
    """In which words."""
    budget: Budget
    """For how much."""
    sandbox: SandboxPolicy
    """Behind which walls."""
    tracking: Tracking
    """Recorded where."""
    seed: int
    """Seed of the agent's choices (a round in the papers)."""
    slots: PositiveInt
    """Evaluations at the same time."""
    resume: Literal["auto", "never"]
    """Whether an earlier run of the same identity is gone on with."""
    root: Folder
    """Where runs, sweeps and the MLflow store lie."""
    tasks_dir: Folder
    """Where the tasks' files lie."""
    cache_dir: Folder
    """Prepared data and workspaces."""
    sweep: str
    """Name of the sweep."""
    fml_bench_dir: Folder | None = None
    """A checkout of FML-bench; null: `tasks prepare` clones it."""
    repositories_dir: Folder | None = None
    """Repositories that stand in for those `tasks prepare` would clone, by name."""
    data_dir: Folder | None = None
    """Files that stand in for those `tasks prepare` would download, by name."""
    data_mirror: str | dict[str, str] | None = None
    """Where downloads come from instead: an address, or one for each beginning of an address."""

    @property
    def means(self) -> Means:
        """What `tasks prepare` may use."""
        own = StandIns(self.repositories_dir, self.fml_bench_dir)
        return Means(self.cache_dir, own, Roads(self.data_dir, self.data_mirror))

    @property
    def llm_name(self) -> str:
        """The language model in tables; a program of somebody else brings its own."""
        return getattr(self.agent, "llm_name", "") or self.llm.name

    def identity(self, cfg: DictConfig) -> str:
        """Name of the run: readable first, then a hash of all that determines it."""
        plain = OmegaConf.to_container(cfg, resolve=True)
        assert isinstance(plain, dict)
        task = {k: v for k, v in plain["task"].items() if k not in {"dir", "reported", "title"}}
        if data := task.get("datasets"):
            task["datasets"] = {name: _what(entry) for name, entry in data.items()}
        parts = {key: plain[key] for key in DETERMINING}
        parts["llm"] = {k: v for k, v in parts["llm"].items() if k not in _ROAD}
        content = value_hash([FORMAT, task, self.task.content_hash(), parts])[:12]
        names = (self.task.name, self.agent.name, self.llm_name, f"s{self.seed}", content)
        return ".".join(name.replace("/", "-") for name in names)


def _what(data: Mapping[str, Any]) -> dict[str, Any]:
    """What a data set is, without how this machine comes by it."""
    parts = {k: {**v, "origins": None} for k, v in (data.get("parts") or {}).items()}
    return {**data, "folder": None, "parts": parts}


def load_experiment(
    cfg: DictConfig, choices: Mapping[str, str] | None = None, prepared: bool = True
) -> Experiment:
    """Check a composed configuration and build its objects; raises ConfigError in one line.

    Where the task has to be prepared ahead and is not, that is NotPrepared; without `prepared` it
    is let pass.
    """
    try:
        return _placed(construct(cfg, choices), prepared)
    except TaskError as error:
        raise ConfigError(str(error).splitlines()[0]) from error


def _placed(experiment: Any, prepared: bool) -> Experiment:
    """Give a task from elsewhere the repository that was assembled for it, and check its files."""
    if not isinstance(experiment, Experiment):
        raise ConfigError("conf/config.yaml: _target_ must be fml_hydra.config.Experiment")
    task, cache = experiment.task, experiment.cache_dir
    if task.origin is None:
        check_task(task)
        return experiment
    task = replace(task, repository=task.origin.repo(cache))
    if missing := unprepared(task, cache):
        check_definition(task)
        if prepared:
            raise NotPrepared(task.name, missing)
    else:
        check_task(task)
    return replace(experiment, task=task)
