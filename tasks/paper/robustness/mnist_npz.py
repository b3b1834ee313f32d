"""MNIST as the one file that the adversarial robustness toolbox reads, from the four raw files.

python mnist_npz.py RAW OUT
"""

import sys
from pathlib import Path

import numpy as np

HEADER = {"images": 16, "labels": 8}


def read(path: Path) -> np.ndarray:
    """Images as (n, 28, 28), labels as (n,), both uint8."""
    kind = "images" if "images" in path.name else "labels"
    values = np.frombuffer(path.read_bytes()[HEADER[kind] :], np.uint8)
    return values.reshape(-1, 28, 28) if kind == "images" else values


if __name__ == "__main__":
    raw, out = map(Path, sys.argv[1:3])
    arrays = {}
    for part, name in (("train", "train"), ("test", "t10k")):
        arrays[f"x_{part}"] = read(raw / f"{name}-images-idx3-ubyte")
        arrays[f"y_{part}"] = read(raw / f"{name}-labels-idx1-ubyte")
    np.savez_compressed(out / "mnist.npz", **arrays)
