"""Random views of images, for learning what they have in common.

Crops after C. Szegedy et al., "Going deeper with convolutions", 2015 (arXiv 1409.4842), as used by
He et al. 2020: a random part of the image, enlarged to the full size. Digits need no colour.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

STRENGTH = {
    "smallest_crop": 0.8,  # share of the image's area
}


def augment(images: Tensor) -> Tensor:
    """One random view of each image, (n, 1, 14, 14) -> the same shape."""
    views = resample(images, random_maps(len(images)))
    return recolour(views)


def random_maps(n: int) -> Tensor:
    """Affine maps (n, 2, 3) from a view's coordinates, -1..1, to the image's."""
    side = uniform(n, STRENGTH["smallest_crop"], 1.0).sqrt()
    linear = side[:, None, None] * torch.eye(2)
    offset = (1 - side)[:, None, None] * uniform(2 * n, -1.0, 1.0).view(n, 2, 1)
    return torch.cat([linear, offset], dim=2)


def recolour(views: Tensor) -> Tensor:
    """Change the grey values; crops alone leave them as they are."""
    return views


def uniform(n: int, low: float, high: float) -> Tensor:
    """n random numbers between low and high."""
    return torch.empty(n).uniform_(low, high)


def resample(images: Tensor, maps: Tensor) -> Tensor:
    """Images seen through affine maps, bilinear; black outside."""
    grid = F.affine_grid(maps, list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, align_corners=False)
