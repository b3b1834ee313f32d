"""Train `model.py` on resampled training rows and write its predictions (protected).

    python run.py --data DATA --out OUT --seed SEED

Each of `config.REPLICATES` replicates trains on its own random share of the training rows and
predicts every evaluation row; the reported metrics are means over replicates. OUT/predictions.npz
holds `id` (n,) and `label` (replicates, n), values 0 and 1.
"""

import argparse
from pathlib import Path

import numpy as np
from config import REPLICATES, SHARE
from model import fit, predict


def main() -> None:
    """Run all replicates."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    train = np.load(arguments.data / "train" / "train.npz")
    inputs = np.load(arguments.data / "eval" / "inputs.npz")
    labels = [
        one_replicate(train, inputs, np.random.default_rng([arguments.seed, replicate]))
        for replicate in range(REPLICATES)
    ]
    np.savez(arguments.out / "predictions.npz", id=inputs["id"], label=np.stack(labels))


def one_replicate(train: dict, inputs: dict, rng: np.random.Generator) -> np.ndarray:
    """Predicted labels (n,) of the evaluation rows by a model of one resampled training set."""
    total = len(train["id"])
    rows = rng.choice(total, int(SHARE * total), replace=False)
    model = fit(train["features"][rows], train["label"][rows], train["group"][rows], rng)
    return np.asarray(predict(model, inputs["features"], inputs["group"]))


if __name__ == "__main__":
    main()
