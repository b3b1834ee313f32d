"""A task's own Python: found, made once, recorded, refused with a remedy.

pip, venv and the package indexes are real. conda and micromamba are small programs that write down
what they were asked and copy an environment that `venv` made.
"""

import platform
import shutil
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from served import serving

from fml_hydra.environment import Env, Interpreter, is_ready, ready_python
from fml_hydra.errors import TaskError

HERE = "{}.{}".format(*sys.version_info)
MANAGER = "uv" if shutil.which("uv") else "venv"
CONDA = """#!/bin/sh
echo "${{0##*/}} $*" >> {log}
if [ "$1" = env ]; then echo '{{"envs": ["{template}", "/opt/conda/envs/other"]}}'; exit; fi
while [ $# -gt 0 ]; do
  if [ "$1" = --prefix ]; then prefix=$2; fi
  if [ "$1" = python=3.99 ]; then echo "PackagesNotFoundError: python=3.99" >&2; exit 1; fi
  shift
done
cp -al {template} $prefix 2> /dev/null || cp -a {template} $prefix
"""


def wheel(folder: Path, name: str, version: str, *needs: str) -> Path:
    """A package with one module, as a wheel that installs without a network."""
    info = f"{name}-{version}.dist-info"
    path = folder / f"{name}-{version}-py3-none-any.whl"
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    lines += [f"Requires-Dist: {need}" for need in needs]
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{name}.py", f"VERSION = {version!r}\n")
        archive.writestr(f"{info}/METADATA", "\n".join(lines) + "\n")
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    return path


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The only place packages come from."""
    folder = tmp_path_factory.mktemp("wheels")
    wheel(folder, "greeting", "1.0")
    wheel(folder, "greeting", "2.0")
    wheel(folder, "polite", "1.0", "greeting>=2")
    with pytest.MonkeyPatch.context() as patch:
        for prefix in ("PIP", "UV"):
            patch.setenv(f"{prefix}_NO_INDEX", "1")
            patch.setenv(f"{prefix}_FIND_LINKS", str(folder))
        yield folder


@pytest.fixture
def task_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "tasks" / "mine"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture(scope="module")
def made(
    shelf: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[list[Interpreter], list[str]]:
    """Two that wanted the same environment at once: what they got, and what was reported."""
    folder = tmp_path_factory.mktemp("made")
    env, found, said = Env(pins=("greeting==1.0",)), [], []

    def one() -> None:
        found.append(ready_python(env, folder / "mine", folder / "cache", said.append))

    said.append(f"ready: {is_ready(env, folder / 'mine', folder / 'cache')}")
    threads = [threading.Thread(target=one) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    said.append(f"ready: {is_ready(env, folder / 'mine', folder / 'cache')}")
    return found, said


@pytest.fixture(scope="module")
def template(
    made: tuple[list[Interpreter], list[str]], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """An environment with pip and nothing else."""
    folder = tmp_path_factory.mktemp("envs") / "byhand"
    shutil.copytree(made[0][0].path.parents[1], folder, symlinks=True)
    for path in folder.glob("lib/python*/site-packages/greeting*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    (folder / "fml_hydra.json").unlink()
    return folder


@pytest.fixture
def asked(tmp_path: Path) -> Callable[[], list[str]]:
    """What conda and micromamba have been asked."""
    return lambda: (tmp_path / "asked").read_text().splitlines()


@pytest.fixture
def install(
    template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], None]:
    """Put a conda or micromamba on a PATH that has no other."""
    programs = tmp_path / "programs"
    programs.mkdir()
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    monkeypatch.delenv("CONDA_EXE", raising=False)
    monkeypatch.delenv("MAMBA_EXE", raising=False)

    def put(name: str) -> None:
        (programs / name).write_text(CONDA.format(log=tmp_path / "asked", template=template))
        (programs / name).chmod(0o755)

    return put


@pytest.fixture
def conda(install: Callable[[str], None]) -> None:
    """A machine with conda."""
    install("conda")


def imported(python: Interpreter) -> str:
    code = "import greeting; print(greeting.VERSION)"
    return subprocess.run([python.path, "-c", code], capture_output=True, text=True).stdout.strip()


def test_by_default_it_is_ours(task_dir: Path, tmp_path: Path) -> None:
    assert ready_python(Env(), task_dir, tmp_path) == Interpreter(Path(sys.executable))
    assert is_ready(Env(), task_dir, tmp_path)


def test_pins_make_an_environment_once_and_are_recorded(
    made: tuple[list[Interpreter], list[str]],
) -> None:
    found, said = made
    assert found[0] == found[1]
    assert "greeting==1.0" in found[0].installed
    assert found[0].version == platform.python_version()
    assert imported(found[0]) == "1.0"
    installing = f"installing greeting==1.0 for Python {found[0].version} with {MANAGER}"
    assert said == ["ready: False", installing, "ready: True"]


@pytest.mark.usefixtures("conda")
def test_a_lock_file_decides_and_one_half_made_is_made_again(
    shelf: Path, task_dir: Path, tmp_path: Path
) -> None:
    (task_dir / "requirements.lock").write_text("# exact\ngreeting==1.0  # kept back\n")
    env = Env(python=HERE, pins=("greeting",))
    python = ready_python(env, task_dir, tmp_path / "cache")
    assert "greeting==1.0" in python.installed
    home = python.path.parents[1]
    (home / "fml_hydra.json").unlink()
    (home / "bin" / "python").unlink()
    assert not is_ready(env, task_dir, tmp_path / "cache")
    assert imported(ready_python(env, task_dir, tmp_path / "cache")) == "1.0"


# --- conda and micromamba


def test_conda_brings_the_python_and_pip_the_packages(
    shelf: Path, task_dir: Path, tmp_path: Path, install, asked
) -> None:
    install("conda")
    install("micromamba")
    env = Env(python=HERE, pins=("greeting==1.0",), no_deps=("polite",))
    said: list[str] = []
    python = ready_python(env, task_dir, tmp_path / "cache", said.append)
    assert said == [f"installing greeting==1.0, polite for Python {HERE} with conda"]
    home = python.path.parents[1]
    assert asked() == [f"conda create --yes --quiet --prefix {home} python={HERE} pip"]
    assert {"greeting==1.0", "polite==1.0"} <= set(python.installed)  # which wants greeting>=2
    assert imported(python) == "1.0"


def test_without_conda_it_is_micromamba(
    shelf: Path, task_dir: Path, tmp_path: Path, install, asked
) -> None:
    install("micromamba")
    env = Env(python=HERE, pins=("greeting==2.0",))
    assert "greeting==2.0" in ready_python(env, task_dir, tmp_path / "cache").installed
    assert asked()[0].startswith("micromamba create ")


@pytest.mark.parametrize("variable", ["CONDA_EXE", "MAMBA_EXE"])
def test_a_shell_function_tells_where_its_program_is(
    task_dir: Path, tmp_path: Path, template: Path, install, monkeypatch, variable: str
) -> None:
    install("conda")
    monkeypatch.setenv(variable, str(tmp_path / "programs" / "conda"))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    python = ready_python(Env(name="byhand"), task_dir, tmp_path)
    assert python.path == template / "bin" / "python"


def test_an_environment_by_name_is_used_as_it_is(
    task_dir: Path, tmp_path: Path, template: Path, install, asked
) -> None:
    install("conda")
    env = Env(name="byhand", python="3.4", pins=("no-such-package",))
    assert is_ready(env, task_dir, tmp_path)
    python = ready_python(env, task_dir, tmp_path)
    assert python.path == template / "bin" / "python"
    assert python.version == platform.python_version()
    assert set(asked()) == {"conda env list --json"}
    with pytest.raises(TaskError, match=r"no environment 'theirs' \(found: byhand, other\)"):
        ready_python(Env(name="theirs"), task_dir, tmp_path)
    assert not is_ready(Env(name="theirs"), task_dir, tmp_path)


@pytest.mark.usefixtures("install")
def test_names_and_managers_that_nobody_knows_are_refused(task_dir: Path, tmp_path: Path) -> None:
    for env, reason in (
        (Env(name="byhand"), r"neither conda nor micromamba is on PATH; .* task.env.python=/path"),
        (Env(pins=("x",), python=HERE, manager="conda"), "env.manager: conda is not on PATH"),
    ):
        with pytest.raises(TaskError, match=reason):
            ready_python(env, task_dir, tmp_path)


@pytest.mark.usefixtures("conda")
def test_a_conda_that_lists_nothing_is_named(task_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "programs" / "conda").write_text("#!/bin/sh\necho hello\n")
    with pytest.raises(TaskError, match="conda env list --json` lists no environments"):
        ready_python(Env(name="byhand"), task_dir, tmp_path)


@pytest.mark.usefixtures("conda")
def test_conda_makes_nothing_of_a_path(task_dir: Path, tmp_path: Path) -> None:
    env = Env(python=sys.executable, pins=("x",), manager="conda")
    with pytest.raises(TaskError, match="conda needs a version in env.python"):
        ready_python(env, task_dir, tmp_path)


@pytest.mark.usefixtures("conda")
def test_a_python_that_conda_does_not_have_is_refused_with_those_that_are_here(
    task_dir: Path, tmp_path: Path
) -> None:
    with pytest.raises(TaskError) as caught:
        ready_python(Env(python="3.99", pins=("x",)), task_dir, tmp_path / "cache")
    assert "conda makes no environment with Python 3.99: PackagesNotFoundError" in str(caught.value)
    assert "override task.env.python (found here: " in str(caught.value)
    assert HERE in str(caught.value)


# --- what cannot be installed


@pytest.mark.usefixtures("conda")
@pytest.mark.parametrize(
    ("pins", "reasons"),
    [
        (
            ("no-such-package==1",),
            ["no-such-package==1 cannot be had: no version of it is offered"],
        ),
        (("greeting==3.0",), ["greeting==3.0 cannot be had: there are 1.0, 2.0"]),
        (
            ("greeting==1.0", "polite==1.0"),
            ["contradicts itself: ", "polite 1.0 depends on greeting>=2", "override task.env.pins"],
        ),
        (
            ("polite", "greeting==2.0+cu113"),
            [
                "greeting==2.0+cu113",
                "task.env.index_urls",
                'task.env.pins=["polite","greeting==2.0"]',
            ],
        ),
    ],
)
def test_what_cannot_be_installed_is_one_line_and_leaves_nothing(
    shelf: Path, task_dir: Path, tmp_path: Path, pins: tuple[str, ...], reasons: list[str]
) -> None:
    with pytest.raises(TaskError) as caught:
        ready_python(Env(python=HERE, pins=pins), task_dir, tmp_path / "cache")
    for reason in reasons:
        assert reason in str(caught.value)
    assert "\n" not in str(caught.value)
    envs = tmp_path / "cache" / "envs"
    assert [path for path in envs.iterdir() if path.is_dir()] == []
    (log,) = envs.glob("*.log")
    assert str(log) in str(caught.value)


@pytest.mark.usefixtures("conda")
def test_a_further_index_has_builds_of_its_own_and_may_be_away(
    task_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_INDEX", "FIND_LINKS", "EXTRA_INDEX_URL", "CONSTRAINT"):
        monkeypatch.delenv(f"PIP_{name}", raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    with serving() as server:
        server.headers = {"Content-Type": "text/html"}
        for index, version in (("usual", "1.0"), ("cu113", "1.0+cu113")):
            path = wheel(tmp_path, "greeting", version)
            address = path.name.replace("+", "%2B")
            server.files[f"{index}/greeting"] = f"<a href='{address}'>{path.name}</a>".encode()
            server.files[f"{index}/greeting/{address}"] = path.read_bytes()
        monkeypatch.setenv("PIP_INDEX_URL", f"{server.url}/usual")
        away = "http://127.0.0.1:9/cu113"
        said: list[str] = []
        installed = [
            ready_python(
                Env(python=HERE, pins=("greeting==1.0",), index_urls=(url,)),
                task_dir,
                tmp_path / "cache",
                said.append,
            ).installed
            for url in (f"{server.url}/cu113", away)
        ]
    assert "greeting==1.0+cu113" in installed[0]
    assert "greeting==1.0" in installed[1]
    assert said.count(f"{away} cannot be reached: the builds of the usual index are installed") == 1


# --- interpreters that are there


def test_an_interpreter_by_path_and_by_version(task_dir: Path, tmp_path: Path) -> None:
    python = ready_python(Env(python=sys.executable), task_dir, tmp_path)
    assert (python.path, python.version) == (Path(sys.executable), platform.python_version())
    assert f"pytest=={pytest.__version__}" in python.installed
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
    assert not is_ready(Env(python=wanted), task_dir, tmp_path)
