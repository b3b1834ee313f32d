"""Embedding 100 steps of 5,000 tokens, against embedding every chunk of every step anew.

Chunks are cut from the stream of tokens: an edit that keeps the number of tokens changes one of ten
chunks, any other one all that follow it. What can be had exactly is what was seen before (equal
texts, equal chunks), and several chunks at a time. How much that is depends on the edits, so they
are stated: `TYPICAL`, at places drawn evenly over the file, in states of a search tree; one step in
eight leaves the code as an earlier one had it, as in this project's own runs. `REWRITES` alone are
the worst case. Processor time on one thread is compared: others may be at work on the machine.

Run with: pytest tests/bench/test_embedding_bench.py -n 0 --benchmark-enable -s
"""

import random
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from fml_hydra.analysis.chunking import split
from fml_hydra.edits import syntax_error
from fml_hydra.llm.program.mutate import mutations

sys.path.append(str(Path(__file__).parents[1] / "analysis"))
from graphcodebert_tiny import SOURCE, embedder, make_model  # noqa: E402

STEPS, TOKENS = 100, 5000
TARGET = 3.0
"""Times faster than recomputing all."""


def constant(text: str, rng: random.Random) -> str:
    """Another value of a constant, as in tuning: any that the offline program would try."""
    found = mutations({"model.py": text})
    return rng.choice(found).applied({"model.py": text})["model.py"] if found else text


def rewritten(text: str, rng: random.Random) -> str:
    """One to six lines become those of another place, and as many again; it stays Python."""
    lines = text.splitlines(True)
    for _ in range(200):
        here, there, count = rng.randrange(len(lines)), rng.randrange(len(lines)), rng.randint(1, 6)
        taken = lines[there : there + rng.randint(count, 2 * count)]
        changed = "".join([*lines[:here], *taken, *lines[here + count :]])
        if changed != text and not syntax_error({"model.py": changed}):
            return changed
    raise AssertionError("no place for another line")


def unchanged(text: str, rng: random.Random) -> str:
    """An edit that could not be applied, or was taken back."""
    return text


Edits = tuple[Callable[[str, random.Random], str], ...]
REWRITES: Edits = (rewritten,)
TYPICAL: Edits = (*((rewritten, constant) * 3), rewritten, unchanged)


def history(base: str, edits: Edits) -> list[str]:
    """Code after each step of a tree search: five drafts, then a state is taken further."""
    rng, states = random.Random(0), list[str]()
    for step in range(STEPS):
        parent = base if step < 5 else rng.choice(states)
        states.append(edits[step % len(edits)](parent, rng))
    return states


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("model"), layers=2, width=128)


@pytest.fixture(scope="module")
def base(folder: Path) -> str:
    """Real code of about TOKENS tokens, in whole lines."""
    tokenizer, lines, count = AutoTokenizer.from_pretrained(folder), list[str](), 0
    for line in SOURCE.splitlines(True):
        count += len(tokenizer.tokenize(line))
        if count > TOKENS:
            break
        lines.append(line)
    while syntax_error({"model.py": "".join(lines)}):
        del lines[-1]
    return "".join(lines)


def recomputed(folder: Path, texts: list[str]) -> tuple[np.ndarray, float]:
    """METRICS to the letter, and the processor time; loading the model does not count."""
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder)
    model.eval()
    began, vectors = time.process_time(), []
    for text in texts:
        total = torch.zeros(model.config.hidden_size, dtype=torch.float64)
        for chunk in split(tokenizer(text, add_special_tokens=False)["input_ids"]):
            ids = [tokenizer.cls_token_id, *chunk, tokenizer.sep_token_id]
            with torch.no_grad():
                total += model(torch.tensor([ids])).last_hidden_state[0, 0].double()
        vectors.append(total.numpy())
    return np.array(vectors), time.process_time() - began


@pytest.fixture
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(("edits", "times"), [(TYPICAL, TARGET), (REWRITES, 1.5)])
def test_edits(folder, base, tmp_path, benchmark, one_thread, edits, times):
    texts = history(base, edits)
    expected, slow = recomputed(folder, texts)
    ours = embedder(folder, tmp_path / "c.sqlite", batch=8)
    ours.embed(["x = 1"])  # the model is loaded
    began = time.process_time()
    vectors = benchmark.pedantic(ours.embed, (texts,), rounds=1)
    fast = time.process_time() - began
    tokenizer = AutoTokenizer.from_pretrained(folder)
    chunks = [c for t in texts for c in split(tokenizer(t, add_special_tokens=False)["input_ids"])]
    seen = f"{len(chunks)} chunks, {len(set(chunks))} of them different"
    print(f"\n{seen}; {slow:.1f} s against {fast:.1f} s: {slow / fast:.2f} times")  # noqa: T201
    assert vectors == pytest.approx(expected, abs=1e-5, rel=1e-5)
    assert slow / fast >= times
