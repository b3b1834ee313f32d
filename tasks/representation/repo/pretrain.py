"""Learn an encoder from unlabelled images and save its weights (protected).

    python pretrain.py --data DATA --out OUT --seed SEED

Reads DATA/train/images.npz. Writes OUT/encoder.pt, and OUT/untrained.pt with the weights before the
first step, so that what was learned can be told from what was built in.
"""

import argparse
from pathlib import Path

import torch
from images import load_unlabelled
from model import CONFIG, Method


def main() -> None:
    """Parse the command line, train, save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with train/")
    parser.add_argument("--out", type=Path, required=True, help="where the weights go")
    parser.add_argument("--seed", type=int, required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    images = load_unlabelled(arguments.data / "train")
    torch.manual_seed(arguments.seed)
    method = Method()
    torch.save(method.encoder.state_dict(), arguments.out / "untrained.pt")
    pretrain(method, images)
    torch.save(method.encoder.state_dict(), arguments.out / "encoder.pt")


def pretrain(method: Method, images: torch.Tensor) -> None:
    """Go through the images `CONFIG["epochs"]` times, in whole minibatches of a new order."""
    method.train()
    size = CONFIG["batch_size"]
    batches = len(images) // size
    steps = CONFIG["epochs"] * batches
    for epoch in range(CONFIG["epochs"]):
        order = torch.randperm(len(images))
        losses = [
            method.update(images[order[size * k : size * (k + 1)]], (epoch * batches + k) / steps)
            for k in range(batches)
        ]
        print(f"epoch {epoch}: mean loss {sum(losses) / batches:.3f}")


if __name__ == "__main__":
    main()
