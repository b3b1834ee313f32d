"""The working copy: whatever a program makes of it, it is read safely and mended."""

import os
from pathlib import Path

import pytest

from fml_hydra.external.copy import TARGET_BYTES, WorkingCopy


@pytest.fixture
def copy(tmp_path: Path) -> WorkingCopy:
    pristine = tmp_path / "repo"
    (pristine / "pkg").mkdir(parents=True)
    (pristine / "solution.py").write_text("X = 1\n")
    (pristine / "pkg/model.py").write_bytes(b"Y = 1\r\n")
    (pristine / "pkg/eval.py").write_text("evaluate()\n")
    (pristine / "run.sh").write_text("#!/bin/sh\n")
    (pristine / "run.sh").chmod(0o755)
    made = WorkingCopy(tmp_path / "copy", pristine, ("solution.py", "pkg/model.py"))
    made.make({})
    return made


def test_an_untouched_copy_differs_in_nothing_line_ends_included(copy):
    found = copy.look()
    assert (found.files, found.unreadable, found.touched, found.new) == ({}, {}, (), ())


def test_targets_that_differ_are_read_whole_and_survive_a_new_copy(copy):
    (copy.folder / "pkg/model.py").write_bytes(b"Y = 2\r\n")
    files = copy.look().files
    assert files == {"pkg/model.py": "Y = 2\r\n"}
    copy.make(files)
    assert (copy.folder / "pkg/model.py").read_bytes() == b"Y = 2\r\n"


def test_other_files_are_put_back_with_their_permissions(copy):
    (copy.folder / "run.sh").write_text("rm\n")
    (copy.folder / "run.sh").chmod(0o600)
    (copy.folder / "pkg/eval.py").unlink()
    found = copy.look()
    assert found.touched == ("pkg/eval.py", "run.sh")
    assert copy.look().touched == ()
    assert os.access(copy.folder / "run.sh", os.X_OK)


def test_a_folder_or_a_link_in_a_files_place_is_moved_away(copy, tmp_path):
    outside = tmp_path / "outside"
    outside.write_text("precious")
    (copy.folder / "run.sh").unlink()
    (copy.folder / "run.sh").symlink_to(outside)
    (copy.folder / "pkg/eval.py").unlink()
    (copy.folder / "pkg/eval.py").mkdir()
    assert copy.look().touched == ("pkg/eval.py", "run.sh")
    assert copy.look().touched == ()
    assert outside.read_text() == "precious"


def test_a_linked_folder_is_neither_read_nor_written_through(copy, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "model.py").write_text("secret")
    (outside / "eval.py").write_text("theirs")
    for path in (copy.folder / "pkg").iterdir():
        path.unlink()
    (copy.folder / "pkg").rmdir()
    (copy.folder / "pkg").symlink_to(outside)
    found = copy.look()
    assert found.files == {}
    assert "pkg/model.py" in found.unreadable
    assert found.touched == ("pkg/eval.py",)
    assert (outside / "eval.py").read_text() == "theirs"
    assert not (copy.folder / "pkg").is_symlink()


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda p: p.unlink(), "missing"),
        (lambda p: p.write_bytes(b"\xff\xfe"), "not UTF-8"),
        (lambda p: (p.unlink(), os.mkfifo(p)), "neither file nor link"),
        (lambda p: (p.unlink(), p.symlink_to("/etc/passwd")), "not a plain file"),
        (lambda p: (p.unlink(), p.mkdir()), "not a plain file"),
        (lambda p: p.write_bytes(b"#" * (TARGET_BYTES + 1)), "more than"),
    ],
)
def test_a_target_that_is_no_text_file_is_named_with_the_reason(spoil, why, copy):
    spoil(copy.folder / "solution.py")
    found = copy.look()
    assert why in found.unreadable["solution.py"]
    assert found.files == {}
    copy.make({})
    assert copy.look().unreadable == {}


def test_new_files_are_told_compiled_and_hidden_ones_are_not(copy):
    for name in ("notes.md", "pkg/__pycache__/x.pyc", ".cache/x", "pkg/.tmp", "pkg/helper.py"):
        path = copy.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("")
    assert copy.look().new == ("notes.md", "pkg/helper.py")


def test_a_closed_folder_is_no_way_out(copy):
    if os.geteuid() == 0:
        pytest.skip("root reads everything")
    (copy.folder / "pkg").chmod(0)
    assert copy.look().touched == ("pkg/eval.py",)
    copy.make({})
    assert copy.look().touched == ()
