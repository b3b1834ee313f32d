"""Random views of images: crops, turned and slanted.

Chen et al. 2020 (arXiv 2002.05709) show that the composition of augmentations decides what is
learned. Digits have no colour; what differs between two hands is slant and direction.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

STRENGTH = {
    "smallest_crop": 0.8,  # share of the image's area
    "rotation": 0.35,  # largest angle, in radians
    "shear": 0.4,  # largest shift of a row, relative to its height
}


def augment(images: Tensor) -> Tensor:
    """One random view of each image, (n, 1, 14, 14) -> the same shape."""
    return resample(images, random_maps(len(images)))


def random_maps(n: int) -> Tensor:
    """Affine maps (n, 2, 3) from a view's coordinates, -1..1, to the image's."""
    side = uniform(n, STRENGTH["smallest_crop"], 1.0).sqrt()
    linear = side[:, None, None] * rotations(n) @ shears(n)
    offset = (1 - side)[:, None, None] * uniform(2 * n, -1.0, 1.0).view(n, 2, 1)
    return torch.cat([linear, offset], dim=2)


def rotations(n: int) -> Tensor:
    """Random rotations (n, 2, 2)."""
    angle = uniform(n, -STRENGTH["rotation"], STRENGTH["rotation"])
    turn = [angle.cos(), -angle.sin(), angle.sin(), angle.cos()]
    return torch.stack(turn, dim=1).view(n, 2, 2)


def shears(n: int) -> Tensor:
    """Random slants (n, 2, 2)."""
    slant = torch.eye(2).repeat(n, 1, 1)
    slant[:, 0, 1] = uniform(n, -STRENGTH["shear"], STRENGTH["shear"])
    return slant


def uniform(n: int, low: float, high: float) -> Tensor:
    """n random numbers between low and high."""
    return torch.empty(n).uniform_(low, high)


def resample(images: Tensor, maps: Tensor) -> Tensor:
    """Images seen through affine maps, bilinear; black outside."""
    grid = F.affine_grid(maps, list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, align_corners=False)
