"""Train on the data of each study (protected).

    python train.py --out OUT --seed SEED

Reads OUT/training/study_0.npz and so on: `images` (1000, 28, 28) uint8, `labels` (1000,). Writes
OUT/model_0.npz and so on. The studies are independent; `train` is called once for each.
"""

import argparse
from pathlib import Path

import numpy as np
from defence import train

STUDIES = 3


def main() -> None:
    """Train one model per study and save them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    for study in range(STUDIES):
        with np.load(arguments.out / "training" / f"study_{study}.npz") as data:
            images, labels = data["images"], data["labels"]
        model = train(images, labels, np.random.default_rng([arguments.seed, study]))
        arrays = {name: plain(name, value) for name, value in model.items()}
        np.savez(arguments.out / f"model_{study}.npz", **arrays)


def plain(name: str, value: np.ndarray) -> np.ndarray:
    """The value as an array of numbers. Raises TypeError."""
    array = np.asarray(value)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"model[{name!r}] is not an array of numbers but {type(value).__name__}")
    return array


if __name__ == "__main__":
    main()
