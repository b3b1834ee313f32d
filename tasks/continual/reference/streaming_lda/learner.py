"""Streaming linear discriminant analysis on random features.

The features, a random projection with rectified units, are drawn once and never learned. Class means and one covariance of all
classes are sums over examples, so that learning in contexts gives the very classifier that learning
everything at once would: nothing is forgotten (T. Hayes and C. Kanan, CVPR workshops 2020, arXiv
1909.01520).
"""

import numpy as np

CONFIG = {"shrinkage": 0.1}
FEATURES = 500
CLASSES = 10

Array = np.ndarray
State = dict[str, Array]


def initial_state(rng: np.random.Generator) -> State:
    """No examples seen yet; the key is where the random features are drawn from."""
    return {
        "key": rng.integers(2**31, size=1),
        "count": np.zeros(CLASSES, dtype=np.float32),
        "sum": np.zeros((CLASSES, FEATURES), dtype=np.float32),
        "outer": np.zeros((FEATURES, FEATURES), dtype=np.float32),
    }


def learn(state: State, images: Array, labels: Array, rng: np.random.Generator) -> State:
    """Add the examples of one context to the sums."""
    x = features(images, state["key"])
    onehot = np.eye(CLASSES, dtype=np.float32)[labels]
    return {
        "key": state["key"],
        "count": state["count"] + onehot.sum(axis=0),
        "sum": state["sum"] + onehot.T @ x,
        "outer": state["outer"] + x.T @ x,
    }


def predict(state: State, images: Array) -> Array:
    """Log-likelihoods (n, 10), up to a constant, of Gaussian classes with one covariance."""
    count, total = state["count"].astype(np.float64), state["sum"].astype(np.float64)
    means = total / np.maximum(count, 1.0)[:, None]
    covariance = (state["outer"] - (means.T * count) @ means) / count.sum()
    ridge = CONFIG["shrinkage"] * np.trace(covariance) / FEATURES
    directions = np.linalg.solve(covariance + ridge * np.eye(FEATURES), means.T)
    scores = features(images, state["key"]) @ directions - 0.5 * np.sum(
        means.T * directions, axis=0
    )
    return np.where(count > 0, scores, -1e9)


def features(images: Array, key: Array) -> Array:
    """Rectified random projections (n, FEATURES) of uint8 images (n, 28, 28)."""
    pixels = images.reshape(len(images), -1).astype(np.float32) / 255.0
    projection = np.random.default_rng(key).standard_normal((pixels.shape[1], FEATURES))
    return np.maximum(pixels @ (projection / 28.0).astype(np.float32), 0.0)
