"""Exploration Diversity by hand, and the automatic choice of the embedder."""

import logging

import numpy as np
import pytest
from graphcodebert_tiny import embedder
from hydra.utils import instantiate

from fml_hydra.analysis.diversity import (
    PreferredEmbedder,
    chosen,
    exploration_diversity,
    spread,
    step_text,
)
from fml_hydra.embedding import HashedEmbedder

OFFLINE = HashedEmbedder("offline", 64)


@pytest.mark.parametrize(
    ("vectors", "value"),
    [
        ([[0, 0], [6, 8]], 5.0),
        ([[0, 0], [0, 0], [3, 0]], 4 / 3),
        ([[2, 0], [-2, 0], [0, 1], [0, -1]], 1.5),
        ([[7, 7]], 0.0),
    ],
)
def test_spread_by_hand(vectors, value):
    assert spread(np.array(vectors, dtype=float)) == pytest.approx(value)


def test_of_a_run():
    assert exploration_diversity([], OFFLINE).value is None
    same = exploration_diversity(["a = 1"] * 3, OFFLINE)
    assert (same.value, same.steps, same.embedder) == (pytest.approx(0.0), 3, "offline")
    assert exploration_diversity(["a = 1", "class Net: pass"], OFFLINE).value > 0.1


def test_the_text_of_a_step_holds_all_targets_in_path_order():
    base = {"b.py": "b", "a.py": "a", "run.py": "protected"}
    assert step_text(["b.py", "a.py"], {"b.py": "B", "new.py": "n"}, base) == "a\nB"


def test_without_weights_the_other_is_taken_with_a_notice(tmp_path, caplog):
    with caplog.at_level(logging.WARNING):
        assert chosen(PreferredEmbedder(embedder(tmp_path), OFFLINE)) is OFFLINE
    assert "no weights" in caplog.text
    assert "offline" in caplog.text
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_text("")
    caplog.clear()
    there = embedder(tmp_path)
    assert chosen(PreferredEmbedder(there, OFFLINE)) is there
    assert chosen(OFFLINE) is OFFLINE
    assert not caplog.text


@pytest.mark.parametrize("name", ["auto", "graphcodebert", "offline"])
def test_every_option_can_be_made(name):
    from hydra import compose, initialize_config_dir

    from fml_hydra.resources import conf_dir, register_resolvers

    register_resolvers()
    with initialize_config_dir(str(conf_dir()), version_base="1.3"):
        cfg = compose("embedder/" + name)
    made = instantiate(cfg.embedder)
    assert hasattr(made, "choose") if name == "auto" else made.name == name
