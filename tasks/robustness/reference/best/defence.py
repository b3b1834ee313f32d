"""Train a digit classifier on poisoned data: leave out what its neighbours contradict.

A patch of nine pixels hardly moves an image, so the nearest neighbours of a poisoned one still have
its true label, and it is left out (the k-NN defence of N. Peri et al., "Deep k-NN defense against
clean-label data poisoning attacks", 2020, arXiv 1909.13374, here on pixels). Shifts by a pixel
make up for the examples lost and take the rest of the patches out of their place.

`train.py` calls `train` once per study, `predict.py` calls `predict` once per image. The model is a
dict of plain arrays.
"""

import numpy as np

CONFIG = {
    "hidden": 64,
    "epochs": 40,
    "batch_size": 50,
    "learning_rate": 0.002,
    "weight_decay": 0.0,
}
CLASSES = 10
SIDE = 28

Array = np.ndarray
Model = dict[str, Array]


def train(images: Array, labels: Array, rng: np.random.Generator) -> Model:
    """Learn from uint8 images (n, 28, 28) and labels (n,), some of which are poisoned."""
    x, targets = features(images), one_hot(labels)
    rows = trusted_rows(x, labels, rng)
    model = init_model(rng)
    fit(model, x[rows], targets[rows], CONFIG["epochs"], rng)
    return finish(model, x[rows])


def predict(model: Model, image: Array) -> Array:
    """Scores (10,) of one uint8 image (28, 28); the largest one is the predicted digit."""
    return probabilities(model, views(features(image[None]))).mean(axis=0)


def features(images: Array) -> Array:
    """Network inputs (n, 28, 28) in 0..1 from uint8 images (n, 28, 28)."""
    return images.astype(np.float32) / 255.0


def one_hot(labels: Array) -> Array:
    """Targets (n, 10) of labels (n,)."""
    return np.eye(CLASSES, dtype=np.float32)[labels]


def trusted_rows(x: Array, labels: Array, rng: np.random.Generator) -> Array:
    """Rows whose label is the most frequent one among the ten nearest other images."""
    flat = x.reshape(len(x), -1)
    length = (flat**2).sum(axis=1)
    distance = length[:, None] + length - 2.0 * flat @ flat.T
    np.fill_diagonal(distance, np.inf)
    nearest = np.argpartition(distance, 10, axis=1)[:, :10]
    votes = np.stack([(labels[nearest] == digit).sum(axis=1) for digit in range(CLASSES)], axis=1)
    return np.flatnonzero(votes.argmax(axis=1) == labels)


def augment(x: Array, rng: np.random.Generator) -> Array:
    """Shift every image by up to a pixel in each direction, by a distance of its own."""
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1)))
    start = rng.integers(0, 3, size=(len(x), 2, 1))
    rows, columns = start[:, 0] + np.arange(SIDE), start[:, 1] + np.arange(SIDE)
    return padded[np.arange(len(x))[:, None, None], rows[:, :, None], columns[:, None, :]]


def mix(x: Array, targets: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Combine the images (n, 28, 28) of a minibatch, and their targets (n, 10), with each other."""
    return x, targets


def disturb(x: Array, rng: np.random.Generator) -> Array:
    """Add noise to the images (n, 28, 28) of a minibatch."""
    return x


def finish(model: Model, x: Array) -> Model:
    """Change the trained network with the help of the images (n, 28, 28) it was trained on."""
    return model


def views(x: Array) -> Array:
    """Versions (v, 28, 28) of one image (1, 28, 28) whose probabilities are averaged."""
    return x


def fit(model: Model, x: Array, targets: Array, epochs: int, rng: np.random.Generator) -> None:
    """Minimise the cross-entropy with Adam, changing the model in place."""
    optimiser = Adam(CONFIG["learning_rate"])
    for _ in range(epochs):
        order = rng.permutation(len(x))
        for rows in np.array_split(order, max(1, len(x) // CONFIG["batch_size"])):
            batch = augment(x[rows], rng)
            batch, wanted = mix(batch, targets[rows], rng)
            gradient = batch_gradient(model, disturb(batch, rng), wanted)
            for name, change in optimiser.step(regularised(gradient, model, rng)).items():
                model[name] += change


def batch_gradient(model: Model, x: Array, targets: Array) -> Model:
    """Mean gradient of the loss over a minibatch."""
    hidden, logits = forward(model, x)
    d_logits = example_weights(logits, targets) * (softmax(logits) - targets) / len(x)
    return backward(model, x, hidden, d_logits)


def example_weights(logits: Array, targets: Array) -> Array:
    """How much each example of a minibatch counts, (n, 1)."""
    return np.ones((len(targets), 1), dtype=np.float32)


def regularised(gradient: Model, model: Model, rng: np.random.Generator) -> Model:
    """The gradient after weight decay."""
    return {name: g + CONFIG["weight_decay"] * model[name] for name, g in gradient.items()}


def init_model(rng: np.random.Generator) -> Model:
    """He initialisation, zero biases."""
    sizes = [SIDE * SIDE, CONFIG["hidden"], CLASSES]
    model = {}
    for layer, (n_in, n_out) in enumerate(zip(sizes[:-1], sizes[1:], strict=True)):
        scale = np.sqrt(2.0 / n_in)
        model[f"w{layer}"] = (scale * rng.standard_normal((n_in, n_out))).astype(np.float32)
        model[f"b{layer}"] = np.zeros(n_out, dtype=np.float32)
    return model


def forward(model: Model, x: Array) -> tuple[Array, Array]:
    """Hidden activations (n, hidden) and logits (n, 10) of inputs (n, 28, 28)."""
    hidden = np.maximum(x.reshape(len(x), -1) @ model["w0"] + model["b0"], 0.0)
    return hidden, hidden @ model["w1"] + model["b1"]


def backward(model: Model, x: Array, hidden: Array, d_logits: Array) -> Model:
    """Gradient in all weights, given the gradient in the logits (n, 10)."""
    d_hidden = (d_logits @ model["w1"].T) * (hidden > 0)
    return {
        "w0": x.reshape(len(x), -1).T @ d_hidden,
        "b0": d_hidden.sum(axis=0),
        "w1": hidden.T @ d_logits,
        "b1": d_logits.sum(axis=0),
    }


def probabilities(model: Model, x: Array) -> Array:
    """Class probabilities (n, 10) of inputs (n, 28, 28)."""
    return softmax(forward(model, x)[1])


def softmax(logits: Array) -> Array:
    """Probabilities (n, 10) of logits (n, 10)."""
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True)


class Adam:
    """Adam (D. P. Kingma and J. Ba, ICLR 2015)."""

    def __init__(self, learning_rate: float) -> None:
        """Start with empty moments."""
        self.learning_rate = learning_rate
        self.steps = 0
        self.first: Model = {}
        self.second: Model = {}

    def step(self, gradient: Model) -> Model:
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
