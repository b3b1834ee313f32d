"""Reading replies: every way one can go wrong ends in a named status."""

import pytest

from fml_hydra.edits import (
    PLAN_LIMIT,
    Edit,
    FileEdit,
    apply_edit,
    parse_edit,
)
from fml_hydra.errors import EditError

MODEL = "import math\n\nRATE = 0.1\n\n\ndef fit(x):\n    y = x * RATE\n    return y\n"
FILES = {"model.py": MODEL, "lib/utils.py": "A = 1\n", "utils.py": "B = 2\n"}
TARGETS = tuple(FILES)
WHOLE = "### FILE: model.py\n```python\nRATE = 0.2\n```\n"


def block(search: str, replace: str, path: str = "model.py") -> str:
    return f"### FILE: {path}\n<<<<<<< SEARCH\n{search}\n=======\n{replace}\n>>>>>>> REPLACE\n"


def run(reply: str, files: dict[str, str] | None = None) -> dict[str, str]:
    files = FILES if files is None else files
    return apply_edit(parse_edit(reply, tuple(files)), files)


def refusal(reply: str, files: dict[str, str] | None = None) -> EditError:
    with pytest.raises(EditError) as caught:
        run(reply, files)
    return caught.value


# --- the two forms --------------------------------------------------------------------------------


def test_whole_file_and_plan():
    edit = parse_edit("I double the rate.\n\n" + WHOLE + "\nDone.", TARGETS)
    assert edit == Edit((FileEdit("model.py", "RATE = 0.2\n", ()),), "I double the rate.")
    assert apply_edit(edit, FILES) == {**FILES, "model.py": "RATE = 0.2\n"}


@pytest.mark.parametrize("fence", ["", "```\n", "```python\n", "````diff\n"])
@pytest.mark.parametrize("size", [5, 7, 9])
def test_blocks_fenced_or_not(fence: str, size: int):
    end = fence.rstrip("\n").rstrip("abcdefghijklmnopqrstuvwxyz")
    reply = (
        f"### FILE: model.py\n{fence}{'<' * size} SEARCH\nRATE = 0.1\n{'=' * size}\nRATE = 0.3\n"
        f"{'>' * size} REPLACE\n{end}\n"
    )
    assert run(reply)["model.py"] == MODEL.replace("0.1", "0.3")


def test_all_blocks_of_a_file_are_applied_in_order():
    reply = block("RATE = 0.1", "RATE = 0.3\nSTEPS = 5")
    reply += "<<<<<<< SEARCH\nSTEPS = 5\n=======\nSTEPS = 7\n>>>>>>> REPLACE\n"
    reply += block("    return y", "    return y + STEPS")
    text = run(reply)["model.py"]
    assert "RATE = 0.3\nSTEPS = 7\n" in text
    assert text.endswith("    return y + STEPS\n")


def test_several_files_and_equal_basenames():
    files = run(block("A = 1", "A = 3", "lib/utils.py") + block("B = 2", "B = 4", "utils.py"))
    assert (files["lib/utils.py"], files["utils.py"]) == ("A = 3\n", "B = 4\n")


@pytest.mark.parametrize(
    "header",
    [
        "### FILE: model.py",
        "## FILE: model.py",
        "### File: `model.py`",
        "**FILE: model.py**",
        "**FILE:** `model.py`",
        "File: model.py",
        "File: `model.py`",
        "### FILE: ./model.py",
        "### FILE: a/model.py",
        "### FILE: b/model.py:",
        '### FILE: "model.py"',
    ],
)
def test_spellings_of_a_header(header: str):
    assert run(WHOLE.replace("### FILE: model.py", header))["model.py"] == "RATE = 0.2\n"


def test_a_sentence_that_begins_with_file_is_no_header():
    edit = parse_edit(
        "File: I look at model.py first.\nFile: model.py\nis fine.\n" + WHOLE, TARGETS
    )
    assert edit.plan.startswith("File: I look")
    assert edit.files[0].whole == "RATE = 0.2\n"


@pytest.mark.parametrize(
    "reply", ["```python\nRATE = 9\n```", "<<<<<<< SEARCH\nold\n=======\nRATE = 9\n>>>>>>> REPLACE"]
)
def test_the_only_target_needs_no_header(reply: str):
    assert run("I try nine.\n" + reply, {"m.py": "old\n"}) == {"m.py": "RATE = 9\n"}
    assert parse_edit("I try nine.\n" + reply, ["m.py"]).plan == "I try nine."
    assert "does not say which file" in str(refusal(reply))


# --- thinking and plan ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "thought",
    [
        "<think>maybe\n### FILE: model.py\n```\nno\n```\n</think>\n",
        "Hm. <think>a</think><think>b</think>\n",
        "the opening tag was swallowed\n</think>\n",
    ],
)
def test_thinking_is_dropped(thought: str):
    edit = parse_edit(thought + "I change it.\n" + WHOLE, TARGETS)
    assert edit.files[0].whole == "RATE = 0.2\n"
    assert edit.plan.endswith("I change it.")
    assert "think" not in edit.plan


