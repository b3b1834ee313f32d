"""Momentum contrast: an encoder, a projection, and the loss that teaches them.

K. He, H. Fan, Y. Wu, S. Xie and R. Girshick, "Momentum contrast for unsupervised visual
representation learning", CVPR 2020 (arXiv 1911.05722). Two views of an image should have similar
projections. One goes through the encoder (query), the other through a slowly moving copy of it
(key); keys of earlier images wait in a queue and serve as negatives.

`pretrain.py` calls `Method.update` on minibatches of unlabelled images and keeps the weights of
`Method.encoder`; `encode.py` loads them into what `build_encoder` returns.
"""

import copy

import torch
import torch.nn.functional as F
from augment import augment
from optimizer import Adam
from torch import Tensor, nn

CONFIG = {
    "width": 24,  # channels of the first block
    "projection": 64,
    "temperature": 0.2,
    "momentum": 0.99,  # of the key encoder
    "queue": 1024,
    "learning_rate": 0.004,
    "weight_decay": 0.0,
    "batch_size": 256,
    "epochs": 4,
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
    return nn.Linear(features, CONFIG["projection"])


def contrastive_loss(queries: Tensor, keys: Tensor, queue: Tensor) -> Tensor:
    """InfoNCE: tell the key of the same image, (n, p), from those in the queue, (q, p)."""
    positive = (queries * keys).sum(dim=1, keepdim=True)
    negative = queries @ queue.T
    logits = torch.cat([positive, negative], dim=1) / CONFIG["temperature"]
    return F.cross_entropy(logits, torch.zeros(len(queries), dtype=torch.long))


def learning_rate(progress: float) -> float:
    """Step size when the share `progress` of the training is done, 0 to 1."""
    return CONFIG["learning_rate"]


class Method(nn.Module):
    """All that is needed in training; `encoder` is what remains."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = build_encoder()
        with torch.no_grad():
            features = self.encoder.eval()(torch.zeros(1, 1, 14, 14)).shape[1]
        self.encoder.train()
        self.head = build_head(features)
        self.key_encoder = copy.deepcopy(self.encoder)
        self.key_head = copy.deepcopy(self.head)
        self.queue = F.normalize(torch.randn(CONFIG["queue"], CONFIG["projection"]), dim=1)
        learned = [*self.encoder.parameters(), *self.head.parameters()]
        self.optimizer = Adam(learned, lr=0.0, weight_decay=CONFIG["weight_decay"])

    def update(self, images: Tensor, progress: float) -> float:
        """One step on a minibatch (n, 1, 14, 14) of values in 0..1; its loss, to be logged."""
        loss = self.loss(augment(images), augment(images))
        self.optimizer.lr = learning_rate(progress)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def loss(self, first: Tensor, second: Tensor) -> Tensor:
        """Compare two views of the same images."""
        self.follow()
        queries = self.project(first)
        keys = self.project_keys(second)
        loss = contrastive_loss(queries, keys, self.queue)
        self.remember(keys)
        return loss

    def project(self, views: Tensor) -> Tensor:
        """Unit vectors (n, p) of the learning encoder."""
        return F.normalize(self.head(self.encoder(views)), dim=1)

    @torch.no_grad()
    def project_keys(self, views: Tensor) -> Tensor:
        """Unit vectors (n, p) of the slowly moving encoder; no gradient."""
        return F.normalize(self.key_head(self.key_encoder(views)), dim=1)

    @torch.no_grad()
    def follow(self) -> None:
        """Move the key encoder a little towards the learning one."""
        pairs = [(self.key_encoder, self.encoder), (self.key_head, self.head)]
        for slow, fast in pairs:
            for old, new in zip(slow.parameters(), fast.parameters(), strict=True):
                old.lerp_(new, 1 - CONFIG["momentum"])

    def remember(self, keys: Tensor) -> None:
        """Put keys in front of the queue; the oldest drop out."""
        self.queue = torch.cat([keys, self.queue])[: CONFIG["queue"]]
