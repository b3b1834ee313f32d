"""Finding Pythons and environments that are on this machine already.

Not here: making environments (installing), and which one a task wants (environment).
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from fml_hydra.errors import TaskError

_ANY = "python3.[0-9]*"
_CONDAS = {"conda": "CONDA_EXE", "micromamba": "MAMBA_EXE"}
"""Programs that know environments by name, and where their shell functions keep the real path."""
_INSTALLED = """
import importlib.metadata as found
names = {(d.metadata["Name"], d.version) for d in found.distributions()}
print("\\n".join(f"{n}=={v}" for n, v in names if n and n.lower() != "pip"))
"""


def named_python(name: str) -> Path:
    """The Python of the conda environment `name`; raises TaskError with what there is instead."""
    there: dict[str, Path] = {}
    programs = [path for kind in _CONDAS if (path := program(kind))]
    for conda in programs:
        there |= {prefix.name: prefix for prefix in _environments(conda)}
    if not programs:
        raise TaskError(
            f"env.name: {name!r} cannot be looked up, neither conda nor micromamba is on PATH; "
            "give the path of its interpreter: task.env.name= task.env.python=/path/to/bin/python"
        )
    if name not in there:
        known = ", ".join(sorted(there)) or "none"
        raise TaskError(f"env.name: there is no environment {name!r} (found: {known})")
    return there[name] / "bin" / "python"


def _environments(conda: str) -> list[Path]:
    told = call([conda, "env", "list", "--json"])
    try:
        return [Path(prefix) for prefix in json.loads(told)["envs"]]
    except (ValueError, KeyError) as error:
        raise TaskError(f"env.name: `{conda} env list --json` lists no environments") from error


def program(kind: str) -> str:
    """The path of conda, micromamba or uv, or nothing."""
    behind = os.environ.get(_CONDAS.get(kind, ""), "")
    return shutil.which(kind) or (behind if os.access(behind, os.X_OK) else "")


def python_at(path: str) -> Path:
    """An interpreter by its path; raises TaskError if it cannot be run."""
    python = Path(path).expanduser().absolute()
    if not (python.is_file() and os.access(python, os.X_OK)):
        raise TaskError(f"env.python: {path} is not an executable file; correct the path")
    return python


def python_of(wanted: str) -> Path | None:
    """The newest Python here of a version such as `3.10` or `3.10.4`; None if there is none."""
    # every Python that is asked costs a process: only those whose name fits
    named = f"python{'.'.join(wanted.split('.')[:2])}" if "." in wanted else _ANY
    found = dict(_interpreters(named))
    fitting = [v for v in found if v == wanted or v.startswith(f"{wanted}.")]
    return found[max(fitting, key=_numbers)] if fitting else None


def versions_here() -> str:
    """The versions of all Pythons on this machine, for a message."""
    return ", ".join(sorted(dict(_interpreters(_ANY)), key=_numbers)) or "none"


@cache
def version_of(python: Path) -> str:
    """`3.10.13`, or nothing when it cannot be run."""
    try:
        code = "import platform; print(platform.python_version())"
        return call([str(python), "-I", "-c", code]).strip()
    except TaskError:
        return ""


def packages_of(python: Path) -> tuple[str, ...]:
    """What is installed for an interpreter, as `name==version`, sorted."""
    return tuple(sorted(call([str(python), "-I", "-c", _INSTALLED]).split()))


def call(argv: Sequence[str]) -> str:
    """What a program prints; raises TaskError with its last line when it fails."""
    done = run(argv)
    if done.returncode:
        last = ((done.stderr or done.stdout).strip().splitlines() or ["no message"])[-1]
        raise TaskError(f"env: `{' '.join(argv[:6])} ...` failed: {last.strip()}")
    return done.stdout


def run(argv: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run a program to its end; raises TaskError when it cannot be started."""
    ours = ("VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME")
    env = {k: v for k, v in os.environ.items() if k not in ours}
    env["PYTHONNOUSERSITE"] = "1"  # what lies in ~/.local is not there in a sandbox
    try:
        return subprocess.run(argv, capture_output=True, text=True, check=False, env=env)
    except OSError as error:
        raise TaskError(f"env: {argv[0]} cannot be run: {error.strerror}") from error


def _interpreters(named: str) -> Iterator[tuple[str, Path]]:
    """Version and path of the Pythons of that name on PATH and in the folders of their managers."""
    folders = [Path(folder) for folder in os.get_exec_path()]
    homes = [
        Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser() / "versions",
        Path(os.environ.get("UV_PYTHON_INSTALL_DIR", "~/.local/share/uv/python")).expanduser(),
    ]
    folders += [entry / "bin" for home in homes if home.is_dir() for entry in home.iterdir()]
    condas = Path("~/.conda/environments.txt").expanduser()
    if condas.is_file():
        folders += [Path(line) / "bin" for line in condas.read_text().splitlines() if line]
    for folder in folders:
        for path in sorted(folder.glob(named)):
            if path.name.removeprefix("python3.").isdigit() and (version := version_of(path)):
                yield version, path


def suite_python() -> Path:
    """The interpreter that runs the suite."""
    return Path(sys.executable)


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".") if part.isdigit()]
