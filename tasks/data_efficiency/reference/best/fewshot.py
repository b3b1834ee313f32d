"""Balanced soft k-means in a space whitened by the base classes.

Soft assignment balanced by Sinkhorn's iteration while the prototypes move (Y. Hu et al., arXiv
2006.03806), on flattened maps. Before that, directions in which images of one base digit vary are
shrunk (linear discriminant analysis without its projection), because what varies within the old
classes varies within the new ones too.
"""

from dataclasses import dataclass

import numpy as np
from episodes import Base

CONFIG = {
    "power": 1.0,  # exponent of the feature maps
    "temperature": 0.1,  # of the softmax over distances
    "shrinkage": 3.0,  # towards a multiple of the identity, of the covariance within classes
    "refinements": 10,  # of the prototypes
    "balancings": 10,  # of the soft assignment
}

Array = np.ndarray


@dataclass(frozen=True)
class Learned:
    """What is taken from the base digits into the episodes."""

    mean: Array
    """Mean base vector, (d,)."""
    whitening: Array
    """Shrinks directions in which images of one class vary, (d, d)."""


def learn_base(base: Base, rng: np.random.Generator) -> Learned:
    """Statistics of the base digits' features, for one backbone."""
    vectors = represent(base.maps)
    return Learned(vectors.mean(axis=0), whitening(vectors, base.label))


def whitening(vectors: Array, label: Array) -> Array:
    """Inverse root of the shrunken covariance within classes, (d, d)."""
    means = np.stack([vectors[label == k].mean(axis=0) for k in np.unique(label)])
    within = vectors - means[label]
    covariance = within.T @ within / len(within)
    ridge = CONFIG["shrinkage"] * np.trace(covariance) / len(covariance)
    return np.linalg.inv(np.linalg.cholesky(covariance + ridge * np.eye(len(covariance)))).T


def represent(maps: Array) -> Array:
    """One vector for each feature map, (n, channels, height, width) -> (n, d)."""
    maps = np.power(maps, CONFIG["power"])
    return maps.reshape(len(maps), -1)


def embed(maps: Array, learned: Learned) -> Array:
    """Whitened vectors (n, d) from the base mean, at unit length."""
    vectors = represent(maps)
    return unit((vectors - learned.mean) @ learned.whitening)


def unit(vectors: Array) -> Array:
    """Vectors scaled to length one along the last axis."""
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def align_episode(support: Array, query: Array) -> tuple[Array, Array]:
    """Support (ways, shots, d) and query (queries, d) from the episode's mean, at unit length."""
    every = np.concatenate([support.reshape(-1, support.shape[2]), query])
    mean = every.mean(axis=0)
    return unit(support - mean), unit(query - mean)


def class_means(support: Array) -> Array:
    """Prototypes (ways, d) of support vectors (ways, shots, d)."""
    return support.mean(axis=1)


def distances(query: Array, prototypes: Array) -> Array:
    """Squared Euclidean distances, (queries, ways)."""
    norms = (query**2).sum(axis=1)[:, None] + (prototypes**2).sum(axis=1)
    return norms - 2.0 * query @ prototypes.T


def probabilities(query: Array, prototypes: Array) -> Array:
    """Softmax over the negative distances, balanced over ways, (queries, ways)."""
    logits = -distances(query, prototypes) / CONFIG["temperature"]
    assigned = np.exp(logits - logits.max(axis=1, keepdims=True))
    for _ in range(CONFIG["balancings"]):
        assigned = assigned / assigned.sum(axis=0)
        assigned = assigned / assigned.sum(axis=1, keepdims=True)
    return assigned


def refine(prototypes: Array, support: Array, query: Array) -> Array:
    """Soft k-means on the queries, started from the support set, (ways, d)."""
    for _ in range(CONFIG["refinements"]):
        weight = probabilities(query, prototypes)
        total = support.sum(axis=1) + weight.T @ query
        prototypes = total / (support.shape[1] + weight.sum(axis=0)[:, None])
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
