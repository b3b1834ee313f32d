"""The command line: `python -m fml_hydra agent=aide task=fairness`, `-m` for sweeps, sub-commands.

Exit codes: 0 all well, 1 a run failed, 2 the configuration is wrong, 130 interrupted.
"""

import importlib
import keyword
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from signal import SIGINT, SIGTERM
from types import FrameType

import hydra
from omegaconf import DictConfig
from rich.console import Console

from fml_hydra.errors import ConfigError, FmlError
from fml_hydra.resources import conf_dir, register_resolvers

COMMANDS = {
    "doctor": "what is there: sandbox, git, GPUs, keys, store, data",
    "tasks": "list, prepare or check tasks",
    "ui": "open the MLflow UI on the right store",
    "report": "tables, figures and a page of what a sweep found",
    "sync": "send to MLflow what has not arrived yet",
    "replay": "run an experiment again from its recording, without a model",
    "export": "write runs in FML-bench's result layout",
    "import": "bring FML-bench's results into MLflow",
    "simulate": "see how agents spend their steps, without a model or a task",
}
_ASKS_HYDRA = {"--help", "-h", "--hydra-help", "--version", "--cfg", "-c", "--info", "-i"}
_ASKS_HYDRA |= {"--shell-completion", "-sc"}

register_resolvers()


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point; exits the process."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        sys.exit(_dispatch(words))
    except ConfigError as error:
        sys.exit(_say_error(error, 2))
    except FmlError as error:
        sys.exit(_say_error(error, 1))
    except KeyboardInterrupt:
        sys.exit(130)


def _dispatch(words: list[str]) -> int:
    if words and words[0] in COMMANDS:
        name = words[0] + "_" * keyword.iskeyword(words[0])
        module = importlib.import_module(f"fml_hydra.commands.{name}")
        command: Callable[[list[str]], int] = module.main
        return command(words[1:])
    asked = [word for word in words if word.partition("=")[0] in _ASKS_HYDRA]
    if asked:
        if {"-m", "--multirun"} & set(words) and asked[0] not in ("--help", "-h"):
            raise ConfigError(f"{asked[0]} shows a single run; leave -m out")
        _hydra(_rewritten(words))
        return 0
    return _run(words)


def _rewritten(words: list[str]) -> list[str]:
    from fml_hydra.overrides import parse

    return parse(words).argv()


def _run(words: list[str]) -> int:
    from fml_hydra.overrides import parse, preflight
    from fml_hydra.progress import Progress, remarks, results
    from fml_hydra.sweep import cells_folder, new_sweep_name, settled

    os.environ["FML_SWEEP"] = new_sweep_name()
    line = parse(words)
    plan = preflight(line)
    root, sweep = Path(plan.config.root), str(plan.config.sweep)
    folder = cells_folder(root, sweep)
    console = Console(width=None if sys.stdout.isatty() else 200)
    with Progress(folder, plan.cells, console):
        interrupted = _run_hydra(line.argv(), folder)
    cells = settled(folder)
    console.print(results(cells))
    _say_where(console, plan.config, root, remarks(cells))
    if interrupted:
        console.print("Interrupted. The same command goes on from here.")
        return 130
    well = len(cells) == plan.cells and all(c.state in {"finished", "skipped"} for c in cells)
    return 0 if well else 1


def _run_hydra(argv: Sequence[str], folder: Path) -> bool:
    """Run the cells; whether that was interrupted."""
    from fml_hydra.sweep import put_down_all

    def interrupt(number: int, frame: FrameType | None) -> None:
        put_down_all(folder)
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (SIGINT, SIGTERM)}
    try:
        _hydra(argv)
    except KeyboardInterrupt:
        return True
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return False


def _say_where(console: Console, config: DictConfig, root: Path, lines: list[str]) -> None:
    from fml_hydra.construct import construct

    tracking = construct(config.tracking)
    lines.append(f"Runs:    {root.absolute()}/runs")
    if tracking.on:
        again = "" if str(root) == "mlruns" else f" root={root}"
        lines.append(f"MLflow:  {tracking.address(root)}")
        lines.append(f"Open it: {sys.executable} -m fml_hydra ui{again}")
    console.print("\n".join(lines), highlight=False, soft_wrap=True)


def _say_error(error: FmlError, code: int) -> int:
    Console(stderr=True).print(
        f"error: {error}", style="red", highlight=False, markup=False, soft_wrap=True
    )
    return code


def _hydra(argv: Sequence[str]) -> None:
    sys.argv = [sys.argv[0], *argv]
    _cell_or_sweep()


@hydra.main(version_base="1.3", config_path=str(conf_dir()), config_name="config")
def _cell_or_sweep(cfg: DictConfig) -> float | None:
    from fml_hydra.sweep import run_cell

    return run_cell(cfg)
