"""Answer the queries with one model (protected).

    python predict.py --data DATA --out OUT

Reads OUT/state.npz and DATA/eval/inputs.npz: `id` (n,), `images` (n, 28, 28), members and others in
random order. Writes OUT/answers.npz: `id` (n,) and `logits` (n, 10). The members are gone by now.
"""

import argparse
from pathlib import Path

import numpy as np
from model import predict

BATCH = 500


def main() -> None:
    """Predict in batches."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    inputs = np.load(arguments.data / "eval" / "inputs.npz")
    with np.load(arguments.out / "state.npz", allow_pickle=False) as file:
        state = {name: file[name] for name in file.files}
    images = inputs["images"]
    batches = [images[start : start + BATCH] for start in range(0, len(images), BATCH)]
    logits = np.concatenate([predict(state, batch) for batch in batches])
    np.savez(arguments.out / "answers.npz", id=inputs["id"], logits=logits.astype(np.float32))


if __name__ == "__main__":
    main()
