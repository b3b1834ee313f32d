"""What a candidate hands in: plain arrays or a named refusal (never a crash of the grader)."""

import io
import zipfile

import numpy as np
import pytest

from fml_hydra.errors import InvalidOutput
from fml_hydra.outputs import Spec, align, load_npz

SPECS = {"id": Spec((3,), "i"), "p": Spec((3,), "f", 0.0, 1.0)}


@pytest.fixture
def hand_in(tmp_path):
    def write(**arrays):
        path = tmp_path / "predictions.npz"
        np.savez(path, **arrays)
        return path

    return write


def test_good_arrays_come_back_as_float64_and_int64(hand_in):
    path = hand_in(id=np.array([3, 1, 2], np.int16), p=np.array([0, 1, 0], np.int8))
    got = load_npz(path, **SPECS)
    assert got["id"].dtype == np.int64
    assert got["p"].dtype == np.float64
    assert got["p"].tolist() == [0.0, 1.0, 0.0]


@pytest.mark.parametrize(
    ("arrays", "reason"),
    [
        ({"p": [0.0, 0, 0]}, "no array named id"),
        ({"id": [1, 2, 3], "p": [0.0, 0, 0], "q": [1]}, "unexpected array q"),
        ({"id": [1, 2, 3], "p": [0.0, 0]}, r"shape \(2,\)"),
        ({"id": [1, 2, 3], "p": [[0.0], [0], [0]]}, r"shape \(3, 1\)"),
        ({"id": [1, 2, 3], "p": [0.0, np.nan, 0]}, "NaN or infinite"),
        ({"id": [1, 2, 3], "p": [0.0, np.inf, 0]}, "NaN or infinite"),
        ({"id": [1, 2, 3], "p": [0.0, 1e308, 0]}, "above"),
        ({"id": [1, 2, 3], "p": [0.0, -0.1, 0]}, "below"),
        ({"id": [1.0, 2, 3], "p": [0.0, 0, 0]}, "kind"),
        ({"id": [1, 2, 3], "p": ["a", "b", "c"]}, "kind"),
        ({"id": [1, 2, 3], "p": [True, False, True]}, "kind"),
        ({"id": [1, 2, 3], "p": [1j, 0, 0]}, "kind"),
        ({"id": [1, 2, 3], "p": np.array([object(), 1, 2])}, "plain arrays"),
    ],
)
def test_refusals_say_why(hand_in, arrays, reason):
    with pytest.raises(InvalidOutput, match=reason):
        load_npz(hand_in(**{k: np.asarray(v) for k, v in arrays.items()}), **SPECS)


@pytest.mark.parametrize(
    "content", [b"", b"PK\x03\x04 half a zip", b"\x80\x04pickle", b"a,b\n1,2\n"]
)
def test_what_is_not_an_npz_is_refused(tmp_path, content):
    path = tmp_path / "predictions.npz"
    path.write_bytes(content)
    with pytest.raises(InvalidOutput, match="not an npz"):
        load_npz(path, **SPECS)


def test_zip_bomb_is_refused_before_it_is_unpacked(tmp_path):
    path = tmp_path / "predictions.npz"
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f8", "fortran_order": False, "shape": (2**26,)}
    )
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("p.npy", header.getvalue() + bytes(2**29))
    assert path.stat().st_size < 2**20
    with pytest.raises(InvalidOutput, match="unpacks to"):
        load_npz(path, p=Spec((None,)))


def test_align_brings_rows_into_order():
    expected = np.array([30, 10, 20])
    ids = np.array([10, 20, 30])
    values = np.array([1.0, 2.0, 3.0])
    assert values[align(ids, expected, "p")].tolist() == [3.0, 1.0, 2.0]


@pytest.mark.parametrize("seed", range(20))
def test_align_any_permutation(seed):
    rng = np.random.default_rng(seed)
    expected = rng.permutation(50) * 7
    ids = rng.permutation(expected)
    assert np.array_equal(ids[align(ids, expected, "p")], expected)


@pytest.mark.parametrize(
    ("ids", "reason"),
    [
        ([1, 1, 2], "duplicated"),
        ([1, 2], "1 ids missing"),
        ([1, 2, 4], "1 ids missing, 1 ids unknown"),
    ],
)
def test_align_refuses(ids, reason):
    with pytest.raises(InvalidOutput, match=reason):
        align(np.array(ids), np.array([1, 2, 3]), "p")
