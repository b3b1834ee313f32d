"""What people see while runs go on, and the table at the end.

Reads the cells' status files only, so it does not matter which processes the runs are in.
"""

import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from fml_hydra.standstill import WAITING
from fml_hydra.status import CellStatus, read_statuses
from fml_hydra.usage import duration

REFRESH = 0.5
_COLOURS = {"finished": "green", "skipped": "green", "running": "cyan", "interrupted": "yellow"}


class Progress:
    """Shows a sweep's cells while they run: a live view on a terminal, plain lines elsewhere."""

    def __init__(self, folder: Path, cells: int, console: Console) -> None:
        self._folder, self._cells, self._console = folder, cells, console
        self._over = threading.Event()
        self._said: dict[str, tuple[str, ...]] = {}
        self._doing: dict[int, tuple[str, float]] = {}
        self._began = time.time()
        show = self._live if console.is_terminal else self._lines
        self._thread = threading.Thread(target=show, name="progress", daemon=True)

    def __enter__(self) -> "Progress":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(5)

    def _live(self) -> None:
        with Live(console=self._console, refresh_per_second=4, transient=True) as live:
            while not self._over.wait(REFRESH):
                live.update(self._view(read_statuses(self._folder)))

    def _view(self, cells: Sequence[CellStatus]) -> RenderableType:
        table = Table(box=None, pad_edge=False, header_style="dim")
        for column in ("", "task", "agent", "seed", "step", "best val", "baseline", "doing"):
            table.add_column(column)
        for place, cell in enumerate(cells):
            row = cell.row
            done = ProgressBar(
                total=max(1, row.get("budget", 1)), completed=row.get("steps", 0), width=16
            )
            steps = f"{row.get('steps', 0)}/{row.get('budget', '?')}"
            values = (number(row.get("best_val")), number(row.get("baseline_val")))
            what = self._now(place, cell) if cell.state == "running" else _state(cell)
            table.add_row(done, cell.task, cell.agent, str(cell.seed), steps, *values, what)
        over = sum(c.state != "running" for c in cells)
        spent = time.time() - self._began
        left = _left(cells, self._cells, spent)
        line = f"{over} of {self._cells} runs over · {duration(spent)} · {left}"
        return Group(table, Text(line, style="bold"), Text(_spend(cells), style="dim"))

    def _now(self, place: int, cell: CellStatus) -> str:
        """What a cell is doing, and for how long already."""
        what, since = self._doing.get(place, ("", 0.0))
        if what != cell.doing:
            since = time.monotonic()
            self._doing[place] = (cell.doing, since)
        return f"{cell.doing} · {duration(time.monotonic() - since)}"

    def _lines(self) -> None:
        while not self._over.wait(REFRESH):
            self._say(read_statuses(self._folder))
        self._say(read_statuses(self._folder))

    def _say(self, cells: Sequence[CellStatus]) -> None:
        for number_, cell in enumerate(cells):
            row = cell.row
            waits = cell.state == "running" and WAITING in cell.doing
            now = (cell.state, str(row.get("steps", 0)), cell.doing if waits or not row else "")
            key = str(number_)
            before = self._said.get(key, ())
            self._said[key] = now
            if before == now or (row and not waits and before[:2] == now[:2]):
                continue  # nothing new, or a wait that is over
            names = f"{cell.task} · {cell.agent} · {cell.llm} · seed {cell.seed}"
            where = f"[{number_ + 1}/{self._cells}] {names}"
            what = cell.doing or _state(cell).plain
            if row and not waits:
                what = (
                    f"step {row['steps']}/{row['budget']}, best val {number(row['best_val'])} "
                    f"(baseline {number(row['baseline_val'])})"
                )
            if cell.state != "running":
                what = f"{what}, {_state(cell).plain}" if row else _state(cell).plain
            self._console.print(f"{where}: {what}", highlight=False, markup=False, soft_wrap=True)


