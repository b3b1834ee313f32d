"""Applying and writing: where SEARCH matches, which bytes stay, what is shown."""

import pytest

from fml_hydra.edits import (
    apply_edit,
    diff,
    parse_edit,
    render_files,
    syntax_error,
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


# --- where SEARCH matches -------------------------------------------------------------------------


def test_two_matches_say_how_often_and_where():
    error = str(refusal(block("x = 1", "x = 2"), {"model.py": "x = 1\ny = 2\nx = 1\n"}))
    assert "2 places" in error
    assert "lines 1, 3" in error


def test_an_exact_match_wins_over_folded_ones():
    files = {"model.py": "  x = 1\nx = 1\n"}
    assert run(block("x = 1", "x = 2"), files)["model.py"] == "  x = 1\nx = 2\n"


def test_part_of_a_line_does_not_match():
    assert "matches no lines" in str(refusal(block("RATE = 0", "RATE = 1")))


def test_the_closest_lines_are_shown():
    error = str(refusal(block("def fit(x):\n    y = x * RATES", "")))
    assert "7 |     y = x * RATE" in error


def test_trailing_white_space_is_folded():
    files = {"model.py": "a = 1  \n\t\nb = 2\n"}
    assert run(block("a = 1\n\nb = 2 ", "c = 3"), files)["model.py"] == "c = 3\n"


@pytest.mark.parametrize(
    ("text", "search", "replace", "expected"),
    [
        (
            "    if a:\n        b()\n",
            "if a:\n    b()",
            "if c:\n    d()",
            "    if c:\n        d()\n",
        ),
        ("if a:\n    b()\n", "    if a:\n        b()", "    c()\n\n    d()", "c()\n\nd()\n"),
        ("\tif a:\n\t\tb()\n", "if a:\n\tb()", "if a:\n\tc()", "\tif a:\n\t\tc()\n"),
        ("        b()\n", "    b()", "c()\n    d()", "    c()\n        d()\n"),
        ("    b()\n", "        b()", "  c()\n        d()", "c()\n    d()\n"),
    ],
)
def test_a_common_shift_of_the_indentation(text: str, search: str, replace: str, expected: str):
    assert run(block(search, replace), {"model.py": text})["model.py"] == expected


# --- bytes that stay ------------------------------------------------------------------------------


def test_crlf_files_keep_their_line_ends():
    files = {"model.py": MODEL.replace("\n", "\r\n")}
    expected = MODEL.replace("0.1", "0.3").replace("\n", "\r\n")
    for reply in (
        block("RATE = 0.1", "RATE = 0.3"),
        block("RATE = 0.1", "RATE = 0.3").replace("\n", "\r\n"),
    ):
        assert run(reply, files)["model.py"] == expected
    assert run(WHOLE, files)["model.py"] == "RATE = 0.2\r\n"
    assert (
        run(block("    return y", "    return 1\n    # end"), files)["model.py"].count("\r\n") == 9
    )


def test_crlf_replies_do_not_change_lf_files():
    assert run(block("RATE = 0.1", "RATE = 0.3").replace("\n", "\r\n"))[
        "model.py"
    ] == MODEL.replace("0.1", "0.3")


@pytest.mark.parametrize("end", ["", "\n", "\n\n"])
def test_the_end_of_the_file_is_kept(end: str):
    files = {"model.py": "a = 1\nb = 2" + end}
    assert run(block("b = 2", "b = 3"), files)["model.py"] == "a = 1\nb = 3" + end
    shown = render_files(files)
    assert run(shown, files) == files


def test_byte_order_mark_tabs_and_mixed_line_ends_are_kept():
    files = {"model.py": "\ufeffa = 1\r\nif a:\n\tb = 2\n"}
    assert run(block("a = 1", "a = 2"), files)["model.py"].startswith("\ufeffa = 2\n")
    assert run(block("\tb = 2", "\tb = 3"), files)["model.py"] == "\ufeffa = 1\r\nif a:\n\tb = 3\n"


# --- writing --------------------------------------------------------------------------------------


def test_render_files_notes_long_files_and_is_read_back():
    files = {"model.py": "x = 1\n" * 501, "utils.py": '"""Use:\n\n```\nf()\n```\n"""\nX = 1\n'}
    shown = render_files(files)
    assert (
        "### FILE: model.py\n(501 lines: change it with SEARCH/REPLACE blocks)\n```python" in shown
    )
    assert "````python" in shown
    assert run(shown, files) == files
    assert "lines:" not in render_files(files, whole_limit=501)


def test_diff_is_unified():
    text = diff({"m.py": "a\nb\n", "same": "x"}, {"m.py": "a\nc", "same": "x"})
    assert text == (
        "--- a/m.py\n+++ b/m.py\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n\\ No newline at end of file\n"
    )
    assert diff({}, {"new": "x\n"}) == "--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+x\n"


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("x = 1\ndef f(:\n", "m.py:2: "),
        ("return 1\n", "m.py:1: 'return' outside function"),
        ("x = '\0'\n", "m.py:1: "),
        ("(" * 5_000 + ")" * 5_000, "m.py:1: "),
        ("-" * 200_000 + "1", "m.py:1: "),
        ("x = " + "9" * 5_000, "m.py:1: "),
    ],
)
def test_syntax_errors_are_located(text: str, start: str):
    assert (syntax_error({"ok.yaml": "a: [", "m.py": text}) or "").startswith(start)


@pytest.mark.filterwarnings("error")
def test_code_that_compiles_has_no_syntax_error():
    assert syntax_error({"m.py": MODEL, "w.py": "\ufeffx = '\\d' is 1\n"}) is None
