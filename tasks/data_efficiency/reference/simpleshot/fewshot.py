"""SimpleShot on flattened maps: nearest class mean of centred vectors of unit length.

Y. Wang et al., "SimpleShot: revisiting nearest-neighbor classification for few-shot learning",
arXiv 1911.04623. The maps are flattened, so position is kept. Every query is judged by itself.
"""

from dataclasses import dataclass

import numpy as np
from episodes import Base

CONFIG = {
    "power": 1.0,  # exponent of the feature maps
    "temperature": 1.0,  # of the softmax over distances
}

Array = np.ndarray


@dataclass(frozen=True)
class Learned:
    """What is taken from the base digits into the episodes."""

    mean: Array
    """Mean base vector, (d,)."""


def learn_base(base: Base, rng: np.random.Generator) -> Learned:
    """Statistics of the base digits' features, for one backbone."""
    vectors = represent(base.maps)
    return Learned(mean=vectors.mean(axis=0))


def represent(maps: Array) -> Array:
    """One vector for each feature map, (n, channels, height, width) -> (n, d)."""
    maps = np.power(maps, CONFIG["power"])
    return maps.reshape(len(maps), -1)


def embed(maps: Array, learned: Learned) -> Array:
    """Vectors (n, d) from the base mean, at unit length."""
    vectors = represent(maps)
    return unit(vectors - learned.mean)


def unit(vectors: Array) -> Array:
    """Vectors scaled to length one along the last axis."""
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def align_episode(support: Array, query: Array) -> tuple[Array, Array]:
    """Change support (ways, shots, d) and query (queries, d) in the light of the whole episode."""
    return support, query


def class_means(support: Array) -> Array:
    """Prototypes (ways, d) of support vectors (ways, shots, d)."""
    return support.mean(axis=1)


def distances(query: Array, prototypes: Array) -> Array:
    """Squared Euclidean distances, (queries, ways)."""
    offsets = query[:, None] - prototypes[None]
    return (offsets**2).sum(axis=2)


def probabilities(query: Array, prototypes: Array) -> Array:
    """Softmax over the negative distances, (queries, ways)."""
    logits = -distances(query, prototypes) / CONFIG["temperature"]
    exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
    return exponentials / exponentials.sum(axis=1, keepdims=True)


def refine(prototypes: Array, support: Array, query: Array) -> Array:
    """Move the prototypes by what the queries show; prototypical networks do not look at them."""
    return prototypes


def classify(support: Array, query: Array, learned: Learned, rng: np.random.Generator) -> Array:
    """Class (queries,) of each query map, given support maps (ways, shots, channels, h, w)."""
    ways, shots = support.shape[:2]
    support = embed(support.reshape(-1, *support.shape[2:]), learned).reshape(ways, shots, -1)
    query = embed(query, learned)
    support, query = align_episode(support, query)
    prototypes = class_means(support)
    prototypes = refine(prototypes, support, query)
    return probabilities(query, prototypes).argmax(axis=1)
