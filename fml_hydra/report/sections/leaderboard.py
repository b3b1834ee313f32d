"""The leaderboard: each configuration over all tasks, in the ways the papers rank."""

from functools import partial

import pandas as pd

from fml_hydra.analysis.comparison import interquartile_means
from fml_hydra.analysis.known import relative_to_known
from fml_hydra.analysis.profiles import Profiles, performance_profiles, score_profiles
from fml_hydra.analysis.rows import CONFIGURATION
from fml_hydra.analysis.tables import first_places
from fml_hydra.report import figures
from fml_hydra.report.parts import Block, Column, Figure, Gallery, Section, Table, Text
from fml_hydra.report.study import Study

NI = "normalized_improvement"


def section(study: Study) -> Section:
    """The section `Leaderboard`."""
    if study.tested.empty:
        nothing = Text("No run has a test result yet, so nothing can be ranked.")
        return Section("leaderboard", "Leaderboard", [nothing])
    board = leaderboard(study)
    profiles = performance_profiles(study.best)
    blocks: list[Block] = [
        _table(board, profiles),
        Gallery([_iqm(study, board), _score_profile(study), _ratio_profile(study, profiles)]),
    ]
    return Section("leaderboard", "Leaderboard", blocks)


def leaderboard(study: Study) -> pd.DataFrame:
    """A row per configuration, best first; see the columns in `_table`."""
    best = relative_to_known(study.best, study.known)
    grouped = best.groupby(CONFIGURATION)
    board = grouped.agg(
        tasks=("task", "size"), best_ni=(NI, "mean"), relative=("relative", "mean")
    ).reset_index()
    settings = study.settings
    means = interquartile_means(study.tested, NI, settings.resamples, settings.bootstrap_seed)
    board = board.merge(means.drop(columns="tasks"), on=CONFIGURATION)
    places = first_places(study.best).rename(columns={"tasks": "first_on"})
    board = board.merge(places, on=CONFIGURATION)
    aup = performance_profiles(study.best).aup.set_index("configuration")
    board["aup"] = [
        aup["aup"].get(f"{agent} · {llm}", float("nan"))
        for agent, llm in zip(board["agent"], board["llm"], strict=True)
    ]
    board = study.labelled(board)
    return board.sort_values("best_ni", ascending=False, kind="stable", ignore_index=True)


def _table(board: pd.DataFrame, profiles: Profiles) -> Table:
    pool = profiles.aup["pool"].iloc[0] if len(profiles.aup) else ""
    columns = [
        Column("agent", "agent"),
        Column("llm", "LLM"),
        Column("tasks", "tasks", "count", "tasks with a test result"),
        Column(
            "best_ni", "NI, best of n", "number", "mean over tasks of the best round", best="high"
        ),
        Column("mean", "NI, all rounds", "number", "mean over tasks and rounds", best="high"),
        Column(
            "iqm", "IQM", "number", "interquartile mean of NI over tasks and rounds", best="high"
        ),
        Column("low", "from", "number", "lower end of the IQM's 95% interval"),
        Column("high", "to", "number", "upper end of the IQM's 95% interval"),
        Column("first", "first places", "count", "tasks it is best on, ties shared", best="high"),
        Column("aup", "AUP", "number", "area under the performance profile (MLGym)", best="high"),
        Column("relative", "% of ref.", "number", "100: the reference", best="high", digits=1),
    ]
    note = (
        "NI: normalized improvement on test, 0 is the baseline (or worse). The AUP depends on the "
        f"pool it is taken over: {pool}."
    )
    return Table(
        "leaderboard", "All configurations over all tasks, best first.", board, columns, note
    )


def _iqm(study: Study, board: pd.DataFrame) -> Figure:
    table = board.assign(value=board["iqm"])[["label", "value", "low", "high"]]
    first = table.iloc[0]
    return Figure(
        "iqm",
        "Interquartile mean of NI with its 95% bootstrap interval.",
        f"Interquartile means with intervals; {first['label']} stands first with "
        f"{first['value']:.3f}.",
        table,
        partial(figures.intervals, looks=study.looks, what="IQM of normalized improvement"),
    )


def _score_profile(study: Study) -> Figure:
    table = study.labelled(score_profiles(study.tested))[["label", "tau", "share"]]
    return Figure(
        "score_profiles",
        "Share of results with an NI above a value; tasks weigh the same. Higher is better.",
        "Curves that fall from the share of improved results to 0, one per configuration.",
        table,
        partial(
            figures.profiles,
            looks=study.looks,
            x="normalized improvement τ",
            y="share of results above τ",
        ),
    )


def _ratio_profile(study: Study, profiles: Profiles) -> Figure:
    names = {
        f"{row['agent']} · {row['llm']}": row["label"] for _, row in study.configurations.iterrows()
    }
    long = profiles.shares.rename(columns=names).assign(tau=profiles.taus.to_numpy())
    table = long.melt(id_vars="tau", var_name="label", value_name="share")
    return Figure(
        "performance_profiles",
        "Performance profiles (MLGym): share of tasks on which a configuration is within a factor "
        "10^τ of the best of the pool. The area below is the AUP.",
        "Rising curves, one per configuration and one for the baseline.",
        table[["label", "tau", "share"]].dropna(),
        partial(
            figures.profiles, looks=study.looks, x="τ (log10 of the ratio)", y="share of tasks"
        ),
    )
