"""Reading the digits, for pre-training and for encoding. Not for changing them."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor


def load_unlabelled(folder: Path) -> Tensor:
    """Images (4000, 1, 14, 14) float32 in 0..1, in random order; there are no labels."""
    with np.load(folder / "images.npz") as data:
        return _scale(data["images"])


def load_inputs(folder: Path) -> tuple[np.ndarray, Tensor]:
    """Ids (n,) and images (n, 1, 14, 14) to be encoded."""
    with np.load(folder / "inputs.npz") as data:
        return data["id"], _scale(data["images"])


def _scale(pixels: np.ndarray) -> Tensor:
    return torch.tensor(pixels[:, None], dtype=torch.float32) / 255
