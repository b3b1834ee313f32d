"""The words by which names in research code tell what they are for. Lists only; see rules."""

import re

_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")

LOSS = frozenset(
    {"loss", "losses", "criterion", "objective", "penalty", "penalties", "risk", "risks", "cost"}
    | {"regularizer", "regulariser", "regularization", "regularisation", "regularized"}
    | {"regularised", "divergence", "entropy", "likelihood", "nll", "mse", "kl", "hinge"}
)
"""Functions and variables of the objective."""
DATA = frozenset(
    {"augment", "augmentation", "augmentations", "transform", "transforms", "preprocess"}
    | {"preprocessing", "dataset", "datasets", "dataloader", "loader", "sampler", "features"}
    | {"featurize", "inputs", "design", "mixup", "cutmix", "cutout", "crop", "flip", "jitter"}
)
"""Functions and files that make or change what is learned from."""
NETWORK = frozenset(
    {"network", "networks", "backbone", "encoder", "decoder", "layer", "layers", "block", "blocks"}
    | {"head", "heads", "architecture", "attention", "forward", "backward", "pooling", "conv"}
    | {"mlp", "representation", "represent"}
)
"""Functions, classes and files that say what is computed from what."""
INPUTS = frozenset(
    {"x", "xs", "image", "images", "img", "imgs", "input", "inputs", "batch", "batches", "data"}
    | {"sample", "samples"}
)
"""Variables that hold what is learned from."""
HIDDEN = frozenset({"hidden", "activation", "activations"})
"""Variables that hold what a network computes on its way."""
SETTINGS = frozenset({"config", "cfg", "args", "hparams", "settings", "options", "opt", "params"})
"""Variables that hold settings, beside names in capitals."""
RANDOM = frozenset(
    {"rand", "randn", "randint", "rand_like", "randn_like", "normal", "normal_", "standard_normal"}
    | {"uniform", "uniform_", "random", "integers", "permutation", "randperm", "shuffle", "choice"}
    | {"beta", "dirichlet", "laplace", "multinomial", "bernoulli", "poisson", "exponential"}
)
"""Functions that draw random numbers."""
LAYERS = re.compile(
    r"Linear|Dense|Conv\w*|Dropout\w*|\w*Norm(\d[dD])?|\w*Pool\w*|[A-Z]*[Ee]?L[Uu]|Sigmoid|Tanh"
    r"|\w*Attention|Embedding|LSTM|GRU|RNN|Transformer\w*|Sequential|Flatten|Identity"
)
"""Classes of layers, wherever they come from."""
MODULES = frozenset({"np", "numpy", "torch", "math", "float", "int", "min", "max", "abs", "round"})
"""What formulas of settings are written with."""
LIBRARIES = frozenset({"nn", "layers"})
"""Modules whose classes are layers."""


def words(name: str) -> frozenset[str]:
    """The words of a name, in lower case: `loss_gradient`, `MaskedLoss`; none of `__init__`."""
    if name.startswith("__"):
        return frozenset()
    return frozenset(part.lower() for part in _PART.findall(name))
