"""Drawings of tables: one function per kind of figure. Not here: which figures there are."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import pandas as pd

from fml_hydra.report.style import INK, MUTED, Look, blank, legend

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing
    from matplotlib.ticker import Formatter

Looks = Mapping[str, Look]
ROW = 0.3
"""Inches per row of a drawing with rows."""


def curves(table: pd.DataFrame, looks: Looks, metric: str, lines: pd.DataFrame) -> "Drawing":
    """Best so far over steps: `label`, `k`, `mean`, `low`, `high`; `lines` has `label`, `value`."""
    drawing, axes = blank()
    for label, curve in table.groupby("label", sort=False):
        look = looks[str(label)]
        x = curve["k"].to_numpy()
        axes.fill_between(
            x, curve["low"], curve["high"], step="post", color=look.colour, alpha=0.13, linewidth=0
        )
        axes.step(
            x, curve["mean"], where="post", color=look.colour, linestyle=look.dash, label=str(label)
        )
        axes.plot(
            x[-1:], curve["mean"].to_numpy()[-1:], look.marker, color=look.colour, clip_on=False
        )
    _lines(axes, lines, horizontal=True)
    _whole_numbers(axes)
    axes.set_xlabel("step")
    axes.set_ylabel(metric)
    legend(drawing, axes)
    return drawing


def results(table: pd.DataFrame, looks: Looks, metric: str, lines: pd.DataFrame) -> "Drawing":
    """Test results: `label`, `test`, `best`; a small mark per round, a large one for the best.

    `lines` has `label`, `value`, `sd`: the baseline with its noise, and the reference.
    """
    names = list(dict.fromkeys(table["label"]))
    drawing, axes = blank(height=max(3.0, 1.4 + ROW * len(names)))
    for row, name in enumerate(names):
        look, rounds = looks[name], table[table["label"] == name]
        place = len(names) - 1 - row
        axes.plot(
            rounds["test"],
            [place] * len(rounds),
            look.marker,
            color=look.colour,
            markerfacecolor="none",
            markersize=4,
        )
        best = rounds[rounds["best"]]
        axes.plot(best["test"], [place] * len(best), look.marker, color=look.colour, markersize=7.5)
    axes.set_yticks(range(len(names)), names[::-1])
    axes.set_ylim(-0.6, len(names) - 0.4)
    axes.grid(axis="y", visible=False)
    _lines(axes, lines, horizontal=False)
    axes.set_xlabel(metric)
    legend(drawing, axes)
    return drawing


def scatter(
    table: pd.DataFrame, looks: Looks, x: str, y: str, log: bool = False, trend: bool = True
) -> "Drawing":
    """Points with `label`, `x`, `y`, and the least squares line through all of them."""
    drawing, axes = blank()
    for label, group in table.groupby("label", sort=False):
        look = looks[str(label)]
        axes.plot(
            group["x"],
            group["y"],
            look.marker,
            color=look.colour,
            alpha=0.85,
            label=str(label),
            markeredgewidth=0,
            markersize=6,
        )
    if trend:
        _trend(axes, table)
    if log and (table["x"] > 0).all():
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(_engineering())
        axes.xaxis.set_minor_formatter(_engineering())
    axes.margins(0.08)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    legend(drawing, axes)
    return drawing


def intervals(table: pd.DataFrame, looks: Looks, what: str, zero: bool = False) -> "Drawing":
    """Rows with `label`, `value`, `low`, `high`; `zero` draws where there is no difference."""
    drawing, axes = blank(height=max(2.2, 0.9 + ROW * len(table)))
    places = range(len(table) - 1, -1, -1)
    for place, (_, row) in zip(places, table.iterrows(), strict=True):
        look = looks.get(str(row["label"]), Look(INK, "o", "-"))
        if math.isfinite(row["low"]):
            axes.plot([row["low"], row["high"]], [place] * 2, "-", color=look.colour)
        axes.plot([row["value"]], [place], look.marker, color=look.colour, markersize=6)
    if zero:
        axes.axvline(0, color=MUTED, linewidth=1)
    axes.set_yticks(list(places), list(table["label"]))
    axes.set_ylim(-0.6, len(table) - 0.4)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel(what)
    return drawing


def profiles(table: pd.DataFrame, looks: Looks, x: str, y: str) -> "Drawing":
    """Curves with `label`, `tau`, `share`; a label without a look, the baseline, is grey."""
    drawing, axes = blank()
    for label, curve in table.groupby("label", sort=False):
        look = looks.get(str(label), Look(MUTED, "", ":"))
        axes.step(
            curve["tau"],
            curve["share"],
            where="post",
            color=look.colour,
            linestyle=look.dash,
            label=str(label),
        )
    axes.set_ylim(-0.02, 1.04)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    legend(drawing, axes)
    return drawing


def stacked(table: pd.DataFrame, colours: Mapping[str, str], what: str) -> "Drawing":
    """Horizontal bars of `share` by `part` for each `label`; parts in the order of `colours`."""
    names = list(dict.fromkeys(table["label"]))
    drawing, axes = blank(height=max(2.0, 1.4 + ROW * len(names)))
    wide = table.pivot(index="label", columns="part", values="share").reindex(names).fillna(0.0)
    left = pd.Series(0.0, index=names)
    for number, (part, colour) in enumerate((p, c) for p, c in colours.items() if p in wide):
        bars = axes.barh(
            range(len(names) - 1, -1, -1),
            wide[part],
            left=left,
            color=colour,
            label=part,
            height=0.66,
            edgecolor="white",
            linewidth=0.5,
            hatch=("", "////", "....", "xxxx", "\\\\\\\\", "++++")[number % 6],
        )
        for bar, share in zip(bars, wide[part], strict=True):
            if share >= 0.08:
                axes.text(
                    bar.get_x() + bar.get_width() / 2,
                    bar.get_y() + bar.get_height() / 2,
                    f"{100 * share:.0f}",
                    ha="center",
                    va="center",
                    fontsize=7.5,
                    color="#000000",
                    bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.8, "alpha": 0.85},
                )
        left = left + wide[part]
    axes.set_yticks(range(len(names) - 1, -1, -1), names)
    axes.set_xlim(0, max(1.0, float(left.max() if len(left) else 1.0)))
    axes.grid(axis="y", visible=False)
    axes.xaxis.set_major_formatter(lambda v, _: f"{100 * v:.0f}%")
    axes.set_xlabel(what)
    legend(drawing, axes)
    return drawing


def _lines(axes: "Axes", lines: pd.DataFrame, horizontal: bool) -> None:
    """Known values as lines; the first has a band of two standard deviations, if it has any."""
    draw, band = (axes.axhline, axes.axhspan) if horizontal else (axes.axvline, axes.axvspan)
    for number, (_, line) in enumerate(lines.iterrows()):
        value, sd = float(line["value"]), float(line["sd"])
        if math.isfinite(sd) and sd > 0:
            band(value - 2 * sd, value + 2 * sd, color=MUTED, alpha=0.14, linewidth=0)
        if math.isfinite(value):
            style = ("--", ":", "-.")[number % 3]
            draw(value, color=MUTED, linestyle=style, linewidth=1.1, label=str(line["label"]))


def _trend(axes: "Axes", table: pd.DataFrame) -> None:
    from numpy.polynomial import Polynomial

    known = table[["x", "y"]].dropna()
    if len(known) < 3 or known["x"].nunique() < 2:
        return
    line = Polynomial.fit(known["x"], known["y"], 1)
    ends = [float(known["x"].min()), float(known["x"].max())]
    axes.plot(ends, [float(line(end)) for end in ends], "-", color=MUTED, linewidth=1, zorder=1)


def _engineering() -> "Formatter":
    """`20k` instead of 2 x 10^4."""
    from matplotlib.ticker import EngFormatter

    return EngFormatter(sep="")


def _whole_numbers(axes: "Axes") -> None:
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
