"""`python -m fml_hydra report`: a page, tables and figures of what the latest sweep found.

    python -m fml_hydra report experiment=NAME sweep=NAME,NAME filter="tags.`fml.task` = 'fairness'"

The knobs are those of conf/report.yaml. Exit code 0 once the files are written, also when the copy
for MLflow could not be sent.
"""

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from omegaconf import OmegaConf
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from fml_hydra.construct import construct
from fml_hydra.errors import InfraError
from fml_hydra.overrides import compose_config
from fml_hydra.report.build import SECTIONS, build, figures_of
from fml_hydra.report.collect import Bar, collect
from fml_hydra.report.files import PAGE, Folder, write_report
from fml_hydra.report.formats import plural
from fml_hydra.report.selection import LocalSweep, select
from fml_hydra.report.sending import send
from fml_hydra.report.settings import Settings
from fml_hydra.report.study import Study
from fml_hydra.status import read_statuses
from fml_hydra.sweep import cells_folder

RAW = ("sweep", "filter", "out")
"""Words that are taken as they stand: Hydra would read commas, quotes and equals signs in them."""
SHORT = {"experiment": "tracking.experiment", "uri": "tracking.uri"}
"""Short names of knobs."""


def main(argv: list[str]) -> int:
    """Write the report, and say where it is."""
    settings = load_settings(argv)
    console = Console(width=None if sys.stdout.isatty() else 200)
    selection = select(settings, local_sweeps(settings.root))
    with _progress() as bar:
        study = collect(settings, selection, bar)
        folder = Folder(settings.out or settings.root / "reports" / _file_name(study.title))
        _write(study, folder, bar)
    what = f"{plural(len(study.runs), 'run')}, {plural(len(study.steps), 'step')}"
    lines = [f"{what}: {study.title}"]
    lines += [f"Page:    {folder.path / PAGE}", f"Tables:  {folder.path / 'tables'} (CSV, LaTeX)"]
    lines.append(f"Figures: {folder.path / 'figures'} ({', '.join(settings.figures)})")
    if settings.log and settings.tracking.on:
        lines.append(_sent(settings, study, folder))
    console.print("\n".join(lines), highlight=False, markup=False, soft_wrap=True)
    return 0


def load_settings(argv: Sequence[str]) -> Settings:
    """The knobs, from conf/report.yaml and the command line; raises ConfigError in one line."""
    raw, words = {}, []
    for word in argv:
        key, equals, value = word.partition("=")
        if key in RAW and equals:
            raw[key] = value
        else:
            words.append(f"{SHORT.get(key, key)}{equals}{value}")
    cfg = compose_config(words, "report")
    for key, value in raw.items():
        OmegaConf.update(cfg, key, value)
    settings = construct(cfg, primary="report")
    assert isinstance(settings, Settings)
    return settings


def local_sweeps(root: Path) -> list[LocalSweep]:
    """The sweeps that were begun on this machine."""
    found = []
    for folder in (root / "sweeps").glob("*/cells"):
        statuses = read_statuses(cells_folder(root, folder.parent.name))
        names = frozenset(Path(status.folder).name for status in statuses if status.folder)
        files = [path.stat().st_mtime for path in folder.iterdir()]
        found.append(LocalSweep(folder.parent.name, max(files, default=0.0), names))
    return found


def _write(study: Study, folder: Folder, bar: Bar) -> None:
    with bar("computing tables", len(SECTIONS)) as tell:
        sections = build(study, tell)
    with bar("drawing figures", len(figures_of(sections))) as tell:
        write_report(study, sections, folder, tell)


def _sent(settings: Settings, study: Study, folder: Folder) -> str:
    try:
        run = send(settings.tracking, settings.root, study.title, folder.path, folder.written)
    except InfraError as error:
        return f"MLflow:  not sent, the files above are complete ({error})"
    return f"MLflow:  artifacts of run {run} (kind report)"


def _file_name(title: str) -> str:
    return re.sub(r"[^\w.-]+", "_", title.removeprefix("sweep ")).strip("._")[:100] or "report"


@contextmanager
def _progress() -> Iterator[Bar]:
    """Bars on a terminal's error stream, which leave nothing behind."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    console = Console(stderr=True)
    with Progress(*columns, TimeRemainingColumn(), console=console, transient=True) as progress:

        @contextmanager
        def bar(what: str, total: int) -> Iterator[Callable[[], object]]:
            task = progress.add_task(what, total=total)
            yield lambda: progress.advance(task)
            progress.remove_task(task)

        yield bar
