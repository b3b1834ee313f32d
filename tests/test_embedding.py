"""Code embeddings without a model, and the two measures taken on them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fml_hydra.embedding import (
    Embedder,
    HashedEmbedder,
    code_text,
    effective_dimension,
    reach,
)

OFFLINE = HashedEmbedder("offline", 256)
CODE = "def fit(xs):\n    learning_rate = 0.1\n    return sum(xs) * learning_rate\n"


def test_it_is_an_embedder_with_vectors_of_unit_length():
    assert isinstance(OFFLINE, Embedder)
    vectors = OFFLINE.embed([CODE, CODE.replace("0.1", "0.2"), ""])
    assert vectors.shape == (3, 256)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx([1, 1, 0])
    assert OFFLINE.embed([]).shape == (0, 256)


@given(st.lists(st.text(max_size=60), max_size=4))
def test_each_text_has_its_vector_whatever_stands_beside_it(texts):
    together = OFFLINE.embed(texts)
    alone = [OFFLINE.embed([text])[0] for text in texts]
    assert np.array_equal(together, np.array(alone).reshape(len(texts), 256))


def test_equal_in_every_process():
    """Hashes of strings differ between processes; these must not."""
    assert OFFLINE.embed(["lr = 0.1"])[0].nonzero()[0].tolist() == [17, 104, 136, 174, 186, 187]


def test_a_larger_change_is_farther_away():
    small = CODE.replace("0.1", "0.2")
    large = "class Net:\n    layers = 3\n\n    def forward(self, batch):\n        return batch\n"
    origin, near, far = OFFLINE.embed([CODE, small, large])
    assert 0 < np.linalg.norm(near - origin) < np.linalg.norm(far - origin)


def test_code_text_is_in_path_order():
    assert code_text({"b.py": "2", "a.py": "1"}) == "1\n2"


def test_reach_is_the_largest_distance_to_the_origin():
    vectors = np.array([[3.0, 4.0], [1.0, 0.0]])
    assert reach(vectors, np.zeros(2)) == 5.0
    assert reach(np.empty((0, 2)), np.zeros(2)) == 0.0


@pytest.mark.parametrize(
    ("vectors", "dimension"),
    [
        ([[0, 0], [1, 0], [5, 0]], 1.0),
        ([[1, 0], [-1, 0], [0, 1], [0, -1]], 2.0),
        ([[2, 0], [-2, 0], [0, 1], [0, -1]], 25 / 17),  # eigenvalues 4 : 1
        ([[1, 1], [1, 1]], 0.0),
        ([[1, 1]], 0.0),
    ],
)
def test_effective_dimension_by_hand(vectors, dimension):
    assert effective_dimension(np.array(vectors, dtype=float)) == pytest.approx(dimension)
