"""Repositories pinned at one commit, and slots of them; real git in tmp_path."""

import os
import stat
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fml_hydra.errors import InfraError
from fml_hydra.trees import remove_tree
from fml_hydra.workspace import Workspace


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A repository of files, as a task has it."""
    folder = tmp_path / "task" / "repo"
    (folder / "pkg").mkdir(parents=True)
    (folder / "run.py").write_text("print('run')\n")
    (folder / "pkg" / "eval.py").write_text("print('eval')\n")
    (folder / "dos.txt").write_bytes(b"a\r\nb\r\n")
    (folder / "raw.bin").write_bytes(bytes(range(256)))
    (folder / "tool.sh").write_text("#!/bin/sh\n")
    (folder / "tool.sh").chmod(0o755)
    (folder / ".gitignore").write_text("*.bin\n")
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "run.pyc").write_bytes(b"")
    return folder


@pytest.fixture
def workspace(repo: Path, tmp_path: Path) -> Workspace:
    return Workspace.open(repo, ("run.py", "pkg/eval.py"), tmp_path / "cache")


def files(folder: Path) -> dict[str, bytes]:
    return {
        p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()
    }


def test_a_slot_holds_the_files_byte_for_byte_and_no_git(
    workspace: Workspace, repo: Path, tmp_path: Path
) -> None:
    with workspace.slot(tmp_path / "slots", {}) as slot:
        got = files(slot.repo)
        assert os.access(slot.repo / "tool.sh", os.X_OK)
        assert list(slot.out.iterdir()) == list(slot.home.iterdir()) == []
        assert not list(slot.root.rglob(".git"))
    assert got == {k: v for k, v in files(repo).items() if "__pycache__" not in k}


def test_a_slot_is_fresh_random_and_removed(workspace: Workspace, tmp_path: Path) -> None:
    names = []
    for _ in range(2):
        with workspace.slot(tmp_path / "slots", {"run.py": "changed\n"}) as slot:
            assert (slot.repo / "run.py").read_text() == "changed\n"
            (slot.repo / "left.py").touch()
            names.append(slot.root.name)
        with workspace.slot(tmp_path / "slots", {}) as slot:
            assert (slot.repo / "run.py").read_text() == "print('run')\n"
            assert not (slot.repo / "left.py").exists()
    assert len(set(names)) == 2
    assert list((tmp_path / "slots").iterdir()) == []


def test_files_are_written_as_they_are(workspace: Workspace, tmp_path: Path) -> None:
    text = "a\r\nb\n\u00fc \U0001f600"
    with workspace.slot(tmp_path / "slots", {"run.py": text}) as slot:
        assert (slot.repo / "run.py").read_bytes() == text.encode()


def test_the_same_files_are_the_same_commit_everywhere(
    workspace: Workspace, repo: Path, tmp_path: Path
) -> None:
    other = Workspace.open(repo, (), tmp_path / "another cache")
    assert other.commit == workspace.commit
    assert Workspace.open(repo, (), tmp_path / "cache").commit == workspace.commit
    (repo / "run.py").write_text("print('other')\n")
    assert Workspace.open(repo, (), tmp_path / "cache").commit != workspace.commit


def test_one_commit_no_remotes_and_nothing_of_the_users_git(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "gitconfig"
    config.write_text("[core]\n\tautocrlf = true\n[commit]\n\tgpgsign = true\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    workspace = Workspace.open(repo, (), tmp_path / "cache")
    (home,) = [p for p in (tmp_path / "cache" / "workspaces").iterdir() if p.is_dir()]

    def git(*words: str) -> str:
        return subprocess.run(
            ["git", "-C", str(home), *words], check=True, capture_output=True, text=True
        ).stdout

    assert git("log", "--all", "--format=%H %an %s").split("\n")[:-1] == [
        f"{workspace.commit} fml_hydra pinned"
    ]
    assert git("remote") == git("tag") == ""
    with workspace.slot(tmp_path / "slots", {}) as slot:
        assert (slot.repo / "dos.txt").read_bytes() == b"a\r\nb\r\n"


def test_a_half_made_workspace_is_made_again(repo: Path, tmp_path: Path) -> None:
    whole = Workspace.open(repo, (), tmp_path / "cache")
    (home,) = [p for p in (tmp_path / "cache" / "workspaces").iterdir() if p.is_dir()]
    (home / ".git" / "pinned").unlink()
    (home / "run.py").write_text("half")
    again = Workspace.open(repo, (), tmp_path / "cache")
    assert again.commit == whole.commit
    with again.slot(tmp_path / "slots", {}) as slot:
        assert (slot.repo / "run.py").read_text() == "print('run')\n"


def test_pinned_files_that_somebody_changed_are_pinned_again(repo: Path, tmp_path: Path) -> None:
    whole = Workspace.open(repo, (), tmp_path / "cache")
    (home,) = [p for p in (tmp_path / "cache" / "workspaces").iterdir() if p.is_dir()]
    for spoil in (
        lambda: (home / "run.py").write_text("print('won')\n"),
        lambda: (home / "pkg" / "eval.py").unlink(),
    ):
        spoil()
        again = Workspace.open(repo, (), tmp_path / "cache")
        assert again.commit == whole.commit
        with again.slot(tmp_path / "slots", {}) as slot:
            assert (slot.repo / "run.py").read_text() == "print('run')\n"
            assert (slot.repo / "pkg" / "eval.py").exists()


def test_a_slot_is_no_way_to_the_pinned_files(workspace: Workspace, tmp_path: Path) -> None:
    with workspace.slot(tmp_path / "slots", {}) as slot:
        with (slot.repo / "run.py").open("r+") as file:
            file.write("hacked")
        (slot.repo / "raw.bin").write_bytes(b"")
    with workspace.slot(tmp_path / "slots", {}) as slot:
        assert (slot.repo / "run.py").read_text() == "print('run')\n"
        assert (slot.repo / "raw.bin").read_bytes() == bytes(range(256))


def test_our_own_change_to_a_protected_file_is_what_must_not_be_touched(
    workspace: Workspace, tmp_path: Path
) -> None:
    with workspace.slot(tmp_path / "slots", {}, {"run.py": "print('seed 2')\n"}) as slot:
        assert workspace.touched(slot) == []
        (slot.repo / "run.py").write_text("print('run')\n")  # the commit's, but not ours
        assert workspace.touched(slot) == ["run.py"]
    with workspace.slot(tmp_path / "slots", {}) as slot:
        assert workspace.touched(slot) == []


def test_several_open_and_use_it_at_once(repo: Path, tmp_path: Path) -> None:
    def work(number: int) -> tuple[str, str]:
        workspace = Workspace.open(repo, ("run.py",), tmp_path / "cache")
        with workspace.slot(tmp_path / "slots", {"tool.sh": str(number)}) as slot:
            return workspace.commit, (slot.repo / "tool.sh").read_text()

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(work, range(8)))
    assert len({commit for commit, _ in results}) == 1
    assert [text for _, text in results] == [str(n) for n in range(8)]


def replace_by_link(path: Path) -> None:
    path.rename(path.with_name("moved"))
    path.symlink_to("moved")


@pytest.mark.parametrize(
    ("change", "touched"),
    [
        (lambda repo: None, []),
        (lambda repo: (repo / "tool.sh").write_text("changed"), []),
        (lambda repo: (repo / "new.py").write_text("new"), []),
        (lambda repo: (repo / "run.py").write_text("print('run')\n"), []),
        (lambda repo: (repo / "run.py").write_text("print('ran')\n"), ["run.py"]),
        (lambda repo: (repo / "run.py").unlink(), ["run.py"]),
        (lambda repo: replace_by_link(repo / "run.py"), ["run.py"]),
        (lambda repo: replace_by_link(repo / "pkg"), ["pkg/eval.py"]),
        (lambda repo: (repo / "pkg" / "eval.py").chmod(0o777), ["pkg/eval.py"]),
    ],
)
def test_touched_names_the_protected_files_that_are_not_the_commits(
    workspace: Workspace, tmp_path: Path, change, touched: list[str]
) -> None:
    with workspace.slot(tmp_path / "slots", {}) as slot:
        change(slot.repo)
        assert workspace.touched(slot) == touched


def test_a_disk_that_refuses_is_our_fault(workspace: Workspace, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(InfraError, match="no slot can be made"),
        workspace.slot(tmp_path / "file" / "slots", {}),
    ):
        pass
    with pytest.raises(InfraError, match="slot"), workspace.slot(tmp_path / "slots", {"a/b": ""}):
        pass
    assert list((tmp_path / "slots").iterdir()) == []


def test_remove_tree_takes_what_a_candidate_left(tmp_path: Path) -> None:
    root = tmp_path / "slot"
    (root / "closed" / "inner").mkdir(parents=True)
    (root / "closed" / "inner" / "file").touch()
    (root / "closed" / "inner" / "file").chmod(0)
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").touch()
    (root / "link").symlink_to(kept)
    (root / "dangling").symlink_to("/no/such/place")
    os.mkfifo(root / "fifo")
    (root / "closed" / "inner").chmod(0)
    (root / "closed").chmod(0)
    root.chmod(0o500)
    remove_tree(root)
    assert not root.exists()
    assert (kept / "file").exists()
    assert stat.S_IMODE(kept.stat().st_mode) & 0o700 == 0o700
    remove_tree(root)  # twice is fine


def test_what_cannot_be_removed_is_left_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "slot").mkdir()
    (tmp_path / "slot" / "file").touch()

    def refuse(*args: object, **kwargs: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "unlink", refuse)
    remove_tree(tmp_path / "slot")
    assert "could not be deleted: Operation not permitted" in caplog.text
