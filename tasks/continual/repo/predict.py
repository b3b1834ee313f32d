"""Score images of all contexts with the final state (protected).

    python predict.py --data DATA --out OUT

Reads OUT/state.npz and DATA/eval/inputs.npz (`id` (n,), `images` (n, 28, 28)); writes
OUT/predictions.npz: `id` (n,) and `scores` (n, 10), the largest being the predicted digit.
"""

import argparse
from pathlib import Path

import numpy as np
from learner import predict

BATCH = 50


def main() -> None:
    """Predict batch by batch."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    with np.load(arguments.out / "state.npz", allow_pickle=False) as file:
        state = {name: file[name] for name in file.files}
    inputs = np.load(arguments.data / "eval" / "inputs.npz")
    images = inputs["images"]
    batches = [images[start : start + BATCH] for start in range(0, len(images), BATCH)]
    scores = np.concatenate([predict(state, batch) for batch in batches])
    np.savez(arguments.out / "predictions.npz", id=inputs["id"], scores=scores)


if __name__ == "__main__":
    main()