def results(cells: Sequence[CellStatus]) -> Table:
    """One row per run."""
    table = Table(title="Results", title_justify="left", header_style="bold", box=SIMPLE_HEAD)
    for name in ("task", "agent", "llm", "seed"):
        table.add_column(name, overflow="fold")
    right = ("baseline\nval", "best\nval", "baseline\ntest", "test", "improve-\nment", "steps")
    for name in (*right, "success\nrate", "tokens", "cost $", "time"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("status", overflow="fold")
    for cell in cells:
        llm = cell.row.get("llm") or cell.llm  # a program of somebody else brings its own
        names = (cell.task, cell.agent, llm, str(cell.seed))
        table.add_row(*names, *_numbers(cell.row), _state(cell))
    return table


def remarks(cells: Sequence[CellStatus]) -> list[str]:
    """What the numbers were made under, and where the time went."""
    rows = [c.row for c in cells if c.row]
    if not rows:
        return []
    total = sum(r["seconds"] for r in rows) or 1.0
    commands = sum(r["seconds_exec"] for r in rows) / total
    models = sum(r["spend"]["seconds"] for r in rows) / total
    rest = max(0.0, 1 - commands - models)  # slots > 1: several commands at the same time
    purposes = sum((Counter(r["spend"]["usage"]["purposes"]) for r in rows), Counter[str]())
    tokens = sum(purposes.values())
    shares = ", ".join(f"{count / tokens:.0%} {name}" for name, count in purposes.most_common())
    levels = sorted({r["sandbox"] for r in rows})
    weak = " (no walls: results are only as honest as the code)" if "process" in levels else ""
    shared = sorted({r["task"] for r in rows if r["isolation"] == "shared"})
    own = [f"Shared:  {', '.join(shared)}: the tasks' own processes say what they reached"]
    return [
        f"Sandbox: {', '.join(levels)}{weak}",
        *(own if shared else []),
        f"Time:    {duration(total)} in runs: {commands:.0%} candidates' commands, "
        f"{models:.0%} LLM, {rest:.0%} baseline, test and the suite itself",
        *([f"Tokens:  {shares}"] if tokens else []),
    ]


def _numbers(row: dict[str, Any]) -> list[str]:
    if not row:
        return ["-"] * 10
    spend = row["spend"]
    cost = "N/A" if spend["cost"] is None else f"{spend['cost']:.2f}"
    rate = "-" if row["success_rate"] is None else f"{row['success_rate']:.0%}"
    keys = ("baseline_val", "best_val", "baseline_test", "test")
    return [
        *(number(row[key]) for key in keys),
        _improvement(row),
        f"{row['steps']}/{row['budget']}",
        rate,
        "N/A" if row["tokens"] is None else f"{row['tokens']:,}",
        cost,
        duration(row["seconds"]),
    ]


def _improvement(row: dict[str, Any]) -> str:
    """Beside it, where that is known, how far the baseline moves with the seed alone."""
    if row["improvement"] is None:
        return "-"
    noise = row.get("noise")
    return f"{row['improvement']:+.4f}" + (f" ±{noise:.2g}" if noise is not None else "")


def _state(cell: CellStatus) -> Text:
    text = cell.state
    if cell.row.get("fallback"):
        text += f"; baseline's test value: {cell.row['fallback']}"
    if cell.message:
        text += f": {cell.message}"
    return Text(text, style=_COLOURS.get(cell.state, "red"))


def _spend(cells: Sequence[CellStatus]) -> str:
    rows = [c.row for c in cells if c.row]
    tokens = sum(r["tokens"] or 0 for r in rows)
    costs = [r["spend"]["cost"] for r in rows]
    cost = "N/A" if None in costs else f"{sum(costs):.2f}"
    return f"{tokens:,} tokens · $ {cost}"


def _left(cells: Sequence[CellStatus], total: int, spent: float) -> str:
    """Time left, from the share of steps done."""
    shares = [
        1.0 if c.state != "running" else c.row.get("steps", 0) / max(1, c.row.get("budget", 1))
        for c in cells
    ]
    share = sum(shares) / max(1, total)
    return f"about {duration(spent / share - spent)} left" if share > 0.02 else "time left unknown"


def number(value: float | None) -> str:
    """A metric for a table."""
    return "-" if value is None else f"{value:.4f}"
