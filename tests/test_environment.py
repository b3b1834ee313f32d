"""A task's own Python: found, made once, recorded, refused with a remedy."""

import subprocess
import sys
import threading
import zipfile
from pathlib import Path

import pytest

from fml_hydra.environment import Env, Interpreter, ready_python
from fml_hydra.errors import TaskError

HERE = "{}.{}".format(*sys.version_info)


def wheel(folder: Path, name: str, version: str) -> None:
    """A package with one module, as a wheel that installs without a network."""
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        archive.writestr(f"{name}.py", f"VERSION = {version!r}\n")
        archive.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        )
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only place packages come from."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    for prefix in ("PIP", "UV"):
        monkeypatch.setenv(f"{prefix}_NO_INDEX", "1")
        monkeypatch.setenv(f"{prefix}_FIND_LINKS", str(folder))
    wheel(folder, "greeting", "1.0")
    wheel(folder, "greeting", "2.0")
    return folder


@pytest.fixture
def task_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "tasks" / "mine"
    folder.mkdir(parents=True)
    return folder


def imported(python: Interpreter) -> str:
    code = "import greeting; print(greeting.VERSION)"
    return subprocess.run([python.path, "-c", code], capture_output=True, text=True).stdout.strip()


def test_by_default_it_is_ours(task_dir: Path, tmp_path: Path) -> None:
    assert ready_python(Env(), task_dir, tmp_path) == Interpreter(Path(sys.executable))


def test_pins_make_an_environment_once_and_are_recorded(
    shelf: Path, task_dir: Path, tmp_path: Path
) -> None:
    said: list[str] = []
    env = Env(pins=("greeting==1.0",))
    found: list[Interpreter] = []

    def one() -> None:
        found.append(ready_python(env, task_dir, tmp_path / "cache", said.append))

    threads = [threading.Thread(target=one) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found[0] == found[1]
    assert found[0].installed == ("greeting==1.0",)
    assert found[0].version == "{}.{}.{}".format(*sys.version_info)
    assert imported(found[0]) == "1.0"
    assert said == [f"installing greeting==1.0 for Python {found[0].version}"]


def test_a_lock_file_decides_and_one_half_made_is_made_again(
    shelf: Path, task_dir: Path, tmp_path: Path
) -> None:
    (task_dir / "requirements.lock").write_text("# exact\ngreeting==1.0  # kept back\n")
    env = Env(pins=("greeting",))
    python = ready_python(env, task_dir, tmp_path / "cache")
    assert python.installed == ("greeting==1.0",)
    home = python.path.parents[1]
    (home / "fml_hydra.json").unlink()
    (home / "bin" / "python").unlink()
    assert imported(ready_python(env, task_dir, tmp_path / "cache")) == "1.0"


def test_what_cannot_be_installed_is_one_line_and_leaves_nothing(
    shelf: Path, task_dir: Path, tmp_path: Path
) -> None:
    with pytest.raises(TaskError) as caught:
        ready_python(Env(pins=("no-such-package==1",)), task_dir, tmp_path / "cache")
    assert "no-such-package" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert [p for p in (tmp_path / "cache" / "envs").iterdir() if p.is_dir()] == []


def test_an_interpreter_by_path_and_by_version(task_dir: Path, tmp_path: Path) -> None:
    python = ready_python(Env(python=sys.executable), task_dir, tmp_path)
    assert python == Interpreter(Path(sys.executable), "{}.{}.{}".format(*sys.version_info))
    found = ready_python(Env(python=HERE), task_dir, tmp_path)
    assert found.version.startswith(f"{HERE}.")


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        ("3.99", "there is no Python 3.99 here (found: "),
        ("/no/such/python", "/no/such/python is not an executable file"),
        ("2", "there is no Python 2 here"),
    ],
)
def test_an_interpreter_that_is_not_there_is_refused_with_a_remedy(
    task_dir: Path, tmp_path: Path, wanted: str, reason: str
) -> None:
    with pytest.raises(TaskError) as caught:
        ready_python(Env(python=wanted), task_dir, tmp_path)
    assert reason in str(caught.value)
