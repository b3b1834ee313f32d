"""What a report is about: the selected runs with everything that is computed from them once."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from fml_hydra.analysis import tables
from fml_hydra.analysis.rows import CONFIGURATION
from fml_hydra.report.settings import Settings
from fml_hydra.report.style import Look, looks


@dataclass(frozen=True)
class Study:
    """Runs, and what is known beside them."""

    title: str
    """What the runs have in common, such as the name of their sweep."""
    runs: pd.DataFrame
    """A row per run (analysis.rows), with the columns of analysis.explored."""
    steps: pd.DataFrame
    """A row per step."""
    known: pd.DataFrame
    """Known methods of the tasks (analysis.known)."""
    behaviours: pd.DataFrame
    """A row per step: what kind of change it is (analysis.behaviour); may be empty."""
    confusion: pd.DataFrame
    """How far the rules agree with what the tasks' ideas declare; may be empty."""
    judged: pd.DataFrame
    """How far a judge that is a language model agrees with the rules; empty without one."""
    settings: Settings
    """Knobs of the report."""
    source: str
    """Where the runs were looked up, for people."""
    embedder: str = ""
    """Name of the embedder; empty when nothing was embedded."""
    pages: str = ""
    """Address that a run id is added to for its page in MLflow; empty without."""
    notices: tuple[str, ...] = ()
    """What a reader must know of how the runs were collected."""

    @cached_property
    def cells(self) -> pd.DataFrame:
        """One run per task, agent, LLM and seed."""
        return self.labelled(tables.one_per_cell(self.runs))

    @cached_property
    def tested(self) -> pd.DataFrame:
        """The cells with a test result."""
        return self.labelled(tables.tested(self.runs))

    @cached_property
    def best(self) -> pd.DataFrame:
        """The best of n rounds per task, agent and LLM."""
        return self.labelled(tables.best_of_n(self.runs, self.settings.best_of, self.asked))

    @cached_property
    def asked(self) -> int:
        """Rounds there should be of every cell."""
        return self.settings.best_of or self.runs["seed"].nunique()

    @cached_property
    def tasks(self) -> list[str]:
        """Names of the tasks, in order."""
        return sorted(set(self.runs["task"]))

    @cached_property
    def llms(self) -> list[str]:
        """Names of the language models, in order."""
        return sorted(set(self.runs["llm"]))

    @cached_property
    def configurations(self) -> pd.DataFrame:
        """`agent`, `llm` and `label`, in order."""
        found = self.runs[CONFIGURATION].drop_duplicates().sort_values(CONFIGURATION)
        return self.labelled(found.reset_index(drop=True))

    @cached_property
    def looks(self) -> Mapping[str, Look]:
        """How each configuration is drawn, by label."""
        return looks(list(self.configurations["label"]))

    def label(self, agent: str, llm: str) -> str:
        """Short name of a configuration in figures: the LLM is left out when there is only one."""
        return agent if len(self.llms) == 1 else f"{agent} · {llm}"

    def labelled(self, table: pd.DataFrame) -> pd.DataFrame:
        """A table with the columns agent and llm, and `label` added."""
        pairs = zip(table["agent"], table["llm"], strict=True)
        labels = [self.label(agent, llm) for agent, llm in pairs]
        return table.assign(label=pd.Series(labels, index=table.index, dtype=object))

    def metric_of(self, task: str) -> str:
        """The task's metric and its direction, for an axis."""
        runs = self.runs[(self.runs["task"] == task) & (self.runs["metric"] != "")]
        if runs.empty:
            return "metric"
        arrow = "higher" if runs["direction"].iloc[-1] == "higher" else "lower"
        return f"{runs['metric'].iloc[-1]} ({arrow} is better)"
