"""Exploration Diversity: how widely a run's code states are spread; and in which embedder.

A pure function of the texts of the steps and an embedder. Not here: where the texts come from
(load), what diversity goes with (correlations).
"""

import logging
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from pydantic.dataclasses import dataclass

from fml_hydra.analysis.graphcodebert import GraphCodeBERT
from fml_hydra.embedding import Embedder, Vectors, code_text
from fml_hydra.knobs import STRICT

logger = logging.getLogger(__name__)


@dataclass(frozen=True, config=STRICT)
class Diversity:
    """How widely a run explored."""

    value: float | None
    """Mean L2 distance of the steps' vectors to their centroid; None without a step."""
    steps: int
    """Steps it is taken over, failed ones included."""
    embedder: str
    """Name of the embedder: values of different embedders cannot be compared."""


@dataclass(frozen=True, config=STRICT)
class PreferredEmbedder:
    """GraphCodeBERT if its weights are on this machine, else another embedder, with a notice."""

    first: GraphCodeBERT
    """Taken if its weights are here; they are never downloaded unasked."""
    otherwise: Embedder
    """Taken if not."""

    def choose(self) -> Embedder:
        """The embedder to use; says so in the log (level warning) if it is not the first."""
        if self.first.available():
            return self.first
        logger.warning(
            "no weights of %s on this machine: code is embedded by %r instead, whose values are"
            " comparable with each other only (embedder=graphcodebert fetches the weights,"
            " embedder=offline says no more)",
            self.first.model,
            self.otherwise.name,
        )
        return self.otherwise


def chosen(embedder: Embedder | PreferredEmbedder) -> Embedder:
    """What `embedder=` leads to: the one that was asked for, or the automatic choice."""
    return embedder.choose() if isinstance(embedder, PreferredEmbedder) else embedder


def step_text(
    targets: Iterable[str], snapshot: Mapping[str, str], baseline: Mapping[str, str]
) -> str:
    """The text that stands for a step: the task's target files, unchanged ones as in the baseline.

    `targets` are paths; one that is in neither snapshot nor baseline is left out.
    """
    files = {**baseline, **snapshot}
    return code_text({path: files[path] for path in targets if path in files})


def exploration_diversity(texts: Sequence[str], embedder: Embedder) -> Diversity:
    """Exploration Diversity of a run, one text per step (arXiv 2510.10472 v2)."""
    value = spread(embedder.embed(texts)) if texts else None
    return Diversity(value, len(texts), embedder.name)


def spread(vectors: Vectors) -> float:
    """Mean L2 distance of (n, d) vectors, n > 0, to their centroid (arXiv 2605.17373).

    In the vectors' own precision, as in FML-bench's script: float32 differs in the seventh digit.
    """
    centred = vectors - vectors.mean(axis=0)
    return float(np.mean([np.linalg.norm(vector) for vector in centred]))
