"""How everything was measured: what a methods section of a paper has to say."""

from collections.abc import Iterable

import pandas as pd

from fml_hydra import __version__
from fml_hydra.analysis.tables import one_per_cell
from fml_hydra.report.formats import joined, plural
from fml_hydra.report.parts import Block, Column, Facts, Heading, Section, Table
from fml_hydra.report.sections.overview import missing_cells
from fml_hydra.report.study import Study

DEFINITIONS = (
    ("performance", "The test metric of the step with the best validation result (the earliest of "
     "equals); the baseline's where there is none, with the reason as a remark."),
    ("utility", "The metric, its sign turned so that higher is better; all comparisons use it."),
    ("normalized improvement (NI)", "max(0, gain over the baseline on test / |best − worst|); best "
     "and worst are the task's, worst may be the baseline (arXiv 2605.17373)."),
    ("best of n", "The best test performance over the rounds of a task, agent and LLM (arXiv "
     "2510.10472). It never falls with n, so compare only equal n."),
    ("rounds", "Runs of one cell that differ in their seed."),
    ("IQM", "Mean of the middle half of all values, a quarter cut off at each end."),
    ("AUP", "Area under MLGym's performance profile (arXiv 2502.14499): ratios to the best of the "
     "pool; what is worse than the baseline counts as 1.05 times the worst ratio."),
    ("% of reference", "100 (test − baseline) / (reference − baseline), with the task's best known "
     "method as the reference (MLRC-Bench)."),
    ("Exploration Diversity, Spread", "Mean L2 distance of the steps' code embeddings to their "
     "centroid, failed steps included. Texts are the target files in path order; chunks of 510 "
     "tokens, vectors summed over them (graphcodebert)."),
    ("Uniqueness", "Clusters / steps; average linkage, cosine distance, threshold 0.015."),
    ("Reach", "Largest L2 distance of a step's embedding to the baseline's."),
    ("Effective dim", "Participation ratio of the eigenvalues of the embeddings' covariance."),
    ("AUC over steps", "Mean over the steps of the best-so-far normalized gain on val."),
    ("success and completion rate", "Steps that ran to a metric / steps executed; steps executed / "
     "step budget."),
    ("intervals", "95%, percentile bootstrap; rounds are drawn anew within tasks."),
    ("p (Holm)", "Adjusted for the number of tests in the same table."),
)  # fmt: skip


def section(study: Study) -> Section:
    """The section `Methods`."""
    blocks: list[Block] = [
        Facts(_facts(study)),
        Heading("How each configuration was run"),
        _levels(study),
        Heading("Definitions"),
        Facts(DEFINITIONS),
    ]
    return Section("methods", "Methods", blocks)


def levels(runs: pd.DataFrame) -> pd.DataFrame:
    """Runs by task, sandbox level, isolation and version, with `runs` and `flagged` steps."""
    grouped = one_per_cell(runs).groupby(["task", "sandbox", "isolation", "version"])
    return grouped.agg(runs=("run_id", "size"), flagged=("flagged_steps", "sum")).reset_index()


def _facts(study: Study) -> list[tuple[str, str]]:
    settings, cells = study.settings, study.cells
    duplicates = len(study.runs) - len(cells)
    missing = len(missing_cells(study))
    facts = [
        ("runs", f"{plural(len(study.runs), 'run')} from {study.source}; {study.title}."),
        ("n", f"{plural(len(study.tested), 'finished cell')} of {len(study.tested) + missing}; "
         f"best of n with n = {study.asked}."),
        ("seeds", f"{joined([str(s) for s in sorted(set(study.runs['seed']))])}."),
        ("duplicates", f"{plural(duplicates, 'run')} of cells that another run stands for (the "
         "finished one, then the newest) count nowhere." if duplicates else "none."),
        ("embedder", f"{study.embedder}. {_EMBEDDER}" if study.embedder else "none was used."),
        ("versions", f"runs by fml_hydra {_words(study.runs['version'])}; this report by "
         f"{__version__}."),
        ("sandbox", f"{_words(cells['sandbox'])}."),
        ("isolation", f"{_words(cells['isolation'])} (shared: the task's own process says what it "
         "reached)."),
        ("flags", f"{int(cells['flagged_steps'].sum()):,} steps carry a suspicion with evidence "
         "(fml.flags in MLflow); no result is left out for one."),
        ("bootstrap", f"{settings.resamples:,} samples, seed {settings.bootstrap_seed}."),
    ]  # fmt: skip
    if study.settings.filter:
        facts.append(("filter", study.settings.filter))
    return facts


_EMBEDDER = (
    "Values of different embedders cannot be compared; FML-bench's are graphcodebert's, those of "
    "offline are comparable with each other only."
)


def _levels(study: Study) -> Table:
    columns = [
        Column("task", "task"),
        Column("sandbox", "sandbox"),
        Column("isolation", "isolation"),
        Column("version", "version"),
        Column("runs", "runs", "count"),
        Column("flagged", "flagged steps", "count"),
    ]
    return Table(
        "conditions", "Under what conditions the runs were made.", levels(study.runs), columns
    )


def _words(values: Iterable[str]) -> str:
    known = pd.Series([value or "unknown" for value in values]).value_counts(sort=False)
    if len(known) == 1:
        return str(known.index[0])
    return joined([f"{name} ({count})" for name, count in known.sort_index().items()]) or "none"
