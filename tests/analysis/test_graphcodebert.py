"""GraphCodeBERT's path on a small random model: as one by one, cached, and clear if absent."""

import numpy as np
import pytest
from graphcodebert_tiny import SOURCE, embedder, make_model, one_by_one

from fml_hydra.analysis.graphcodebert import RobertaEncoder
from fml_hydra.embedding import Embedder
from fml_hydra.errors import ConfigError

TEXTS = [SOURCE[:6000], "", SOURCE[:6000].replace("def ", "def _", 1), "x = 1\n", SOURCE[3000:7000]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_model(tmp_path_factory.mktemp("model"))


@pytest.fixture
def calls(monkeypatch):
    """Number of chunks each call encodes."""
    seen, encode = [], RobertaEncoder.encode
    monkeypatch.setattr(
        RobertaEncoder, "encode", lambda self, c: seen.append(len(c)) or encode(self, c)
    )
    return seen


def test_equal_to_one_by_one(folder, tmp_path):
    vectors = embedder(folder, tmp_path / "c.sqlite").embed(TEXTS)
    expected = np.array([one_by_one(folder, text) for text in TEXTS])
    assert vectors == pytest.approx(expected, abs=1e-5)
    assert not vectors[1].any()
    assert np.linalg.norm(vectors[0] - vectors[2]) > 1e-3


def test_mean_and_bf16_are_named(folder):
    exact, mean, rough = (
        embedder(folder, **knobs) for knobs in ({}, {"pooling": "mean"}, {"dtype": "bfloat16"})
    )
    assert isinstance(exact, Embedder)
    names = [e.name for e in (exact, mean, rough)]
    assert names == [
        "graphcodebert",
        "graphcodebert (mean of chunks)",
        "graphcodebert (bfloat16)",
    ]
    (a,), (b,), (c,) = (e.embed(TEXTS[:1]) for e in (exact, mean, rough))
    ratio = a / b
    assert ratio == pytest.approx(np.full(len(a), round(ratio[0])), rel=1e-5)
    assert ratio[0] > 1.5
    assert a @ c / np.linalg.norm(a) / np.linalg.norm(c) > 0.999


def test_nothing_known_is_encoded_again_but_in_another_dtype_it_is(folder, tmp_path, calls):
    cache = tmp_path / "c.sqlite"
    first = embedder(folder, cache).embed([*TEXTS, *TEXTS])
    assert calls
    calls.clear()
    assert np.array_equal(embedder(folder, cache).embed([*TEXTS, *TEXTS]), first)
    assert not calls
    embedder(folder, cache, dtype="bfloat16").embed(TEXTS)
    assert calls


def test_other_weights_under_the_same_name_are_another_model(folder, tmp_path):
    cache = tmp_path / "c.sqlite"
    other = make_model(tmp_path / "other", layers=1)
    before = embedder(folder, cache).embed(TEXTS[:1])
    assert not np.allclose(before, embedder(other, cache).embed(TEXTS[:1]), atol=1e-3)


@pytest.mark.parametrize("cache_only", [True, False])
def test_missing_weights_name_the_remedy_in_one_line(tmp_path, monkeypatch, cache_only):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    absent = embedder(None, local_files_only=cache_only, revision="no-such-revision")
    assert not absent.available()
    with pytest.raises(ConfigError, match=r"embedder\.path=FOLDER.*embedder=offline") as caught:
        absent.embed(["x"])
    assert "\n" not in str(caught.value)


def test_an_empty_folder_is_no_model(tmp_path, folder):
    assert embedder(folder).available()
    with pytest.raises(ConfigError, match=r"embedder\.path="):
        embedder(tmp_path).embed(["x"])
