"""Code embeddings by GraphCodeBERT, the papers' embedder (arXiv 2510.10472, 2605.17373).

Last layer, first token, per chunk; chunks are cut and added up by chunking, kept by embed_cache.
torch and transformers are imported when the first text is embedded. Any model of RoBERTa's kind
in a local folder works as well. Not here: the embedder that needs no weights (fml_hydra.embedding).
"""

import hashlib
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import PositiveInt
from pydantic.dataclasses import dataclass

from fml_hydra.analysis.chunking import Chunk, ChunkVectors, Pooling, Store, embed_chunked
from fml_hydra.analysis.embed_cache import ChunkCache, MemoryStore
from fml_hydra.embedding import Vectors
from fml_hydra.errors import ConfigError
from fml_hydra.knobs import STRICT

DType = Literal["float32", "bfloat16"]
_WEIGHTS = ("*.safetensors", "*.bin")
_OTHERS = ("*.json", "*.txt")


@dataclass(frozen=True, config=STRICT)
class GraphCodeBERT:
    """An embedder with a model from the Hugging Face hub or a folder."""

    model: str
    """Name on the hub; the part after the slash names the embedder in tables."""
    revision: str
    """Branch, tag or commit on the hub."""
    path: Path | None
    """Folder with weights, configuration and tokeniser, instead of the hub."""
    local_files_only: bool
    """Whether the hub is never asked, only its cache on this machine."""
    pooling: Pooling
    """How chunks become one vector."""
    dtype: DType
    """What the model computes in."""
    device: Literal["auto", "cpu", "cuda"]
    """Where; auto takes a GPU if there is one."""
    batch: PositiveInt
    """Chunks encoded at a time."""
    cache: Path | None
    """File that keeps the vectors of chunks; null keeps them in memory only."""

    @property
    def name(self) -> str:
        """Name in tables, with whatever differs from the papers' way."""
        name = self.model.rpartition("/")[2].removesuffix("-base")
        unusual = [self.dtype] * (self.dtype != "float32") + ["mean of chunks"] * (
            self.pooling == "mean"
        )
        return f"{name} ({', '.join(unusual)})" if unusual else name

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Vectors of shape (number of texts, dimensions).

        Raises ConfigError if the weights cannot be had, DataError if the cache cannot be used.
        """
        return embed_chunked(texts, self._encoder, self._store, self.pooling, self.batch)

    def available(self) -> bool:
        """Whether the weights are on this machine; asks no network."""
        try:
            self._find(local_only=True)
        except ConfigError:
            return False
        return True

    @cached_property
    def _folder(self) -> Path:
        return self._find(self.local_files_only)

    @cached_property
    def _encoder(self) -> "RobertaEncoder":
        return RobertaEncoder(self._folder, self.dtype, self.device)

    @cached_property
    def _store(self) -> Store:
        if self.cache is None:
            return MemoryStore()
        return ChunkCache(self.cache, f"{self.model}@{self._version}/{self.dtype}")

    @cached_property
    def _version(self) -> str:
        """The commit of a hub snapshot; of a folder, a hash of everything in it that counts."""
        if self.path is None:
            return self._folder.name
        digest = hashlib.blake2b(digest_size=16)
        for file in sorted(f for kind in (*_WEIGHTS, *_OTHERS) for f in self.path.glob(kind)):
            digest.update(file.name.encode())
            with file.open("rb") as stream:
                while block := stream.read(1 << 24):
                    digest.update(block)
        return digest.hexdigest()

    def _find(self, local_only: bool) -> Path:
        """The folder of the weights; raises ConfigError with the remedy."""
        if self.path is not None:
            if not _complete(self.path):
                raise ConfigError(
                    f"embedder.path={self.path}: no model there (config.json and weights as"
                    " *.safetensors or *.bin are needed); correct it, or use embedder=offline"
                )
            return self.path
        from huggingface_hub import snapshot_download

        try:
            folder = Path(
                snapshot_download(
                    self.model,
                    revision=self.revision,
                    local_files_only=local_only,
                    allow_patterns=[*_WEIGHTS, *_OTHERS],
                )
            )
        except (OSError, ValueError) as error:
            raise self._missing() from error
        if not _complete(folder):
            raise self._missing()
        return folder

    def _missing(self) -> ConfigError:
        return ConfigError(
            f"no weights of {self.model} ({self.revision}) on this machine or from the hub: copy"
            f" the model's folder here and give embedder.path=FOLDER, or run once with a network"
            f" and embedder.local_files_only=false, or use embedder=offline"
        )


class RobertaEncoder:
    """A tokeniser and a model of RoBERTa's kind, loaded from a folder; raises ConfigError."""

    def __init__(
        self, folder: Path, dtype: DType, device: Literal["auto", "cpu", "cuda"] = "auto"
    ) -> None:
        import torch
        from transformers import AutoModel, AutoTokenizer

        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        try:
            self._tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True)
            model: Any = AutoModel.from_pretrained(folder, local_files_only=True)
            self._model = model.to(device=device, dtype=getattr(torch, dtype)).eval()
        except (OSError, ValueError, RuntimeError, AssertionError) as error:
            first = str(error).strip().partition("\n")[0]
            raise ConfigError(
                f"{folder}: the model cannot be loaded on {device} ({first}); give another"
                " embedder.path or embedder.device, or use embedder=offline"
            ) from error
        self._device = device
        self._frame = (self._tokenizer.cls_token_id, self._tokenizer.sep_token_id)

    @property
    def dimensions(self) -> int:
        """Length of a vector."""
        return int(self._model.config.hidden_size)

    def tokens(self, text: str) -> list[int]:
        """Token ids of a text of any length, without a frame."""
        encoded = self._tokenizer(text, add_special_tokens=False, verbose=False)
        return list(encoded["input_ids"])

    def encode(self, chunks: Sequence[Chunk]) -> ChunkVectors:
        """Last layer, first token, of `<s> chunk </s>`; the chunks are equally long."""
        import torch

        start, end = self._frame
        framed = torch.tensor([[start, *chunk, end] for chunk in chunks], device=self._device)
        with torch.inference_mode():
            hidden: Any = self._model(framed, torch.ones_like(framed)).last_hidden_state
        vectors: ChunkVectors = hidden[:, 0].float().cpu().numpy().astype(np.float32)
        return vectors


def _complete(folder: Path) -> bool:
    """Whether a model lies there: a download that was broken off leaves a folder too."""
    weights = any(True for kind in _WEIGHTS for _ in folder.glob(kind))
    return weights and (folder / "config.json").is_file()
