"""A task's own Python: an interpreter that is there, or an environment made once and kept.

What was really installed is recorded, so that a run can say what it ran with. Not here: which
packages a task needs (its YAML), nor what a sandbox shows of an interpreter.
"""

import json
import os
import platform
import shutil
from collections.abc import Callable
from dataclasses import dataclass as plain_dataclass
from pathlib import Path
from typing import Literal

from filelock import FileLock
from pydantic.dataclasses import dataclass

from fml_hydra.errors import TaskError
from fml_hydra.files import replace_json
from fml_hydra.hashing import value_hash
from fml_hydra.installing import Kind, Recipe, make, python_in
from fml_hydra.knobs import STRICT
from fml_hydra.pythons import (
    named_python,
    packages_of,
    program,
    python_at,
    python_of,
    suite_python,
    version_of,
    versions_here,
)

LOCK = "requirements.lock"
"""File in a task's folder with exact versions of everything; installed instead of the pins."""
_DONE = "fml_hydra.json"
_ORDER: tuple[Kind, ...] = ("conda", "micromamba", "uv", "venv")
Report = Callable[[str], None]


@dataclass(frozen=True, config=STRICT)
class Env:
    """The Python a task's commands run with; empty: the one that runs the suite."""

    python: str = ""
    """A version such as "3.10", or the path of an interpreter (a venv's or conda's, say)."""
    pins: tuple[str, ...] = ()
    """Packages to install, as pip names them; none: the interpreter is used as it is."""
    no_deps: tuple[str, ...] = ()
    """Packages installed after those, without what they depend on."""
    index_urls: tuple[str, ...] = ()
    """Package indexes beside the usual one, for builds such as `torch==1.12.1+cu113`; one that
    cannot be reached is left out, with a notice."""
    name: str = ""
    """A conda environment that is used as it is; nothing else of this counts then."""
    manager: Literal["auto", "conda", "micromamba", "uv", "venv"] = "auto"
    """What makes the environment; `auto`: the first of them that is there."""


@plain_dataclass(frozen=True)
class Interpreter:
    """A Python that is ready."""

    path: Path
    """Its executable."""
    version: str = ""
    """Its version; empty for the suite's own."""
    installed: tuple[str, ...] = ()
    """What is installed in it, with exact versions; empty for the suite's own."""


def ready_python(
    env: Env, task_dir: Path, cache: Path, report: Report = lambda _: None
) -> Interpreter:
    """The interpreter for `env`, its environment made if it is not there yet.

    Safe to call from several processes. Raises TaskError with the remedy when there is no such
    interpreter, or when its packages cannot be installed.
    """
    if not _is_made(env):
        return _as_it_is(env)
    home = _home(env, task_dir, cache)
    home.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{home}.lock"):
        if not (home / _DONE).exists():
            shutil.rmtree(home, ignore_errors=True)  # left over from a kill
            recipe = _recipe(env, task_dir)
            wanted = ", ".join((*env.pins, *env.no_deps))
            base = env.python or platform.python_version()
            report(f"installing {wanted} for Python {base} with {recipe.kind}")
            make(recipe, home, report)
            python = python_in(home)
            done = {"version": version_of(python), "installed": packages_of(python)}
            replace_json(home / _DONE, done)
        done = json.loads((home / _DONE).read_text())
    return Interpreter(python_in(home), done["version"], tuple(done["installed"]))


def is_ready(env: Env, task_dir: Path, cache: Path) -> bool:
    """Whether `ready_python` would find everything there; asks no network."""
    if _is_made(env):
        return (_home(env, task_dir, cache) / _DONE).exists()
    try:
        _as_it_is(env)
    except TaskError:
        return False
    return True


def _is_made(env: Env) -> bool:
    return not env.name and bool(env.pins or env.no_deps)


def _as_it_is(env: Env) -> Interpreter:
    if env.name:
        python = named_python(env.name)
    elif env.python:
        python = _base(env.python)
    else:
        return Interpreter(suite_python())
    return Interpreter(python, version_of(python), packages_of(python))


def _home(env: Env, task_dir: Path, cache: Path) -> Path:
    """Where the environment is kept; finding that out starts no process, except for a path."""
    if os.sep in env.python:
        base = [env.python, version_of(python_at(env.python))]
    else:
        base = [env.python] if env.python else [str(suite_python()), platform.python_version()]
    facts = [*base, env.manager, _wanted(env, task_dir), env.index_urls]
    return cache / "envs" / f"{task_dir.name}-{value_hash(facts)[:16]}"


def _wanted(env: Env, task_dir: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What is installed with, and without what it needs: the lock file's lines if there is one."""
    lock = task_dir / LOCK
    if not lock.exists():
        return env.pins, env.no_deps
    lines = (line.partition("#")[0].strip() for line in lock.read_text().splitlines())
    return (), tuple(filter(None, lines))


def _recipe(env: Env, task_dir: Path) -> Recipe:
    pins, alone = _wanted(env, task_dir)
    kind, base = _manager(env)
    used = str(base) if kind == "venv" else program(kind)
    return Recipe(kind, used, str(base), pins, alone, env.index_urls)


def _manager(env: Env) -> tuple[Kind, Path | str]:
    """Which program makes the environment, and from which Python.

    conda and micromamba bring a Python of the wanted version, uv can, venv needs one that is here.
    """
    brings_its_own = bool(env.python) and os.sep not in env.python
    kinds = _ORDER if env.manager == "auto" else (env.manager,)
    for kind in kinds:
        if kind in ("conda", "micromamba"):
            if program(kind) and brings_its_own:
                return kind, env.python
        elif kind == "venv":
            return kind, _base(env.python)
        elif program(kind):
            found = python_of(env.python) if brings_its_own else _base(env.python)
            return kind, found or env.python
    raise TaskError(
        f"env.manager: {env.manager} is not on PATH"
        if not program(env.manager)
        else f"env.manager: {env.manager} needs a version in env.python, such as 3.10, not a path"
    )


def _base(wanted: str) -> Path:
    """The interpreter named by a path or a version."""
    if not wanted:
        return suite_python()
    if os.sep in wanted:
        return python_at(wanted)
    found = python_of(wanted)
    if found is None:
        raise TaskError(
            f"env.python: there is no Python {wanted} here (found: {versions_here()}); install it "
            f"(for example `uv python install {wanted}` or pyenv), give the path of an "
            "interpreter, or override task.env.python"
        )
    return found
