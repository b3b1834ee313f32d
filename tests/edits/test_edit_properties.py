"""What holds for any text: nothing but EditError, and what is written is read again."""

from hypothesis import example, given
from hypothesis import strategies as st

from fml_hydra.edits import (
    Edit,
    FileEdit,
    Replace,
    apply_edit,
    diff,
    edit_between,
    parse_edit,
    render_edit,
    syntax_error,
)
from fml_hydra.errors import EditError

MODEL = "import math\n\nRATE = 0.1\n\n\ndef fit(x):\n    y = x * RATE\n    return y\n"
FILES = {"model.py": MODEL, "lib/utils.py": "A = 1\n", "utils.py": "B = 2\n"}
TARGETS = tuple(FILES)
TOKENS = st.sampled_from(
    [
        *("<<<<<<< SEARCH", "=======", ">>>>>>> REPLACE", "<<<<< SEARCH", "=====", ">>>>> REPLACE"),
        *("```", "```python", "````", "### FILE: model.py", "**FILE: x.py**", "File: lib/utils.py"),
        *(
            "RATE = 0.1",
            "    return y",
            "",
            "A = 1",
            "<think>",
            "</think>",
            "\t",
            "\x00",
            "\r",
            "`",
        ),
        *("### FILE: ../x", "    ```", "def fit(x):", "\ufeff", "\u2028", "\x0c"),
    ]
)
TEXTS = st.one_of(
    st.text(), st.lists(st.one_of(TOKENS, st.text(max_size=8)), max_size=14).map("\n".join)
)
LINES = st.lists(
    st.text(st.characters(exclude_characters="\n\r", exclude_categories=["Cs"]), max_size=10),
    min_size=1,
    max_size=6,
).map("\n".join)
NO_MARKS = LINES.filter(lambda text: not any(mark in text for mark in ("<<<<<", "=====", ">>>>>")))
CODE = st.lists(TOKENS, min_size=1, max_size=8).map("\n".join).filter(lambda text: "\r" not in text)
CHANGES = st.one_of(
    st.builds(lambda text: (text + "\n", ()), st.one_of(NO_MARKS, CODE)),
    st.lists(st.builds(Replace, NO_MARKS, NO_MARKS), min_size=1, max_size=3).map(
        lambda blocks: (None, tuple(blocks))
    ),
)


@given(
    st.dictionaries(st.sampled_from(TARGETS), CHANGES, min_size=1),
    st.sampled_from(["", "Why not."]),
)
@example({"model.py": ("### FILE: model.py\n<<<<<<< SEARCH\n", ())}, "")
def test_what_render_writes_parse_reads(changes, plan):
    edit = Edit(tuple(FileEdit(path, *change) for path, change in changes.items()), plan)
    if any(change.whole and first_line_opens(change.whole) for change in edit.files):
        return  # a whole file that begins like a SEARCH block is read as one
    assert parse_edit(render_edit(edit), TARGETS) == edit


def first_line_opens(text: str) -> bool:
    first = next((line for line in text.split("\n") if line.strip()), "")
    return "SEARCH" in first


@given(TEXTS, st.sampled_from([TARGETS, ("model.py",)]))
def test_arbitrary_replies_raise_nothing_but_edit_errors(reply, targets):
    files = {path: FILES[path] for path in targets}
    try:
        after = apply_edit(parse_edit(reply, targets), files)
    except EditError as error:
        status, after = error.status, files
    else:
        status = "ok"
    assert status in ("ok", "edit_failed", "protected")
    assert after.keys() == files.keys()


@given(TEXTS, TEXTS, st.one_of(st.none(), TEXTS), TEXTS)
def test_arbitrary_edits_raise_nothing_but_edit_errors(search, replace, whole, text):
    edit = Edit((FileEdit("m.py", whole, (Replace(search, replace),)),), "")
    try:
        after = apply_edit(edit, {"m.py": text})
    except EditError:
        return
    assert after["m.py"].strip()


@given(TEXTS, TEXTS)
def test_diff_and_syntax_error_take_any_text(before, after):
    assert bool(diff({"m.py": before}, {"m.py": after})) == (before != after)
    syntax_error({"m.py": after})


@given(st.lists(st.sampled_from(["a", "b", "", "  c"]), min_size=1, max_size=12), st.data())
def test_the_edit_between_two_files_makes_one_into_the_other(lines, data):
    changed = data.draw(st.lists(st.sampled_from(["a", "b", "d", "", "  c"]), max_size=12))
    before, after = {"m.py": "\n".join([*lines, "end\n"])}, {"m.py": "\n".join([*changed, "end\n"])}
    edit = edit_between(before, after)
    assert apply_edit(edit, before) == after
    assert bool(edit.files) == (before != after)


def test_the_edit_between_two_files_is_small():
    edit = edit_between(FILES, {**FILES, "model.py": MODEL.replace("0.1", "0.3")}, "Why not.")
    change = FileEdit("model.py", None, (Replace("RATE = 0.1", "RATE = 0.3"),))
    assert edit == Edit((change,), "Why not.")
