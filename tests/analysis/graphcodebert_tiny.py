"""A RoBERTa with random weights and a BPE of its own: GraphCodeBERT's kind, but small."""

import inspect
import json
from pathlib import Path

import torch
from tokenizers import ByteLevelBPETokenizer
from transformers import RobertaConfig, RobertaModel, RobertaTokenizerFast

from fml_hydra.analysis.graphcodebert import GraphCodeBERT

SOURCE = inspect.getsource(json.decoder) + inspect.getsource(inspect)
"""Real code, about 30k tokens."""


def make_model(folder: Path, layers: int = 2, width: int = 32) -> Path:
    """Train the tokeniser, draw the weights, save both to the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    bpe = ByteLevelBPETokenizer()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    bpe.train_from_iterator(SOURCE.splitlines(True), vocab_size=1000, special_tokens=special)
    bpe.save_model(str(folder))
    RobertaTokenizerFast.from_pretrained(folder).save_pretrained(folder)
    torch.manual_seed(0)
    config = RobertaConfig(
        vocab_size=1000,
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=4,
        intermediate_size=4 * width,
        max_position_embeddings=514,
        type_vocab_size=1,
    )
    RobertaModel(config, add_pooling_layer=False).save_pretrained(folder)
    return folder


def embedder(path: Path | None, cache: Path | None = None, **knobs) -> GraphCodeBERT:
    defaults = {
        "model": "microsoft/graphcodebert-base",
        "revision": "main",
        "local_files_only": True,
        "pooling": "sum",
        "dtype": "float32",
        "device": "cpu",
        "batch": 4,
    }
    return GraphCodeBERT(path=path, cache=cache, **{**defaults, **knobs})


def one_by_one(folder: Path, text: str):
    """METRICS to the letter: cut, frame, embed alone, add up."""
    from transformers import AutoModel, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder)
    total = torch.zeros(model.config.hidden_size, dtype=torch.float64)
    pieces = tokenizer.tokenize(text)
    for start in range(0, len(pieces), 510):
        ids = tokenizer.convert_tokens_to_ids(["<s>", *pieces[start : start + 510], "</s>"])
        with torch.no_grad():
            total += model.eval()(torch.tensor([ids])).last_hidden_state[0, 0].double()
    return total.numpy()
