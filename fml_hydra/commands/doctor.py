"""`python -m fml_hydra doctor`: what is there on this machine, and what to do about what is not."""

import os
import platform
import shutil
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from fml_hydra import __version__
from fml_hydra.config import load_experiment
from fml_hydra.data import is_prepared
from fml_hydra.errors import FmlError
from fml_hydra.overrides import compose_config, options
from fml_hydra.resources import cores
from fml_hydra.sandbox import LEVELS, probe
from fml_hydra.tracking import Tracking
from fml_hydra.tracking.delivery import check_reachable

KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY")


def main(argv: list[str]) -> int:
    """Print the table; exit code 1 if something that is always needed is missing."""
    cfg = compose_config(argv)
    root = Path(cfg.root).absolute()
    tracking = Tracking(cfg.tracking.uri, cfg.tracking.experiment)
    table = Table(title=f"fml_hydra {__version__}", title_justify="left")
    for column in ("what", "state", "remarks"):
        table.add_column(column, overflow="fold")
    git = shutil.which("git") or ""
    reasons = {level: probe(level) for level in LEVELS}
    works = [level for level in reversed(LEVELS) if not reasons[level]]
    table.add_row("Python", platform.python_version(), sys.executable)
    table.add_row("cores", str(cores()), "runs at a time by default")
    table.add_row("git", "found" if git else "MISSING", git or "install git")
    for level, reason in reasons.items():
        table.add_row(f"sandbox {level}", "no" if reason else "works", reason)
    table.add_row(
        "sandbox used", works[0] if works else "NONE", f"sandbox.require={cfg.sandbox.require}"
    )
    table.add_row("GPUs", *_gpus())
    for key in KEYS:
        table.add_row(key, "set" if os.environ.get(key) else "not set", "")
    problem = check_reachable(tracking, root) if tracking.on else ""
    state = "unreachable" if problem else "reachable" if tracking.on else "off"
    table.add_row("MLflow", state, problem or tracking.address(root))
    for task in options("task"):
        table.add_row(f"data of {task}", *_data(task, argv))
    Console(width=None if sys.stdout.isatty() else 160).print(table)
    return 0 if git and works and not problem else 1


def _gpus() -> tuple[str, str]:
    import torch

    names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return str(len(names)), ", ".join(names) or "none; the embedded tasks need none"


def _data(task: str, argv: list[str]) -> tuple[str, str]:
    others = [word for word in argv if not word.startswith("task=")]
    try:
        experiment = load_experiment(compose_config([*others, f"task={task}"]))
    except FmlError as error:
        return "broken", str(error)
    spec = experiment.task
    if is_prepared(spec.preparer, spec.sources, experiment.cache_dir):
        return "prepared", ""
    return "not yet", f"made at the first run, or by `python -m fml_hydra tasks prepare {task}`"
