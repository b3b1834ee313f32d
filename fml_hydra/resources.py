"""Where `conf/` and `tasks/` lie: beside the package in a checkout, inside it in a wheel."""

import os
from collections.abc import Mapping
from pathlib import Path

from omegaconf import OmegaConf
from platformdirs import user_cache_path

PACKAGE = Path(__file__).resolve().parent


def conf_dir() -> Path:
    """The folder of configuration files."""
    return _shipped("conf")


def config_file(key: str, choices: Mapping[str, str], primary: str = "config") -> str:
    """The file a configuration key stands in, given which option each group has.

    `primary` is the file of what is in no group.
    """
    group = key.partition(".")[0]
    return f"conf/{group}/{choices[group]}.yaml" if choices.get(group) else f"conf/{primary}.yaml"


def tasks_dir() -> Path:
    """The folder of the embedded tasks' files."""
    return _shipped("tasks")


def cache_dir() -> Path:
    """Where prepared data and workspaces are kept between runs."""
    return user_cache_path("fml_hydra")


def register_resolvers() -> None:
    """Make `${fml.tasks_dir:}`, `${fml.cache_dir:}` and `${fml.cells_at_once:}` known."""
    OmegaConf.register_new_resolver("fml.tasks_dir", lambda: str(tasks_dir()), replace=True)
    OmegaConf.register_new_resolver("fml.cache_dir", lambda: str(cache_dir()), replace=True)
    OmegaConf.register_new_resolver("fml.cells_at_once", cores, replace=True)


def cores() -> int:
    """Cores this process may use: how many runs go on at a time by default."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _shipped(name: str) -> Path:
    inside = PACKAGE / f"_{name}"
    return inside if inside.is_dir() else PACKAGE.parent / name
