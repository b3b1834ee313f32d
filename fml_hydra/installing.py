"""Making an environment: conda, micromamba, uv or venv make it, pip or uv fills it.

What these programs say when they cannot is turned into one line with a remedy. Not here: whether
an environment has been made already (environment).
"""

import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from fml_hydra.errors import TaskError
from fml_hydra.pythons import run, versions_here

Report = Callable[[str], None]
Kind = Literal["conda", "micromamba", "uv", "venv"]
PATIENCE = 10.0
"""Seconds in which a further index has to answer."""
_OFFERED = 8
"""How many of the versions that an index offers are named."""
_NONE = re.compile(r"satisfies the requirement (\S+) \(from versions: ([^)]*)\)")
_LOCAL = re.compile(r"^([^+]+)\+(cu\d+|cpu|rocm[\d.]+)$")
_CONFLICT = "The conflict is caused by:"
_UV_REASON = re.compile(r"^(╰─▶|cause:)", re.MULTILINE)


@dataclass(frozen=True)
class Recipe:
    """What an environment is made of."""

    kind: Kind
    """Which program makes it."""
    program: str
    """Its path; for `venv` the base interpreter's."""
    base: str
    """A version for conda and micromamba; for uv also a path; venv does not look at it."""
    pins: tuple[str, ...]
    """What is installed, with everything it needs."""
    no_deps: tuple[str, ...]
    """What is installed after that, alone."""
    index_urls: tuple[str, ...]
    """Indexes beside the usual one."""


def make(recipe: Recipe, home: Path, report: Report) -> None:
    """Make an environment in `home`; nothing of it is left when this fails.

    A further index that cannot be reached is left out, and `report` hears of it: then the usual
    index's build of the same version is installed.

    Raises TaskError in one line, with what could be had instead; all that was printed is then in
    a `.log` file beside `home`.
    """
    recipe = replace(recipe, index_urls=_reachable(recipe.index_urls, report))
    try:
        _run(_create(recipe, home), recipe, home, _no_python)
        for packages, more in ((recipe.pins, ()), (recipe.no_deps, ("--no-deps",))):
            if packages:
                _run([*_install(recipe, home), *more, *packages], recipe, home, _explained)
    except TaskError:
        shutil.rmtree(home, ignore_errors=True)
        raise


def _reachable(urls: Sequence[str], report: Report) -> tuple[str, ...]:
    """pip would ask an index that is away five times for every single package."""
    import requests  # costs a tenth of a second, seldom needed

    there = []
    for url in urls:
        try:
            if urlsplit(url).scheme in ("http", "https"):
                requests.head(url, timeout=PATIENCE)
            there.append(url)
        except requests.RequestException:
            report(f"{url} cannot be reached: the builds of the usual index are installed")
    return tuple(there)


def python_in(home: Path) -> Path:
    """The interpreter of an environment."""
    return home / "bin" / "python"


def _create(recipe: Recipe, home: Path) -> list[str]:
    if recipe.kind == "venv":
        return [recipe.program, "-m", "venv", str(home)]
    if recipe.kind == "uv":
        return [recipe.program, "venv", "--quiet", "--python", recipe.base, str(home)]
    python = f"python={recipe.base}"
    return [recipe.program, "create", "--yes", "--quiet", "--prefix", str(home), python, "pip"]


def _install(recipe: Recipe, home: Path) -> list[str]:
    python = str(python_in(home))
    indexes = [word for url in recipe.index_urls for word in ("--extra-index-url", url)]
    if recipe.kind != "uv":
        pip = [python, "-m", "pip", "--disable-pip-version-check", "--no-input"]
        return [*pip, "install", "--progress-bar", "off", *indexes]
    if indexes:  # as pip does: otherwise an index that has an old numpy hides all the others
        indexes += ["--index-strategy", "unsafe-best-match"]
    return [recipe.program, "pip", "install", "--quiet", "--python", python, *indexes]


def _run(
    argv: Sequence[str], recipe: Recipe, home: Path, explained: Callable[[str, Recipe], str]
) -> None:
    done = run(argv)
    if done.returncode:
        log = home.with_name(f"{home.name}.log")
        log.write_text(f"{' '.join(argv)}\n{done.stdout}{done.stderr}")
        raise TaskError(f"{explained(done.stdout + done.stderr, recipe)} (all of it: {log})")


def _no_python(told: str, recipe: Recipe) -> str:
    """Why there is no environment with the wanted Python, and which Pythons there are."""
    why = f"{recipe.kind} makes no environment with Python {recipe.base}: {_error(_lines(told))}"
    return (
        f"env.python: {why}; override task.env.python (found here: {versions_here()}) or "
        "task.env.manager"
    )


def _explained(told: str, recipe: Recipe) -> str:
    """One line of what a package manager said, and what to do about it."""
    lines = _lines(told)
    if unmet := _NONE.search(told):
        return _unmet(unmet[1], unmet[2], told, recipe)
    if _CONFLICT in lines:
        causes = lines[lines.index(_CONFLICT) + 1 :]
        end = next((n for n, x in enumerate(causes) if x.startswith(("To fix", "Add"))), None)
        why = "; ".join(causes[:end])
        remedy = _plain(why, recipe) or "; override task.env.pins"
        return f"env: what is to be installed contradicts itself: {why}{remedy}"
    if reason := _UV_REASON.search("\n".join(lines)):
        text = " ".join("\n".join(lines)[reason.end() :].split()).rstrip(".")
        return f"env: uv: {text}{_plain(text, recipe) or '; override task.env.pins'}"
    return f"env: {recipe.kind} failed: {_error(lines)}"


def _lines(told: str) -> list[str]:
    return [line.strip() for line in told.splitlines() if line.strip()] or ["no message"]


def _error(lines: Sequence[str]) -> str:
    """The line that says most."""
    errors = [line for line in lines if "error" in line.lower()]
    last = ([line for line in errors if line.startswith("ERROR")] or errors or lines)[-1]
    return last.removeprefix("ERROR: ")


def _unmet(pin: str, versions: str, told: str, recipe: Recipe) -> str:
    offered = [v for v in versions.split(", ") if v != "none"]
    if offered:
        more = "..., " if len(offered) > _OFFERED else ""
        there = f"there are {more}{', '.join(offered[-_OFFERED:])}"
    elif "Requires-Python" in told:
        there = "none of its versions is for this Python; override task.env.python"
    else:
        there = "no version of it is offered here"
    return f"env: {pin} cannot be had: {there}{_plain(pin, recipe)}"


def _plain(text: str, recipe: Recipe) -> str:
    """For pins of a CUDA build (`+cu113`): the override that takes the plain build instead."""
    local = [pin for pin in recipe.pins if _LOCAL.match(pin) and pin in text]
    if not local:
        return ""
    pins = ",".join(f'"{_LOCAL.sub(chr(92) + "1", pin)}"' for pin in recipe.pins)
    urls = "" if recipe.index_urls else "give the index of these builds in task.env.index_urls, or "
    return f"; {urls}take the plain build: 'task.env.pins=[{pins}]'"
