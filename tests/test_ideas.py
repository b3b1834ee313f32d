"""A task's catalogue: what is read, and what its author is told when it cannot be."""

from pathlib import Path

import pytest

from fml_hydra.edits import FileEdit, Replace
from fml_hydra.errors import TaskError
from fml_hydra.ideas import load_ideas

GOOD = """---
title: Warm-up: a slow start
category: algorithmic
effect: good
rationale: Large steps at the start
  are noisy.
---
### FILE: model.py
<<<<<<< SEARCH
RATE = 0.1
=======
RATE = 0.01
>>>>>>> REPLACE
"""


def write(folder: Path, **texts: str) -> Path:
    for name, text in texts.items():
        (folder / f"{name}.md").write_text(text, encoding="utf-8", newline="")
    return folder


def test_ideas_are_sorted_by_id(tmp_path: Path):
    (tmp_path / "notes.txt").write_text("not an idea")
    ideas = load_ideas(write(tmp_path, b=GOOD.replace("\n", "\r\n"), a=GOOD), ["model.py"])
    assert [idea.id for idea in ideas] == ["a", "b"]
    first, second = ideas
    assert (first.title, first.category, first.effect) == (
        "Warm-up: a slow start",
        "algorithmic",
        "good",
    )
    assert first.rationale == "Large steps at the start are noisy."
    assert first.edit.files == (
        FileEdit("model.py", None, (Replace("RATE = 0.1", "RATE = 0.01"),)),
    )
    assert second.edit == first.edit


def test_no_folder_no_ideas(tmp_path: Path):
    assert load_ideas(tmp_path / "missing", ["model.py"]) == ()


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("---\ntitle", "title", "begin with `---`"),
        ("\n---\n###", "\n###", "begin with `---`"),
        ("effect: good\n", "", "`effect` is missing"),
        ("effect: good", "effect: great", "use one of good, neutral"),
        ("category: algorithmic", "category:", "`category` is missing"),
        ("effect: good", "effect: good\nauthor: me", "`author: me` is not one of"),
        ("effect: good", "effect: good\neffect: good", "is not one of"),
        (">>>>>>> REPLACE", "", "cannot be read"),
        ("FILE: model.py", "FILE: train.py", "train.py may not be edited"),
    ],
)
def test_a_malformed_file_is_named(tmp_path: Path, old: str, new: str, words: str):
    assert old in GOOD
    folder = write(tmp_path, bad=GOOD.replace(old, new, 1))
    with pytest.raises(TaskError) as caught:
        load_ideas(folder, ["model.py"])
    assert str(folder / "bad.md") in str(caught.value)
    assert words in str(caught.value)


def test_a_file_that_is_not_text_is_named(tmp_path: Path):
    (tmp_path / "bad.md").write_bytes(b"---\n\xff\n")
    with pytest.raises(TaskError, match=r"bad\.md: not UTF-8"):
        load_ideas(tmp_path, ["model.py"])
