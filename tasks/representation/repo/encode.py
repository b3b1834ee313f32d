"""Turn the evaluation images into feature vectors (protected).

    python encode.py --data DATA --out OUT

Reads OUT/encoder.pt, OUT/untrained.pt and DATA/eval/inputs.npz; the training images are gone by
then. Writes OUT/features.npz: `id` (n,), `features` (n, d) and `untrained` (n, d), the same before
training. Exits with the reason if d is too large, or if the features of an image depend on the
images that are encoded with it.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import torch
from images import load_inputs
from model import build_encoder
from torch import Tensor, nn

DIMENSIONS = 256
"""Most numbers that an image may be turned into."""
BATCH = 50
TOLERANCE = 1e-3
"""Rounding, relative to the largest feature; the order of additions depends on the batch."""


def main() -> None:
    """Parse the command line, encode, save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with eval/")
    parser.add_argument("--out", type=Path, required=True, help="folder with the weights")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    ids, images = load_inputs(arguments.data / "eval")
    features = encode(load_encoder(arguments.out / "encoder.pt"), images)
    untrained = encode(load_encoder(arguments.out / "untrained.pt"), images)
    np.savez(arguments.out / "features.npz", id=ids, features=features, untrained=untrained)


def load_encoder(weights: Path) -> nn.Module:
    """The encoder of `model.py` with these weights, ready to encode."""
    encoder = build_encoder()
    encoder.load_state_dict(torch.load(weights, weights_only=True))
    return encoder.eval()


@torch.no_grad()
def encode(encoder: nn.Module, images: Tensor) -> np.ndarray:
    """Features (n, d), asked for twice, in batches of different images."""
    features = torch.cat([encoder(batch) for batch in images.split(BATCH)])
    if features.ndim != 2 or len(features) != len(images) or features.shape[1] > DIMENSIONS:
        sys.exit(f"features are (n, d) with d at most {DIMENSIONS}, not {tuple(features.shape)}")
    if not torch.isfinite(features).all():
        sys.exit("features must be finite")
    order = torch.randperm(len(images))
    again = torch.cat([encoder(images[rows]) for rows in order.split(BATCH // 2)])
    if (again - features[order]).abs().max() > TOLERANCE * features.abs().max():
        sys.exit("the features of an image depend on the images that are encoded with it")
    return features.numpy()


if __name__ == "__main__":
    main()
