"""A task's own Python: an interpreter that is there, or an environment made once and kept.

What was really installed is recorded, so that a run can say what it ran with. Not here: which
packages a task needs (its YAML), nor what a sandbox shows of an interpreter.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass as plain_dataclass
from pathlib import Path

from filelock import FileLock
from pydantic.dataclasses import dataclass

from fml_hydra.errors import TaskError
from fml_hydra.files import replace_json
from fml_hydra.hashing import value_hash
from fml_hydra.knobs import STRICT

LOCK = "requirements.lock"
"""File in a task's folder with exact versions of everything; installed instead of the pins."""
_DONE = "fml_hydra.json"
_ANY = "python3.[0-9]*"
Report = Callable[[str], None]


@dataclass(frozen=True, config=STRICT)
class Env:
    """The Python a task's commands run with; empty: the one that runs the suite."""

    python: str = ""
    """A version such as "3.10", or the path of an interpreter (a venv's or conda's, say)."""
    pins: tuple[str, ...] = ()
    """Packages to install, as pip names them; none: the interpreter is used as it is."""


@plain_dataclass(frozen=True)
class Interpreter:
    """A Python that is ready."""

    path: Path
    """Its executable."""
    version: str = ""
    """Its version; empty for the suite's own."""
    installed: tuple[str, ...] = ()
    """What was installed for the task, with exact versions."""


def ready_python(
    env: Env, task_dir: Path, cache: Path, report: Report = lambda _: None
) -> Interpreter:
    """The interpreter for `env`, its environment made if it is not there yet.

    Safe to call from several processes. Raises TaskError with the remedy when there is no such
    interpreter, or when its packages cannot be installed.
    """
    if not env.python and not env.pins:
        return Interpreter(Path(sys.executable))
    base = _base(env.python)
    if not env.pins:
        return Interpreter(base, _version(base))
    wanted = _requirements(env, task_dir)
    key = value_hash([str(base), _version(base), *wanted])[:16]
    home = cache / "envs" / f"{task_dir.name}-{key}"
    home.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{home}.lock"):
        if not (home / _DONE).exists():
            shutil.rmtree(home, ignore_errors=True)  # left over from a kill
            report(f"installing {', '.join(env.pins)} for Python {_version(base)}")
            _make(base, wanted, home)
        done = json.loads((home / _DONE).read_text())
    return Interpreter(_python_in(home), done["version"], tuple(done["installed"]))


def _requirements(env: Env, task_dir: Path) -> list[str]:
    """What pip is given: the lock file's lines if there is one, without looking for more."""
    lock = task_dir / LOCK
    if not lock.exists():
        return list(env.pins)
    lines = (line.partition("#")[0].strip() for line in lock.read_text().splitlines())
    return ["--no-deps", *filter(None, lines)]


def _make(base: Path, wanted: Sequence[str], home: Path) -> None:
    python = _python_in(home)
    uv = shutil.which("uv")
    try:
        if uv:
            _call([uv, "venv", "--quiet", "--python", str(base), str(home)])
            _call([uv, "pip", "install", "--quiet", "--python", str(python), *wanted])
            freeze = [uv, "pip", "freeze", "--python", str(python)]
        else:
            _call([str(base), "-m", "venv", str(home)])
            pip = [str(python), "-m", "pip", "--disable-pip-version-check", "--no-input"]
            _call([*pip, "install", "--quiet", *wanted])
            freeze = [*pip, "freeze"]
        installed = sorted(_call(freeze).split("\n"))
    except TaskError:
        shutil.rmtree(home, ignore_errors=True)
        raise
    done = {"version": _version(python), "installed": [line for line in installed if line]}
    replace_json(home / _DONE, done)


def _python_in(home: Path) -> Path:
    return home / "bin" / "python"


def _base(wanted: str) -> Path:
    """The interpreter named by a path or a version."""
    if not wanted:
        return Path(sys.executable)
    if os.sep in wanted:
        path = Path(wanted).expanduser().absolute()
        if not os.access(path, os.X_OK):
            raise TaskError(f"env.python: {wanted} is not an executable file; correct the path")
        return path
    # every Python that is asked costs a process: only those whose name fits
    named = f"python{'.'.join(wanted.split('.')[:2])}" if "." in wanted else _ANY
    found = dict(_interpreters(named))
    fitting = [v for v in found if v == wanted or v.startswith(f"{wanted}.")]
    if not fitting:
        there = ", ".join(sorted(dict(_interpreters(_ANY)), key=_numbers)) or "none"
        raise TaskError(
            f"env.python: there is no Python {wanted} here (found: {there}); install it (for "
            f"example `uv python install {wanted}` or pyenv), give the path of an interpreter, or "
            "override task.env.python"
        )
    return found[max(fitting, key=_numbers)]


def _interpreters(named: str) -> Iterator[tuple[str, Path]]:
    """Version and path of the Pythons of that name on PATH, in pyenv's and uv's folders."""
    folders = [Path(folder) for folder in os.get_exec_path()]
    homes = [
        Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser() / "versions",
        Path(os.environ.get("UV_PYTHON_INSTALL_DIR", "~/.local/share/uv/python")).expanduser(),
    ]
    folders += [entry / "bin" for home in homes if home.is_dir() for entry in home.iterdir()]
    for folder in folders:
        for path in sorted(folder.glob(named)):
            if path.name.removeprefix("python3.").isdigit() and (version := _version(path)):
                yield version, path


def _version(python: Path) -> str:
    """`3.10.13`, or nothing when it cannot be run."""
    try:
        code = "import platform; print(platform.python_version())"
        return _call([str(python), "-I", "-c", code]).strip()
    except TaskError:
        return ""


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".") if part.isdigit()]


def _call(argv: Sequence[str]) -> str:
    """Run a program; its output. Raises TaskError with its last line when it fails."""
    env = {k: v for k, v in os.environ.items() if k not in ("VIRTUAL_ENV", "PYTHONPATH")}
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False, env=env)
    except OSError as error:
        raise TaskError(f"env: {argv[0]} cannot be run: {error.strerror}") from error
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines() or ["no message"]
        told = next((x for x in lines if "ERROR" in x or "error" in x or "×" in x), lines[-1])
        raise TaskError(f"env: `{' '.join(argv[:6])} ...` failed: {told.strip()}")
    return done.stdout
