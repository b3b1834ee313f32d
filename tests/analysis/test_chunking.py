"""Chunks are consecutive, of 510 tokens, and lose nothing."""

from hypothesis import given
from hypothesis import strategies as st

from fml_hydra.analysis.chunking import split


@given(st.lists(st.integers(0, 9), max_size=40), st.integers(1, 12))
def test_nothing_is_lost_and_only_the_last_is_shorter(tokens, length):
    chunks = split(tokens, length)
    assert [t for chunk in chunks for t in chunk] == tokens
    assert all(len(chunk) == length for chunk in chunks[:-1])
    assert all(chunks)


def test_510_by_default():
    assert [len(chunk) for chunk in split(range(1021))] == [510, 510, 1]
