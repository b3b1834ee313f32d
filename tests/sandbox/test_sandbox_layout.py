"""What is mounted and what is masked, for virtual environments wherever they lie."""

import sys
from pathlib import Path

import pytest
from sandbox_bench import Bench

from fml_hydra.errors import SandboxError
from fml_hydra.sandbox import Mount
from fml_hydra.sandbox.interpreter import interpreter

BASE = Path(sys.executable).resolve()
LIB = f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout whose virtual environment holds this package, installed from a wheel."""
    packages = tmp_path / "checkout/.venv" / LIB
    for name, text in {
        "fml_hydra/__init__.py": "",
        "fml_hydra/_tasks/toy/reference/solution.py": "answer",
        "other/__init__.py": "value = 7",
        "other/data/mnist.csv": "answer",
        "other/data/open.csv": "open",
    }.items():
        (packages / name).parent.mkdir(parents=True, exist_ok=True)
        (packages / name).write_text(text)
    (tmp_path / "checkout/labels.csv").write_text("answer")
    venv = tmp_path / "checkout/.venv"
    (venv / "bin").mkdir()
    (venv / "bin/python").symlink_to(BASE)
    (venv / "pyvenv.cfg").write_text(f"home = {BASE.parent}\n")
    return tmp_path / "checkout"


def test_only_the_environment_of_a_checkout_is_seen(strong: Bench, checkout: Path) -> None:
    packages = checkout / ".venv" / LIB
    hidden = packages / "other/data/mnist.csv"
    done = strong.python(
        """
        import os, sys
        import other
        root, packages, hidden = sys.argv[1:]
        print(other.value, sys.prefix == root + "/.venv", os.listdir(root))
        print(os.listdir(packages + "/fml_hydra"))
        print(open(packages + "/other/data/open.csv").read())
        try: print(repr(open(hidden).read()))
        except OSError as error: print(type(error).__name__)
        try: open(packages + "/fml_hydra/x", "w"); print("written")
        except OSError as error: print(error.strerror)
        """,
        str(checkout),
        str(packages),
        str(hidden),
        python=checkout / ".venv/bin/python",
        hidden=[hidden],
    )
    lines = done.stdout.splitlines()
    assert lines[:3] == ["7 True ['.venv']", "[]", "open"], done.stderr
    assert lines[3] in ("''", "PermissionError")
    assert lines[4] == "Read-only file system"


def test_a_hidden_folder_inside_a_mount_is_empty(strong: Bench) -> None:
    data = strong.slot.parent / "data"
    for name in ("train/x", "val/labels", "val/deep/labels"):
        (data / name).parent.mkdir(parents=True, exist_ok=True)
        (data / name).write_text("answer")
    alias = strong.slot.parent / "alias"
    alias.symlink_to(data / "val")
    done = strong.run(
        ["find", "/data", "/again", "-type", "f"],
        mounts=[Mount(data, "/data"), Mount(data, "/again")],
        hidden=[alias, data / "val/deep", data / "absent", strong.slot.parent / "elsewhere"],
    )
    assert done.stdout.split() == ["/data/train/x", "/again/train/x"], done.stderr


def test_a_hidden_path_covered_by_another_mount_leaves_that_alone(strong: Bench) -> None:
    data, mine = strong.slot.parent / "data", strong.slot.parent / "mine"
    (data / "part").mkdir(parents=True)
    (data / "part/labels").write_text("answer")
    mine.mkdir()
    done = strong.run(
        ["ls", "/data/part"],
        mounts=[Mount(data, "/data"), Mount(mine, "/data/part", writable=True)],
        hidden=[data / "part/labels"],
    )
    assert (done.code, done.stdout) == (0, ""), done.stderr
    assert list(mine.iterdir()) == []


def test_packages_of_the_base_interpreter_are_masked(strong: Bench, checkout: Path) -> None:
    python = checkout / ".venv/bin/python"
    unused = [path for path in interpreter(python).unused if path.is_dir()]
    if not unused:
        pytest.skip("no other interpreter's packages on this machine")
    assert any(any(path.iterdir()) for path in unused)  # there is something to hide
    done = strong.run(["find", *map(str, unused), "-mindepth", "1"], python=python)
    assert (done.code, done.stdout) == (0, ""), done.stderr


def test_an_environment_may_use_its_base_packages(checkout: Path) -> None:
    config = checkout / ".venv/pyvenv.cfg"
    config.write_text(config.read_text() + "include-system-site-packages = true\n")
    base = BASE.parent.parent / LIB
    assert base not in interpreter(checkout / ".venv/bin/python").unused


def test_no_environment_uses_its_own_packages() -> None:
    assert BASE.parent.parent / LIB not in interpreter(BASE).unused


def test_a_link_to_an_interpreter_does_not_mount_its_neighbours(
    strong: Bench, tmp_path: Path
) -> None:
    local = tmp_path / "local"
    (local / "bin").mkdir(parents=True)
    (local / "share").mkdir()
    (local / "share/keyring").write_text("answer")
    (local / "bin/python").symlink_to(BASE)
    facts = interpreter(local / "bin/python")
    assert local not in facts.prefixes
    assert facts.links == (local / "bin/python",)
    done = strong.python(
        "import os, sys; print(sys.executable, os.listdir(sys.argv[1]))",
        str(local),
        python=local / "bin/python",
    )
    assert done.stdout.split() == [f"{local}/bin/python", "['bin']"], done.stderr


def test_conda_keeps_other_environments_out(tmp_path: Path) -> None:
    prefix = tmp_path / "conda"
    for name in ("bin", "conda-meta", "envs/other", "pkgs", "lib/python3.11"):
        (prefix / name).mkdir(parents=True)
    (prefix / "lib/python3.11/os.py").touch()
    (prefix / "bin/python").touch()
    facts = interpreter(prefix / "bin/python")
    assert facts.prefixes == (prefix,)
    assert {prefix / "envs", prefix / "pkgs"} <= set(facts.unused)


@pytest.mark.parametrize("target", ["relative", "/", "/a/../b", ""])
def test_targets_must_be_absolute(strong: Bench, tmp_path: Path, target: str) -> None:
    with pytest.raises(SandboxError, match="not an absolute path"):
        strong.run(["true"], mounts=[Mount(tmp_path, target)])


def test_libraries_find_our_user_and_localhost(strong: Bench) -> None:
    script = "import os, pwd, socket; pwd.getpwuid(os.getuid()); socket.gethostbyname('localhost')"
    done = strong.python(script)
    assert done.code == 0, done.stderr
