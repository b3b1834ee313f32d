"""Repositories from elsewhere: cloned at a commit, or stood in for, with a benchmark's files in."""

from pathlib import Path

import pytest
from bench_checkout import Elsewhere, git, make_elsewhere, write

from fml_hydra.checkout import Checkout, StandIns, provenance, ready_checkout
from fml_hydra.errors import TaskError

FILES = {"evaluate.py": "ml_tasks/Line/evaluate.py"}


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Elsewhere:
    return make_elsewhere(tmp_path_factory.mktemp("elsewhere"))


@pytest.fixture
def own(elsewhere: Elsewhere) -> StandIns:
    return StandIns(bench=elsewhere.bench)


@pytest.fixture
def origin(elsewhere: Elsewhere) -> Checkout:
    return Checkout(url=f"file://{elsewhere.bare}", commit=elsewhere.pinned, files=FILES)


def test_a_clone_is_at_the_commit_and_holds_the_benchmarks_files(
    origin: Checkout, own: StandIns, elsewhere: Elsewhere, tmp_path: Path
) -> None:
    assert not origin.is_ready(tmp_path)
    repo = ready_checkout(origin, tmp_path, own)
    assert (repo / "model.py").read_text() == "SLOPE = 0.5\n"
    script = elsewhere.bench / "ml_tasks/Line/evaluate.py"
    assert (repo / "evaluate.py").read_text() == script.read_text()
    assert not (repo / ".git").exists()
    assert provenance(origin, tmp_path)["commit"] == elsewhere.pinned
    assert origin.is_ready(tmp_path)


def test_what_is_there_is_not_fetched_again(
    origin: Checkout, own: StandIns, elsewhere: Elsewhere, tmp_path: Path
) -> None:
    repo = ready_checkout(origin, tmp_path, own)
    before = repo.stat().st_ino
    told: list[str] = []
    assert ready_checkout(origin, tmp_path, StandIns(), told.append) == repo
    assert (told, repo.stat().st_ino) == ([], before)


def test_a_short_commit_and_an_inner_folder(elsewhere: Elsewhere, tmp_path: Path) -> None:
    url, commit = f"file://{elsewhere.bare}", elsewhere.pinned[:7]
    repo = ready_checkout(Checkout(url=url, commit=commit, folder="inner"), tmp_path)
    assert [path.name for path in repo.iterdir()] == ["model.py"]
    assert (repo / "model.py").read_text() == "SLOPE = 0.25\n"


def test_a_stand_in_is_taken_as_it_stands(
    origin: Checkout, elsewhere: Elsewhere, tmp_path: Path
) -> None:
    clone = tmp_path / "mine" / "project"
    git(tmp_path, "clone", "-q", str(elsewhere.bare), str(clone))
    write(clone / "model.py", "SLOPE = 0.7\n")
    own = StandIns(tmp_path / "mine", elsewhere.bench)
    told: list[str] = []
    repo = ready_checkout(origin, tmp_path, own, told.append)
    assert (repo / "model.py").read_text() == "SLOPE = 0.7\n"
    assert "stands in for file://" in told[0]  # it is one commit further
    write(clone / "model.py", "SLOPE = 0.8\n")
    ready_checkout(origin, tmp_path, StandIns())
    assert (repo / "model.py").read_text() == "SLOPE = 0.7\n"
    ready_checkout(origin, tmp_path, own)
    assert (repo / "model.py").read_text() == "SLOPE = 0.8\n"


def test_a_stand_in_at_another_commit_is_refused(
    origin: Checkout, elsewhere: Elsewhere, tmp_path: Path
) -> None:
    other = tmp_path / "mine" / "project"
    write(other / "model.py", "SLOPE = 9\n")
    git(tmp_path, "init", "-q", str(other))
    git(other, "add", ".")
    git(other, "commit", "-qm", "unrelated")
    with pytest.raises(TaskError, match=r"not built on .*git -C .*/project checkout") as caught:
        ready_checkout(origin, tmp_path, StandIns(tmp_path / "mine", elsewhere.bench))
    assert "\n" not in str(caught.value)
    assert not origin.is_ready(tmp_path)


def test_a_folder_without_git_may_stand_in_for_the_benchmark_too(
    origin: Checkout, elsewhere: Elsewhere, tmp_path: Path
) -> None:
    mine = tmp_path / "mine"
    write(mine / "project/model.py", "SLOPE = 0.1\n")
    write(mine / "FML-bench/ml_tasks/Line/evaluate.py", "print('mine')\n")
    repo = ready_checkout(origin, tmp_path, StandIns(mine))
    assert (repo / "evaluate.py").read_text() == "print('mine')\n"
    assert (repo / "model.py").read_text() == "SLOPE = 0.1\n"


def test_another_script_of_the_benchmark_is_put_in_anew(
    origin: Checkout, own: StandIns, tmp_path: Path
) -> None:
    repo = ready_checkout(origin, tmp_path, own)
    write(tmp_path / "other/ml_tasks/Line/evaluate.py", "print('other')\n")
    ready_checkout(origin, tmp_path, StandIns(bench=tmp_path / "other"))
    assert (repo / "evaluate.py").read_text() == "print('other')\n"


@pytest.mark.parametrize(
    ("knobs", "reason"),
    [
        ({"url": "file:///no/such.git"}, r"no/such.git cannot be had: .*repositories_dir=FOLDER"),
        ({"commit": "feed123"}, r"project.git cannot be had: .*feed123"),
        ({"folder": "outer"}, r"has no folder 'outer'"),
        (
            {"files": {"a.py": "ml_tasks/Line/a.py"}},
            r"Line/a.py does not exist; fml_bench_dir",
        ),
        ({"files": {"a.py": "/no/such/a.py"}}, r"origin.files: /no/such/a.py does not exist"),
    ],
)
def test_what_cannot_be_had_is_said_in_one_line(
    elsewhere: Elsewhere, own: StandIns, tmp_path: Path, knobs: dict, reason: str
) -> None:
    facts = {"url": f"file://{elsewhere.bare}", "commit": elsewhere.pinned, **knobs}
    with pytest.raises(TaskError, match=reason) as caught:
        ready_checkout(Checkout(**facts), tmp_path, own)
    assert "\n" not in str(caught.value)
    assert list((tmp_path / "checkouts").glob("*.part")) == []
