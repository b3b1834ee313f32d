"""Score images of all contexts with the final states (protected).

    python predict.py --data DATA --out OUT

Reads OUT/state_0.npz and so on, and DATA/eval/inputs.npz (`id` (n,), `images` (n, 28, 28)); writes
OUT/predictions.npz: `id` (n,) and `scores` (replicates, n, 10), the largest of the ten being the
predicted digit.
"""

import argparse
from pathlib import Path

import numpy as np
from learner import predict

REPLICATES = 3
BATCH = 50


def main() -> None:
    """Predict with each replicate's state."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    inputs = np.load(arguments.data / "eval" / "inputs.npz")
    states = [arguments.out / f"state_{replicate}.npz" for replicate in range(REPLICATES)]
    scores = np.stack([all_scores(state, inputs["images"]) for state in states])
    np.savez(arguments.out / "predictions.npz", id=inputs["id"], scores=scores)


def all_scores(path: Path, images: np.ndarray) -> np.ndarray:
    """Scores (n, 10) of images (n, 28, 28), asked for in batches."""
    with np.load(path, allow_pickle=False) as file:
        state = {name: file[name] for name in file.files}
    batches = [images[start : start + BATCH] for start in range(0, len(images), BATCH)]
    return np.concatenate([predict(state, batch) for batch in batches])


if __name__ == "__main__":
    main()