def test_thinking_inside_code_is_code():
    reply = WHOLE.replace("RATE = 0.2", "TAGS = '''\n<think>\n</think>\n'''")
    assert run(reply)["model.py"] == "TAGS = '''\n<think>\n</think>\n'''\n"


def test_unfinished_thinking_is_no_answer():
    assert refusal("<think>I would write\n" + WHOLE).status == "edit_failed"


def test_plan_is_capped():
    assert len(parse_edit("x" * 5_000 + "\n" + WHOLE, TARGETS).plan) == PLAN_LIMIT


# --- fences ---------------------------------------------------------------------------------------

DOCSTRING = {
    "indented": 'def f():\n    """Use:\n\n    ```python\n    f()\n    ```\n    """\n',
    "with info": '"""Use:\n\n```python\nf()\n```\n"""\nX = 1\n',
    "bare": '"""Use:\n\n```\nf()\n```\n"""\nX = 1\n',
}


@pytest.mark.parametrize("kind", DOCSTRING)
@pytest.mark.parametrize(
    "tail", ["", "\nThat is all.\n", "\n" + block("A = 1", "A = 2", "lib/utils.py")]
)
def test_a_fence_inside_the_code(kind: str, tail: str):
    reply = f"### FILE: model.py\n```python\n{DOCSTRING[kind]}```\n{tail}"
    assert run(reply)["model.py"] == DOCSTRING[kind]


def test_a_header_inside_the_code():
    code = "X = 1\n### FILE: lib/utils.py\nY = 2\n"
    assert run(f"### FILE: model.py\n```python\n{code}```\n")["model.py"] == code


@pytest.mark.parametrize("second", ["```python\nX = 2\n```", "```\nX = 2\n```", "```bash\nls\n```"])
def test_several_code_blocks_are_ambiguous(second: str):
    error = refusal(WHOLE + "or\n" + second)
    assert (error.status, "several code blocks" in str(error)) == ("edit_failed", True)


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        ("", "no code"),
        ("I would rather not.", "no code"),
        ("### FILE: model.py\nNothing to do.", "no code follows"),
        ("### FILE: model.py\n```python\nRATE = 0.2\n", "not closed"),
        (
            "### FILE: model.py\n```python\nX = 1\n" + block("A = 1", "A = 2", "utils.py"),
            "not closed",
        ),
        ("### FILE: model.py\n<<<<<<< SEARCH\nRATE = 0.1\n=======\nRATE", "not finished"),
        ("### FILE: model.py\n<<<<<<< SEARCH\nRATE = 0.1\n", "not finished"),
        ("### FILE: model.py\n```\n" + block("RATE = 0.1", "RATE = 1")[19:], "not closed"),
        ("### FILE: model.py\n<<<<<<< SEARCH\nRATE = 0.1\n>>>>>>> REPLACE", "0 `=======` lines"),
        (block("RATE = 0.1", "a\n=======\nb"), "2 `=======` lines"),
        (block("RATE = 0.1", "b") + ">>>>>>> REPLACE\n", "no `<<<<<<< SEARCH`"),
        (WHOLE + "<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n", "both"),
        (WHOLE + WHOLE, "more than once"),
        (block("a", "b")[19:] + WHOLE, "before the first"),
        (block("", "b"), "empty"),
        (block("RATE = 0.2", "b"), "matches no lines"),
        ("### FILE: model.py\n```\n```\n", "leave model.py empty"),
        ("### FILE: model.py\n```\n\x00\x01\n```\n", "binary"),
        ("### FILE: model.py\n```\n\ud800\n```\n", "UTF-8"),
        (f"### FILE: model.py\n```\n{'x' * 2_000_000}\n```\n", "limit"),
    ],
)
def test_refusals_say_what_is_wrong(reply: str, words: str):
    error = refusal(reply)
    assert error.status == "edit_failed"
    assert words in str(error)


@pytest.mark.parametrize(
    "path",
    ["train.py", "../model.py", "lib/../model.py", "/etc/passwd", "src/model.py", "new.py", "``"],
)
def test_paths_outside_the_targets_are_protected(path: str):
    error = refusal(WHOLE.replace("model.py", path))
    assert error.status == "protected"
    assert "model.py, lib/utils.py, utils.py" in str(error)


def test_apply_refuses_a_file_it_was_not_given():
    edit = parse_edit(WHOLE, TARGETS)
    with pytest.raises(EditError, match=r"model\.py") as caught:
        apply_edit(edit, {"other.py": "x\n"})
    assert caught.value.status == "protected"


def test_emptying_by_blocks_is_refused_and_nothing_is_mutated():
    files = {"m.py": "a\nb\n"}
    assert "empty" in str(
        refusal("### FILE: m.py\n<<<<<<< SEARCH\na\nb\n=======\n>>>>>>> REPLACE", files)
    )
    assert files == {"m.py": "a\nb\n"}
