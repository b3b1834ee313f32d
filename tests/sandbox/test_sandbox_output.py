"""Output is bounded, clean text, whatever a candidate writes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sandbox_bench import Bench

from fml_hydra.sandbox.output import Capture, clean


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"plain \xc3\xbc\n\ttab", "plain ü\n\ttab"),
        (b"\x1b[1;31mred\x1b[0m", "red"),
        (b"\x1b]0;title\x07x\x1b]8;;http://a\x1b\\link", "xlink"),
        (b"\x1b(Bx\x1bMy\x1b", "xy"),
        (b"a\x00b\x07c\x7f\xc2\x9bd", "abcd"),
        (b"bad \xff\xfe", "bad \ufffd\ufffd"),
        (b"10%\r50%\r100%\nnext\r\n", "100%\nnext\n"),
        (b"<b>&amp;</b>", "<b>&amp;</b>"),
    ],
)
def test_clean(raw: bytes, text: str) -> None:
    assert clean(raw) == text


@given(st.lists(st.binary(max_size=300), max_size=30), st.integers(2, 200))
def test_capture_is_bounded_and_counts_what_it_leaves_out(chunks: list[bytes], cap: int) -> None:
    capture = Capture(cap)
    for chunk in chunks:
        capture.feed(chunk)
    whole, text = b"".join(chunks), capture.text()
    half = cap // 2
    if len(whole) <= 2 * half:
        assert text == clean(whole)
    else:
        left_out = len(whole) - 2 * half
        head, tail = clean(whole[:half]), clean(whole[-half:])
        assert text == f"{head}\n[... {left_out} bytes left out ...]\n{tail}"


@given(st.binary(max_size=500))
def test_no_control_character_is_left(raw: bytes) -> None:
    assert [c for c in clean(raw) if c not in "\n\t" and (c < " " or "\x7f" <= c <= "\x9f")] == []


def test_a_hundred_megabytes_in_one_line(bench: Bench) -> None:
    done = bench.python(
        """
        import sys
        sys.stdout.write("begin"); sys.stdout.flush()
        for _ in range(100): sys.stdout.buffer.write(bytes(1 << 20).replace(b"\\0", b"x"))
        sys.stdout.write("end"); sys.stderr.write("\\x1b[31mcolour\\x00")
        """,
        output_kb=64,
    )
    assert done.code == 0
    assert done.stdout.startswith("beginxxx")
    assert done.stdout.endswith("xxxend")
    left_out = (100 << 20) + 8 - (64 << 10)
    assert f"\n[... {left_out} bytes left out ...]\n" in done.stdout
    assert len(done.stdout) < (64 << 10) + 100
    assert done.stderr == "colour"
