"""A digit classifier trained on few private images: the usual training, which remembers them.

A network with one hidden layer, trained with Adam on the cross-entropy until it fits every example.
Nothing in it aims at privacy. It is the kind of model membership inference was found on (R. Shokri
et al., IEEE S&P 2017; S. Yeom et al., CSF 2018): it answers its training images with more
confidence, and more correctly, than others.

`train.py` calls `fit` once per set of members, each time in a new process; `predict.py` calls
`predict` in another one. All that lives on in between is the state, a dict of plain arrays.
"""

import numpy as np

CONFIG = {
    "hidden": 256,
    "epochs": 30,
    "batch_size": 100,
    "learning_rate": 0.003,
    "weight_decay": 0.0,
    "temperature": 1.0,
}
CLASSES = 10
INPUTS = 14 * 14

Array = np.ndarray
State = dict[str, Array]
Weights = dict[str, Array]


def fit(images: Array, labels: Array, rng: np.random.Generator) -> State:
    """Train on members: uint8 images (n, 28, 28), labels (n,); returns what `predict` needs."""
    rows = select(labels, rng)
    return train(images[rows] / np.float32(255.0), targets(labels[rows]), rng)


def predict(state: State, images: Array) -> Array:
    """Logits (n, 10) of uint8 images (n, 28, 28); softmax makes them probabilities."""
    logits, _ = forward(state, features(images / np.float32(255.0)))
    return release(logits)


def select(labels: Array, rng: np.random.Generator) -> Array:
    """Row numbers of the members that are used."""
    return np.arange(len(labels))


def targets(labels: Array) -> Array:
    """Class probabilities (n, 10) that the network is trained towards."""
    return np.eye(CLASSES, dtype=np.float32)[labels]


def augment(images: Array, rng: np.random.Generator) -> Array:
    """Change a minibatch of images (n, 28, 28) before it is used."""
    return images


def features(images: Array) -> Array:
    """Inputs of the network, (n, INPUTS): means of 2 x 2 pixels of images (n, 28, 28) in 0..1."""
    rows = images[:, ::2] + images[:, 1::2]
    return ((rows[:, :, ::2] + rows[:, :, 1::2]) / 4.0).reshape(len(images), INPUTS)


def release(logits: Array) -> Array:
    """What is told about an image, (n, 10) logits, from what the network computed."""
    return logits / CONFIG["temperature"]


def train(images: Array, y: Array, rng: np.random.Generator) -> Weights:
    """Minimise the loss on images (n, 28, 28) in 0..1 and targets (n, 10); the final weights."""
    weights = init_weights(rng)
    optimiser = Adam(weights)
    for epoch in range(CONFIG["epochs"]):
        order = rng.permutation(len(images))
        for rows in np.array_split(order, max(1, len(images) // CONFIG["batch_size"])):
            x = features(augment(images[rows], rng))
            logits, hidden = forward(weights, x)
            d_logits = loss_gradient(logits, y[rows])
            gradient = backward(weights, hidden, d_logits)
            optimiser.step(gradient, learning_rate(epoch))
    return weights


def learning_rate(epoch: int) -> float:
    """Step size in this epoch."""
    return CONFIG["learning_rate"]


def softmax(logits: Array) -> Array:
    """Probabilities (n, 10) of logits (n, 10)."""
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True)


def loss_gradient(logits: Array, y: Array) -> Array:
    """Gradient in the logits of the mean cross-entropy with targets (n, 10)."""
    return (softmax(logits) - y) / len(y)


def layer_sizes() -> list[int]:
    """Width of the input, of each hidden layer and of the output."""
    return [INPUTS, CONFIG["hidden"], CLASSES]


def init_weights(rng: np.random.Generator) -> Weights:
    """He initialisation, zero biases."""
    weights = {}
    for layer, (n_in, n_out) in enumerate(zip(layer_sizes()[:-1], layer_sizes()[1:], strict=True)):
        scale = np.sqrt(2.0 / n_in)
        weights[f"w{layer}"] = (scale * rng.standard_normal((n_in, n_out))).astype(np.float32)
        weights[f"b{layer}"] = np.zeros(n_out, dtype=np.float32)
    return weights


def forward(weights: Weights, x: Array) -> tuple[Array, list[Array]]:
    """Logits (n, 10) of inputs (n, INPUTS), and the inputs of every layer."""
    hidden = [x]
    depth = len(layer_sizes()) - 1
    for layer in range(depth - 1):
        z = hidden[-1] @ weights[f"w{layer}"] + weights[f"b{layer}"]
        hidden.append(np.maximum(z, 0.0))
    logits = hidden[-1] @ weights[f"w{depth - 1}"] + weights[f"b{depth - 1}"]
    return logits, hidden


def backward(weights: Weights, hidden: list[Array], d_logits: Array) -> Weights:
    """Gradient in all weights, given the gradient in the logits and what `forward` kept."""
    gradient = {}
    delta = d_logits
    for layer in reversed(range(len(hidden))):
        gradient[f"w{layer}"] = hidden[layer].T @ delta
        gradient[f"b{layer}"] = delta.sum(axis=0)
        delta = (delta @ weights[f"w{layer}"].T) * (hidden[layer] > 0)
    return gradient


class Adam:
    """Adam with decoupled weight decay (I. Loshchilov and F. Hutter, ICLR 2019)."""

    def __init__(self, weights: Weights) -> None:
        """Start with empty moments; `step` changes `weights` in place."""
        self.weights = weights
        self.steps = 0
        self.first = {name: np.zeros_like(w) for name, w in weights.items()}
        self.second = {name: np.zeros_like(w) for name, w in weights.items()}

    def step(self, gradient: Weights, rate: float) -> None:
        """Move the weights against the gradient."""
        self.steps += 1
        for name, g in gradient.items():
            self.first[name] += 0.1 * (g - self.first[name])
            self.second[name] += 0.001 * (g**2 - self.second[name])
            first = self.first[name] / (1.0 - 0.9**self.steps)
            second = self.second[name] / (1.0 - 0.999**self.steps)
            self.weights[name] -= rate * first / (np.sqrt(second) + 1e-8)
            self.weights[name] -= rate * CONFIG["weight_decay"] * self.weights[name]
