"""Load the trained models and label the images of the evaluation set.

Runs without the training data. Writes predictions.npz: `id` (n,) and `prediction` (n, REPLICATES),
0 or 1.
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from algorithm import Algorithm
from environments import REPLICATES, load_inputs
from torch import Tensor

BATCH = 100


@torch.no_grad()
def predict(model: Path, images: Tensor) -> np.ndarray:
    """Return the labels (n,) that one trained model gives to images (n, 2, 14, 14)."""
    algorithm = Algorithm()
    algorithm.load_state_dict(torch.load(model, weights_only=True))
    algorithm.eval()
    logits = torch.cat([algorithm.predict(batch) for batch in images.split(BATCH)])
    if logits.shape != (len(images),) or not torch.isfinite(logits).all():
        raise ValueError(f"predict() must return one finite logit per image, got {logits.shape}")
    return (logits > 0).long().numpy()


def main() -> None:
    """Parse the command line, predict, save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with eval/")
    parser.add_argument("--out", type=Path, required=True, help="folder with the weights")
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    ids, images = load_inputs(args.data / "eval")
    models = [args.out / f"model_{replicate}.pt" for replicate in range(REPLICATES)]
    labels = np.stack([predict(model, images) for model in models], axis=1)
    np.savez(args.out / "predictions.npz", id=ids, prediction=labels)


if __name__ == "__main__":
    main()
