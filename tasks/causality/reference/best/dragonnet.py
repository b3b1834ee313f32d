"""DragonNet and its loss (Shi, Blei & Veitch 2019, "Adapting neural networks for the estimation of
treatment effects", NeurIPS). Network and objective only: optimisation is in training.py.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

NETWORK = {
    "width": 64,  # units of each layer of the shared representation
    "head_width": 32,  # units of each hidden layer of an outcome head
}
LOSS = {
    "propensity": 1.0,  # weight of the treatment's cross-entropy, "alpha" in the paper
    "targeted": 1.0,  # weight of the targeted regularisation, "beta" in the paper
}


class Prediction(NamedTuple):
    """Outputs for a batch of n units, each of shape (n,)."""

    y0: Tensor
    """Outcome without treatment."""
    y1: Tensor
    """Outcome with treatment."""
    logit: Tensor
    """Log odds of being treated."""


def representation(n_inputs: int, width: int) -> nn.Sequential:
    """Three layers shared by the outcome heads and the propensity head."""
    return nn.Sequential(
        nn.Linear(n_inputs, width),
        nn.ELU(),
        nn.Linear(width, width),
        nn.ELU(),
        nn.Linear(width, width),
        nn.ELU(),
    )


def outcome_head(n_inputs: int, width: int) -> nn.Sequential:
    """Two hidden layers and one output, for one treatment arm."""
    return nn.Sequential(
        nn.Linear(n_inputs, width),
        nn.ELU(),
        nn.Linear(width, width),
        nn.ELU(),
        nn.Linear(width, 1),
    )


class DragonNet(nn.Module):
    """Shared representation with three heads: outcome without and with treatment, propensity."""

    def __init__(self, n_inputs: int) -> None:
        super().__init__()
        width, head_width = NETWORK["width"], NETWORK["head_width"]
        self.shared = representation(n_inputs, width)
        self.head0 = outcome_head(width, head_width)
        self.head1 = outcome_head(width, head_width)
        self.propensity = nn.Linear(width, 1)
        self.epsilon = nn.Parameter(torch.zeros(1))

    def forward(self, x: Tensor) -> Prediction:
        """Predict both outcomes and the propensity of covariates x (n, d)."""
        z = self.shared(x)
        y0 = self.head0(z).squeeze(-1)
        y1 = y0 + self.head1(z).squeeze(-1)
        return Prediction(y0, y1, self.propensity(z).squeeze(-1))


def factual(prediction: Prediction, t: Tensor) -> Tensor:
    """Predicted outcome (n,) of the arm that each unit was in."""
    return torch.where(t > 0.5, prediction.y1, prediction.y0)


def outcome_loss(prediction: Prediction, t: Tensor, y: Tensor) -> Tensor:
    """Squared error of the factual outcome."""
    return F.mse_loss(factual(prediction, t), y)


def propensity_loss(prediction: Prediction, t: Tensor) -> Tensor:
    """Cross-entropy of the treatment: makes the representation keep what predicts it."""
    return F.binary_cross_entropy_with_logits(prediction.logit, t)


def targeted_loss(prediction: Prediction, epsilon: Tensor, t: Tensor, y: Tensor) -> Tensor:
    """Targeted regularisation: squared error after a perturbation along the efficient score."""
    g = torch.sigmoid(prediction.logit).clamp(0.01, 0.99)
    score = t / g - (1 - t) / (1 - g)
    return F.mse_loss(factual(prediction, t) + epsilon * score, y)


def total_loss(model: DragonNet, x: Tensor, t: Tensor, y: Tensor) -> Tensor:
    """Objective of a batch: x (n, d), t (n,), standardised y (n,)."""
    prediction = model(x)
    loss = outcome_loss(prediction, t, y)
    loss = loss + LOSS["propensity"] * propensity_loss(prediction, t)
    return loss + LOSS["targeted"] * targeted_loss(prediction, model.epsilon, t, y)
