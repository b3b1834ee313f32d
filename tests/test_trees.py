"""What a candidate left is taken, put back and cleared without following it anywhere."""

import os
from pathlib import Path

import pytest

from fml_hydra.errors import InvalidOutput
from fml_hydra.trees import clear, copy_file, put, take

MOST = 10**6


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A slot's repository with what a training run leaves."""
    folder = tmp_path / "repo"
    (folder / "checkpoint" / "deep").mkdir(parents=True)
    (folder / "checkpoint" / "deep" / "model.bin").write_bytes(bytes(range(256)) * 100)
    (folder / "checkpoint" / "log.txt").write_text("epoch 1")
    (folder / "best.json").write_text("{}")
    return folder


def content(folder: Path) -> dict[str, bytes]:
    paths = (p for p in folder.rglob("*") if p.is_file())
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in paths}


def test_what_is_taken_is_gone_and_can_be_put_elsewhere_twice(repo: Path, tmp_path: Path) -> None:
    before = content(repo)
    names = ("checkpoint", "best.json", "never_written")
    take(repo, names, tmp_path / "kept", MOST)
    assert content(repo) == {}
    for number in range(2):
        other = tmp_path / f"other{number}"
        (other / "checkpoint").mkdir(parents=True)
        (other / "checkpoint" / "stale").touch()
        put(tmp_path / "kept", names, other)
        assert content(other) == before
        (other / "best.json").write_text("changed")  # and the kept one stays as it is


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda repo, out: (repo / "checkpoint" / "link").symlink_to(out), "checkpoint/link: neit"),
        (lambda repo, out: os.mkfifo(repo / "checkpoint" / "fifo"), "checkpoint/fifo: neither a f"),
        (lambda repo, out: (repo / "other").symlink_to(out), "other: a symbolic link"),
        (lambda repo, out: (repo / "up").symlink_to(out), "up/secret: a symbolic link"),
        (lambda repo, out: os.truncate(repo / "best.json", MOST), "more than 1000000 bytes"),
        (lambda repo, out: os.mkfifo(repo / "other"), "other: neither a file nor a folder"),
    ],
)
def test_what_is_not_plain_or_too_much_is_not_taken(
    repo: Path, tmp_path: Path, spoil, why: str
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("x")
    spoil(repo, outside)
    with pytest.raises(InvalidOutput, match=why):
        take(repo, ("checkpoint", "best.json", "other", "up/secret"), tmp_path / "kept", MOST)
    assert not (tmp_path / "kept").exists()
    assert (repo / "checkpoint" / "log.txt").exists()
    assert (outside / "secret").exists()


def test_many_small_files_count_too(repo: Path, tmp_path: Path) -> None:
    for number in range(300):
        (repo / "checkpoint" / str(number)).touch()
    with pytest.raises(InvalidOutput, match="more than"):
        take(repo, ("checkpoint",), tmp_path / "kept", MOST)


def test_clear_removes_a_file_a_folder_or_the_link_on_the_way(repo: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (outside / "deep").mkdir(parents=True)
    (outside / "deep" / "info.json").write_text("keep me")
    (repo / "up").symlink_to(outside)
    (repo / "best.link").symlink_to(outside / "deep" / "info.json")
    (repo / "checkpoint" / "deep").chmod(0)
    for name in ("best.json", "checkpoint", "up/deep/info.json", "best.link", "no/such", "a"):
        clear(repo, name)
    assert list(repo.iterdir()) == []
    assert content(outside) == {"deep/info.json": b"keep me"}
    (repo / "file").write_text("stays")
    clear(repo, "file/below")
    assert content(repo) == {"file": b"stays"}


def test_a_copy_has_the_bytes_and_is_executable_or_not(tmp_path: Path) -> None:
    for mode, expected in ((0o400, 0o644), (0o500, 0o755)):
        source = tmp_path / f"{mode}"
        source.write_bytes(os.urandom(3 * 2**20))
        source.chmod(mode)
        copy_file(source, tmp_path / "copy")
        assert (tmp_path / "copy").read_bytes() == source.read_bytes()
        assert (tmp_path / "copy").stat().st_mode & 0o777 == expected
        (tmp_path / "copy").unlink()


def test_a_copy_needs_no_help_of_the_kernel(tmp_path: Path, monkeypatch) -> None:
    real = os.copy_file_range

    def once(source: int, destination: int, count: int) -> int:
        if os.lseek(source, 0, os.SEEK_CUR):
            raise OSError(18, "Invalid cross-device link")
        return real(source, destination, 1000)

    (tmp_path / "source").write_bytes(bytes(range(256)) * 40)
    for stand_in in (once, lambda *_: 0):
        monkeypatch.setattr(os, "copy_file_range", stand_in)
        copy_file(tmp_path / "source", tmp_path / "copy")
        assert (tmp_path / "copy").read_bytes() == (tmp_path / "source").read_bytes()
