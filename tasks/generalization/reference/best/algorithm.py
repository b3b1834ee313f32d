"""V-REx with averaged weights and longer training.

Risk extrapolation (Krueger et al. 2021, arXiv 2003.00688) leaves the last iterate noisy, so
predictions come from the mean of the weights of the last steps, as in SWAD (Cha et al. 2021, arXiv
2102.08604).
"""

import torch
import torch.nn.functional as F
from optimizer import Adam
from torch import Tensor, nn

HPARAMS = {
    "hidden": 64,
    "dropout": 0.0,
    "learning_rate": 0.003,
    "l2": 0.0002,
    "steps": 150,
    "batch_size": 256,
    "penalty_weight": 10000.0,
    "warmup_steps": 40,
    "averaging_from": 80,
}

IMAGE_SHAPE = (2, 14, 14)  # colour channels, height, width


def build_network() -> nn.Module:
    """Two hidden layers on the flattened image; (n, 2, 14, 14) -> (n, 1) logits."""
    hidden = HPARAMS["hidden"]
    layers = nn.Sequential(
        nn.Flatten(),
        nn.Linear(IMAGE_SHAPE[0] * IMAGE_SHAPE[1] * IMAGE_SHAPE[2], hidden),
        nn.ReLU(),
        nn.Dropout(HPARAMS["dropout"]),
        nn.Linear(hidden, hidden),
        nn.ReLU(),
        nn.Linear(hidden, 1),
    )
    layers.apply(initialise)
    return layers


def initialise(module: nn.Module) -> None:
    """Xavier weights and zero biases, as in the reference code of IRM."""
    if isinstance(module, nn.Linear):
        nn.init.xavier_uniform_(module.weight)
        nn.init.zeros_(module.bias)


def build_optimizer(network: nn.Module) -> Adam:
    """One optimiser for the whole network."""
    return Adam(network.parameters(), lr=HPARAMS["learning_rate"])


def augment(images: Tensor) -> Tensor:
    """Change training images (n, 2, 14, 14) before they are used; ERM leaves them alone."""
    return images


def risk(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean loss of one environment; logits (n,) and labels (n,) -> scalar."""
    return F.binary_cross_entropy_with_logits(logits, labels)


def combine(risks: Tensor) -> Tensor:
    """One objective from the risks of the environments, (e,) -> scalar."""
    return risks.mean()


def penalty(logits: list[Tensor], labels: list[Tensor], risks: Tensor) -> Tensor:
    """Variance of the risks over the environments."""
    return risks.var()


def penalty_weight(step: int) -> float:
    """Small while the features form, then large (appendix D of the IRM paper)."""
    return HPARAMS["penalty_weight"] if step >= HPARAMS["warmup_steps"] else 1.0


class Algorithm(nn.Module):
    """A network and how it is trained. What `predict` needs must be in `state_dict()`."""

    def __init__(self) -> None:
        super().__init__()
        self.network = build_network()
        self.average = build_network()
        self.averaged = 0
        self.optimizer = build_optimizer(self.network)

    def update(self, batches: list[tuple[Tensor, Tensor]], step: int) -> dict[str, float]:
        """One step on a minibatch (images, labels) of every environment; values to be logged."""
        labels = [batch_labels for _, batch_labels in batches]
        images = torch.cat([augment(batch_images) for batch_images, _ in batches])
        logits = list(self.network(images).squeeze(1).split([len(y) for y in labels]))
        risks = torch.stack([risk(f, y) for f, y in zip(logits, labels, strict=True)])
        weight = penalty_weight(step)
        loss = combine(risks) + weight * penalty(logits, labels, risks) + self.l2_norm()
        loss = loss / max(1.0, weight)  # keeps the gradients' size when the weight is large
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        if step >= HPARAMS["averaging_from"]:
            self.fold_into_average()
        return {"loss": loss.item(), "risk": risks.mean().item()}

    def l2_norm(self) -> Tensor:
        """Weighted squared size of all parameters."""
        return HPARAMS["l2"] * sum(p.pow(2).sum() for p in self.network.parameters())

    def predict(self, images: Tensor) -> Tensor:
        """Logits (n,) of images (n, 2, 14, 14); a positive one means label 1."""
        return self.average(images).squeeze(1)

    @torch.no_grad()
    def fold_into_average(self) -> None:
        """Move the running mean of the weights towards the current ones."""
        self.averaged += 1
        for mean, current in zip(self.average.parameters(), self.network.parameters(), strict=True):
            mean.lerp_(current, 1 / self.averaged)
