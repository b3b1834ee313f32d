"""Reading the coloured digits, for training and for prediction. Not for choosing what to learn."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

REPLICATES = 3  # independent trainings per evaluation; the reported accuracy is their mean


@dataclass(frozen=True)
class Environment:
    """The training examples of one environment."""

    images: Tensor
    """(n, 2, 14, 14) float32 in 0..1; the channel that is not black is the colour."""
    labels: Tensor
    """(n,) float32, 0 or 1, wrong for a quarter of the images."""

    def sample(self, size: int) -> tuple[Tensor, Tensor]:
        """Draw a minibatch without replacement; a size of n or more gives the whole environment."""
        rows = torch.randperm(len(self.labels))[:size]
        return self.images[rows], self.labels[rows]


def load_environments(folder: Path) -> list[Environment]:
    """Read the training environments, in the order of their numbers."""
    with np.load(folder / "environments.npz") as data:
        images = _scale(data["images"])
        labels = torch.tensor(data["labels"], dtype=torch.float32)
        number = torch.tensor(data["environment"])
    return [Environment(images[number == e], labels[number == e]) for e in number.unique()]


def load_inputs(folder: Path) -> tuple[np.ndarray, Tensor]:
    """Read the ids (n,) and images (n, 2, 14, 14) to be predicted."""
    with np.load(folder / "inputs.npz") as data:
        return data["id"], _scale(data["images"])


def _scale(pixels: np.ndarray) -> Tensor:
    return torch.tensor(pixels, dtype=torch.float32) / 255
