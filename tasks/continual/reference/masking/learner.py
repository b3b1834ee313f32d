"""Synaptic Intelligence on split MNIST: a network that is pulled back to what it had learned.

F. Zenke, B. Poole and S. Ganguli, "Continual learning through synaptic intelligence", ICML 2017
(arXiv 1703.04200). While a context is learned, every weight collects its share in the decrease of
the loss; in later contexts the weights that mattered are held by a quadratic penalty. Classes are
told apart over everything seen so far, without being told the context: class-incremental learning
(G. van de Ven, T. Tuytelaars and A. Tolias, Nature Machine Intelligence 2022). In the softmax only
the classes of the current context compete, the "labels trick" (C. Zeno et al., arXiv 1803.10123).

`learn.py` calls `learn` once per context, each time in a new process; `predict.py` calls `predict`.
All that lives on between the calls is the state, a dict of plain arrays.
"""

import numpy as np

CONFIG = {
    "hidden": 100,
    "epochs": 5,
    "batch_size": 64,
    "learning_rate": 0.001,
    "strength": 100.0,  # of the penalty, `c` in the paper
    "damping": 0.1,  # keeps importances finite, `xi` in the paper
}
CLASSES = 10
INPUTS = 28 * 28

Array = np.ndarray
State = dict[str, Array]
Weights = dict[str, Array]


def initial_state(rng: np.random.Generator) -> State:
    """What is known before the first context: random weights that matter nothing."""
    weights = init_weights(rng)
    importance = {f"importance_{name}": np.zeros_like(w) for name, w in weights.items()}
    return {**weights, **importance, "seen": np.zeros(CLASSES, dtype=bool)}


def learn(state: State, images: Array, labels: Array, rng: np.random.Generator) -> State:
    """Learn one context: uint8 images (n, 28, 28), labels (n,); returns the new state."""
    x = features(images)
    seen = state["seen"] | (np.bincount(labels, minlength=CLASSES) > 0)
    new = {"seen": seen, **remember(state, x, labels)}
    weights = {name: state[name].copy() for name in weight_names()}
    importance = {name: state[f"importance_{name}"] for name in weights}
    path = train(weights, importance, x, labels, active_classes(seen, labels), rng)
    for name, w in weights.items():
        gain = share_of_gain(path[name], w - state[name])
        new |= {name: w, f"importance_{name}": importance[name] + gain}
    return new


def predict(state: State, images: Array) -> Array:
    """Scores (n, 10) of uint8 images (n, 28, 28); the largest one is the predicted digit."""
    logits, _ = forward({name: state[name] for name in weight_names()}, features(images))
    return np.where(state["seen"], logits, -1e9)


def features(images: Array) -> Array:
    """Inputs of the network, (n, INPUTS), from uint8 images (n, 28, 28)."""
    return images.reshape(len(images), INPUTS).astype(np.float32) / 255.0


def remember(state: State, x: Array, labels: Array) -> State:
    """What the state keeps of a context besides weights; SI keeps nothing."""
    return {}


def augment(x: Array, rng: np.random.Generator) -> Array:
    """Change a minibatch (n, d) before it is used; SI leaves it alone."""
    return x


def active_classes(seen: Array, labels: Array) -> Array:
    """Only the classes of the context itself, (10,) bool: old ones are not pushed down."""
    return np.bincount(labels, minlength=CLASSES) > 0


def train(
    weights: Weights,
    importance: Weights,
    x: Array,
    labels: Array,
    active: Array,
    rng: np.random.Generator,
) -> Weights:
    """Minimise loss + penalty, changing `weights`; returns each weight's part in the decrease."""
    anchor = {name: w.copy() for name, w in weights.items()}
    path = {name: np.zeros_like(w) for name, w in weights.items()}
    optimiser = Adam(CONFIG["learning_rate"])
    for _ in range(CONFIG["epochs"]):
        order = rng.permutation(len(x))
        for rows in np.array_split(order, max(1, len(x) // CONFIG["batch_size"])):
            logits, hidden = forward(weights, augment(x[rows], rng))
            d_logits = loss_gradient(logits, labels[rows], active)
            gradient = backward(weights, hidden, d_logits)
            total = {
                name: g + penalty_gradient(importance[name], weights[name] - anchor[name])
                for name, g in gradient.items()
            }
            for name, change in optimiser.step(total).items():
                weights[name] += change
                path[name] -= gradient[name] * change
    return path


def share_of_gain(path: Array, moved: Array) -> Array:
    """Importance that weights gain in one context (equation 5 of the paper)."""
    return np.maximum(path, 0.0) / (moved**2 + CONFIG["damping"])


def penalty_gradient(importance: Array, moved: Array) -> Array:
    """Gradient of the quadratic penalty that holds important weights (equation 4)."""
    return 2.0 * CONFIG["strength"] * importance * moved


def loss_gradient(logits: Array, labels: Array, active: Array) -> Array:
    """Gradient in the logits (n, 10) of the mean cross-entropy over the active classes."""
    z = np.where(active, logits, -np.inf)
    p = np.exp(z - z.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    p[np.arange(len(labels)), labels] -= 1.0
    return p / len(labels)


def layer_sizes() -> list[int]:
    """Width of the input, of each hidden layer and of the output."""
    return [INPUTS, CONFIG["hidden"], CONFIG["hidden"], CLASSES]


def weight_names() -> list[str]:
    """Names of the network's weights: w0, b0, w1, ..."""
    return [f"{kind}{layer}" for layer in range(len(layer_sizes()) - 1) for kind in "wb"]


def init_weights(rng: np.random.Generator) -> Weights:
    """He initialisation, zero biases."""
    weights = {}
    for layer, (n_in, n_out) in enumerate(zip(layer_sizes()[:-1], layer_sizes()[1:], strict=True)):
        scale = np.sqrt(2.0 / n_in)
        weights[f"w{layer}"] = (scale * rng.standard_normal((n_in, n_out))).astype(np.float32)
        weights[f"b{layer}"] = np.zeros(n_out, dtype=np.float32)
    return weights


def forward(weights: Weights, x: Array) -> tuple[Array, list[Array]]:
    """Logits (n, 10), and the inputs of every layer."""
    hidden = [x]
    depth = len(weights) // 2
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
    """Adam (D. P. Kingma and J. Ba, ICLR 2015); starts afresh in every context."""

    def __init__(self, learning_rate: float) -> None:
        """Start with empty moments."""
        self.learning_rate = learning_rate
        self.steps = 0
        self.first: Weights = {}
        self.second: Weights = {}

    def step(self, gradient: Weights) -> Weights:
        """Change of each weight."""
        self.steps += 1
        change = {}
        for name, g in gradient.items():
            self.first[name] = 0.9 * self.first.get(name, 0.0) + 0.1 * g
            self.second[name] = 0.999 * self.second.get(name, 0.0) + 0.001 * g**2
            first = self.first[name] / (1.0 - 0.9**self.steps)
            second = self.second[name] / (1.0 - 0.999**self.steps)
            change[name] = -self.learning_rate * first / (np.sqrt(second) + 1e-8)
        return change
