"""A wheel carries conf/ and tasks/, runs outside the checkout, hides its tasks from candidates."""

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PEEK = """
import os, sys
PEEKED = [folder for folder, _, files in os.walk(sys.prefix) if "grade.py" in files]
assert not PEEKED, PEEKED
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    command = [*pip, "-w", str(out), str(ROOT)]
    subprocess.run(command, check=True)
    return next(out.glob("*.whl"))


@pytest.fixture(scope="module")
def python(wheel, tmp_path_factory) -> Path:
    """An interpreter that has the wheel, and its dependencies from ours, but not the checkout."""
    home = tmp_path_factory.mktemp("home") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True)
    site = next(home.glob("lib/python*/site-packages"))
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    install = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--target",
        str(site),
    ]
    subprocess.run([*install, str(wheel)], check=True)
    return home / "bin" / "python"


def test_the_wheel_carries_configuration_and_tasks(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    assert "fml_hydra/_conf/config.yaml" in names
    for task in ("causality", "fairness", "generalization"):
        assert f"fml_hydra/_conf/task/{task}.yaml" in names
        assert f"fml_hydra/_tasks/{task}/grade.py" in names
    assert not [n for n in names if "mlruns" in n or n.startswith("tests/")]


def test_it_runs_outside_the_checkout_and_candidates_cannot_see_its_tasks(python, toy, tmp_path):
    own = tmp_path / "own"
    subprocess.run(["cp", "-r", str(toy), str(own)], check=True)
    solution = own / "tasks" / "toy" / "repo" / "solution.py"
    solution.write_text(solution.read_text() + PEEK)
    where = [python, "-c", "import fml_hydra; print(fml_hydra.__file__)"]
    found = subprocess.run(where, capture_output=True, text=True, check=True, cwd=tmp_path).stdout
    assert str(python.parents[1]) in found
    words = [f"tasks_dir={own}/tasks", "task=toy", "budget.steps=1", "tracking=none"]
    words += [f"cache_dir={tmp_path}/cache", "sandbox=bubblewrap"]
    done = subprocess.run(
        [python, "-m", "fml_hydra", "--config-dir", own / "conf", *words],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
        env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "mlruns" / "runs").is_dir()


def test_it_lists_its_own_tasks(python, tmp_path):
    command = [python, "-m", "fml_hydra", "tasks", "list"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=True)
    assert {"causality", "fairness", "generalization"} <= set(done.stdout.split())
