"""SimCLR: contrast within the minibatch, nonlinear head.

T. Chen, S. Kornblith, M. Norouzi and G. Hinton, "A simple framework for contrastive learning of
visual representations", ICML 2020 (arXiv 2002.05709). Both views go through the learning encoder;
the other images of the minibatch are the negatives. No queue, no slowly moving copy.
"""

import torch
import torch.nn.functional as F
from augment import augment
from optimizer import Adam
from torch import Tensor, nn

CONFIG = {
    "width": 24,  # channels of the first block
    "projection": 64,
    "temperature": 0.2,
    "learning_rate": 0.004,
    "batch_size": 256,
    "epochs": 8,
}


def build_encoder() -> nn.Module:
    """Two strided convolutions, (n, 1, 14, 14) -> (n, d) features; d is at most 256."""
    width = CONFIG["width"]
    return nn.Sequential(
        block(1, width, kernel=5, stride=2),
        block(width, 2 * width, kernel=3, stride=2),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
    )


def block(inputs: int, outputs: int, kernel: int, stride: int) -> nn.Module:
    """Convolution, batch normalisation, ReLU."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(),
    )


def build_head(features: int) -> nn.Module:
    """From features to the vectors that are compared; not kept after training."""
    return nn.Sequential(
        nn.Linear(features, features),
        nn.BatchNorm1d(features),
        nn.ReLU(),
        nn.Linear(features, CONFIG["projection"]),
    )


def contrastive_loss(both: Tensor) -> Tensor:
    """NT-Xent of unit vectors (2n, p), the first views before the second ones."""
    logits = both @ both.T / CONFIG["temperature"]
    logits.fill_diagonal_(-torch.inf)
    return F.cross_entropy(logits, torch.arange(len(both)).roll(len(both) // 2))


class Method(nn.Module):
    """All that is needed in training; `encoder` is what remains."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = build_encoder()
        self.head = build_head(8 * CONFIG["width"])
        learned = [*self.encoder.parameters(), *self.head.parameters()]
        self.optimizer = Adam(learned, lr=CONFIG["learning_rate"])

    def update(self, images: Tensor, progress: float) -> float:
        """One step on a minibatch (n, 1, 14, 14) of values in 0..1; its loss, to be logged."""
        views = torch.cat([augment(images), augment(images)])
        loss = contrastive_loss(F.normalize(self.head(self.encoder(views)), dim=1))
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()
