"""Logistic regression on bent features, with a threshold for each group.

Logarithms and brackets of age and priors buy accuracy; two thresholds, chosen on the training
scores for accuracy minus the average odds difference, spend it on equal error rates. After
M. Hardt, E. Price and N. Srebro, "Equality of opportunity in supervised learning", NeurIPS 2016
(there with randomised thresholds, here with deterministic ones).

`run.py` calls `fit` once per replicate, then `predict` on rows whose labels are not known here.
"""

from dataclasses import dataclass

import numpy as np

CONFIG = {
    "epochs": 20,
    "batch_size": 64,
    "learning_rate": 0.005,
    "weight_decay": 0.001,
    "threshold": 0.5,
}

Array = np.ndarray
Params = dict[str, Array]


@dataclass(frozen=True)
class Model:
    """What `predict` needs: the scaling of the inputs, the weights, a threshold per group."""

    mean: Array
    scale: Array
    weights: Params
    thresholds: Array


def design(features: Array, group: Array) -> Array:
    """Input columns of the model, (n, d), from features (n, 7) and group (n,)."""
    age, priors = features[:, 0], features[:, 1]
    columns = list(features[:, 5:].T) + list(np.minimum(features[:, 2:5], 3.0).T)
    columns += [np.log(age), age < 25, age > 45]
    columns += [np.log1p(priors), priors > 0, np.minimum(priors, 15.0)]
    columns.append(group)
    return np.column_stack(columns)


def example_weights(label: Array, group: Array) -> Array:
    """Weight of each training row in the loss, (n,)."""
    return np.ones(len(label))


def init_weights(inputs: int, rng: np.random.Generator) -> Params:
    """All weights zero: the problem is convex."""
    return {"w": np.zeros(inputs), "b": np.zeros(1)}


def forward(weights: Params, x: Array) -> Array:
    """Logits (n,) of inputs (n, d)."""
    return x @ weights["w"] + weights["b"]


def backward(weights: Params, x: Array, d_logit: Array) -> Params:
    """Gradient in the weights, given the gradient in the logits (n,)."""
    return {"w": x.T @ d_logit, "b": d_logit.sum(keepdims=True)}


def loss_gradient(logit: Array, label: Array, group: Array, weight: Array) -> Array:
    """Gradient of the weighted mean logistic loss in the logits, (n,)."""
    error = sigmoid(logit) - label
    return weight * error / len(label)


def choose_thresholds(score: Array, label: Array, group: Array) -> Array:
    """Decision threshold of group 0 and of group 1, from training scores (n,)."""

    def quality(candidate: Array) -> float:
        predicted = score > candidate[group]
        gap = 0.0
        for outcome in (0, 1):
            rates = [predicted[(group == g) & (label == outcome)].mean() for g in (0, 1)]
            gap += 0.5 * (rates[0] - rates[1])
        return float(np.mean(predicted == label) - abs(gap))

    grid = np.linspace(0.35, 0.65, 16)
    pairs = [np.array([first, second]) for first in grid for second in grid]
    return max(pairs, key=quality)


def fit(features: Array, label: Array, group: Array, rng: np.random.Generator) -> Model:
    """Train on features (n, 7), labels (n,) and groups (n,) of 0 and 1."""
    x = design(features, group)
    mean, scale = x.mean(axis=0), x.std(axis=0) + 1e-8
    x = (x - mean) / scale
    weight = example_weights(label, group)
    weights = train(x, label, group, weight, rng)
    thresholds = choose_thresholds(sigmoid(forward(weights, x)), label, group)
    return Model(mean, scale, weights, thresholds)


def train(x: Array, label: Array, group: Array, weight: Array, rng: np.random.Generator) -> Params:
    """Minimise the loss by mini-batches; the final weights."""
    weights = init_weights(x.shape[1], rng)
    optimiser = Adam(CONFIG["learning_rate"])
    for _ in range(CONFIG["epochs"]):
        order = rng.permutation(len(x))
        for rows in np.array_split(order, max(1, len(x) // CONFIG["batch_size"])):
            logit = forward(weights, x[rows])
            d_logit = loss_gradient(logit, label[rows], group[rows], weight[rows])
            gradient = backward(weights, x[rows], d_logit)
            optimiser.step(weights, gradient)
    return weights


def predict(model: Model, features: Array, group: Array) -> Array:
    """Predicted labels (n,), 0 or 1."""
    x = (design(features, group) - model.mean) / model.scale
    score = sigmoid(forward(model.weights, x))
    return (score > model.thresholds[group]).astype(int)


def sigmoid(z: Array) -> Array:
    """Logistic function, safe for large |z|."""
    return 0.5 * (1.0 + np.tanh(0.5 * z))


class Adam:
    """Adam (D. P. Kingma and J. Ba, ICLR 2015), updating a dict of arrays in place."""

    def __init__(self, learning_rate: float) -> None:
        """Start with empty moments."""
        self.learning_rate = learning_rate
        self.steps = 0
        self.first: Params = {}
        self.second: Params = {}

    def step(self, weights: Params, gradient: Params) -> None:
        """Move the weights against the gradient, with decoupled weight decay."""
        self.steps += 1
        for name, g in gradient.items():
            self.first[name] = 0.9 * self.first.get(name, 0.0) + 0.1 * g
            self.second[name] = 0.999 * self.second.get(name, 0.0) + 0.001 * g**2
            first = self.first[name] / (1.0 - 0.9**self.steps)
            second = self.second[name] / (1.0 - 0.999**self.steps)
            weights[name] -= self.learning_rate * first / (np.sqrt(second) + 1e-8)
            weights[name] -= self.learning_rate * CONFIG["weight_decay"] * weights[name]
