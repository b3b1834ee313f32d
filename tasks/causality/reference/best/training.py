"""Fits DragonNet to one observational study and predicts individual effects of new units.

`estimate_effects` is what run.py calls; everything below it may change.
"""

import numpy as np
import torch
from dragonnet import DragonNet, total_loss
from numpy.typing import NDArray
from optim import Adam
from torch import Tensor

TRAINING = {
    "epochs": 50,
    "batch_size": 128,
    "learning_rate": 1e-2,
    "weight_decay": 1e-2,
}

Array = NDArray[np.float32]


def estimate_effects(x: Array, t: Array, y: Array, x_new: Array, seed: int) -> Array:
    """Individual effects (m,) of units with covariates x_new (m, d).

    x (n, d), t (n,) and y (n,) are covariates, treatment (0 or 1) and factual outcome of the study.
    """
    torch.manual_seed(seed)
    centre, scale = y.mean(), y.std()
    study = [torch.from_numpy(a) for a in (x, t, (y - centre) / scale)]
    models = [fit(*study) for _ in range(3)]
    effect = torch.stack([predict(m, torch.from_numpy(x_new)) for m in models]).mean(dim=0)
    return (effect * scale).numpy()


def fit(x: Tensor, t: Tensor, y: Tensor) -> DragonNet:
    """Train one network on standardised outcomes y."""
    model = DragonNet(x.shape[1])
    optimiser = make_optimiser(model)
    epochs = int(TRAINING["epochs"])
    for epoch in range(epochs):
        optimiser.lr = TRAINING["learning_rate"] * 0.5 * (1 + float(np.cos(np.pi * epoch / epochs)))
        train_epoch(model, optimiser, x, t, y)
    return model


def make_optimiser(model: DragonNet) -> Adam:
    """Adam; `fit` anneals its learning rate."""
    return Adam(
        model.parameters(),
        lr=TRAINING["learning_rate"],
        weight_decay=TRAINING["weight_decay"],
    )


def train_epoch(model: DragonNet, optimiser: Adam, x: Tensor, t: Tensor, y: Tensor) -> None:
    """One pass over shuffled batches."""
    model.train()
    for batch in torch.randperm(len(x)).split(int(TRAINING["batch_size"])):
        loss = total_loss(model, x[batch], t[batch], y[batch])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()


@torch.no_grad()
def predict(model: DragonNet, x: Tensor) -> Tensor:
    """Individual effects (n,) in units of the standardised outcome."""
    model.eval()
    prediction = model(x)
    return prediction.y1 - prediction.y0
