"""Archives of every kind; those that would write elsewhere write nothing."""

import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from fml_hydra.errors import DataError
from fml_hydra.unpack import gunzip, unpack

FILES = {"a.txt": b"one", "deep/er/b.txt": b"two"}


def zipped(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def tarred(path: Path, *members: tarfile.TarInfo, **content: bytes) -> Path:
    mode = "w:gz" if path.suffix == ".gz" else "w"
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        for member in members:
            data = content.get("data", b"")
            member.size = len(data) if member.isfile() else 0
            archive.addfile(member, io.BytesIO(data))
    return path


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info


def inside(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def test_a_zip_and_a_compressed_tar(tmp_path: Path) -> None:
    unpack(zipped(tmp_path / "x.zip", FILES), "zip", tmp_path / "zip")
    assert inside(tmp_path / "zip") == FILES
    packed = tarred(tmp_path / "x.tar.gz", *map(member, FILES), data=b"same")
    unpack(packed, "tar", tmp_path / "tar")
    assert inside(tmp_path / "tar") == dict.fromkeys(FILES, b"same")


@pytest.mark.parametrize("name", ["../out.txt", "/out.txt", "deep/../../out.txt", "..\\out.txt"])
def test_a_member_that_would_lie_outside(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "in" / "here"
    for form, archive in (
        ("zip", zipped(tmp_path / "x.zip", {name: b"evil"})),
        ("tar", tarred(tmp_path / "x.tar", member(name), data=b"evil")),
    ):
        with pytest.raises(DataError, match="would lie outside the folder"):
            unpack(archive, form, folder)  # type: ignore[arg-type]
    assert inside(tmp_path / "in") == {}


@pytest.mark.parametrize(
    "odd",
    [
        member("link", tarfile.SYMTYPE, "/etc/passwd"),
        member("link", tarfile.SYMTYPE, "../../out"),
        member("link", tarfile.LNKTYPE, "../../out"),
        member("device", tarfile.CHRTYPE),
    ],
)
def test_links_that_lead_out_and_devices(tmp_path: Path, odd: tarfile.TarInfo) -> None:
    archive = tarred(tmp_path / "x.tar", odd)
    with pytest.raises(DataError, match=r"x\.tar: "):
        unpack(archive, "tar", tmp_path / "in")
    assert list((tmp_path / "in").iterdir()) == []


def test_a_link_that_stays_inside_is_kept(tmp_path: Path) -> None:
    archive = tarred(tmp_path / "x.tar", member("a"), member("b", tarfile.SYMTYPE, "a"), data=b"1")
    unpack(archive, "tar", tmp_path / "in")
    assert inside(tmp_path / "in") == {"a": b"1", "b": b"1"}


@pytest.mark.parametrize("form", ["zip", "tar"])
def test_damage_is_one_line_with_the_archives_name(tmp_path: Path, form: str) -> None:
    archive = tmp_path / "x.bin"
    archive.write_bytes(b"no archive")
    with pytest.raises(DataError, match=r"^x\.bin: .+$"):
        unpack(archive, form, tmp_path / "in")  # type: ignore[arg-type]
    with pytest.raises(DataError, match=r"^x\.bin: .+$"):
        gunzip(archive, tmp_path / "x")
