"""Classify the held-out images of each study with the model of that study (protected).

    python predict.py --out OUT

Reads OUT/model_0.npz and so on, and OUT/inputs.npz: `id` (n,), `study` (n,), `images` (n, 28, 28).
Writes OUT/predictions.npz: `id` (n,) and `prediction` (n,). `predict` is called once per image: who
knows one image at a time cannot look for what many of them share.
"""

import argparse
from pathlib import Path

import numpy as np
from defence import predict

STUDIES = 3
CLASSES = 10


def main() -> None:
    """Predict every image."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    models = [load(arguments.out / f"model_{study}.npz") for study in range(STUDIES)]
    inputs = load(arguments.out / "inputs.npz")
    pairs = zip(inputs["study"], inputs["images"], strict=True)
    prediction = np.array([answer(models[study], image) for study, image in pairs])
    np.savez(arguments.out / "predictions.npz", id=inputs["id"], prediction=prediction)


def load(path: Path) -> dict[str, np.ndarray]:
    """All arrays of an npz file."""
    with np.load(path, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def answer(model: dict[str, np.ndarray], image: np.ndarray) -> int:
    """The digit with the largest score. Raises ValueError for scores that are not ten numbers."""
    scores = np.asarray(predict(model, image.copy()))
    if scores.shape != (CLASSES,) or not np.isfinite(scores).all():
        raise ValueError(f"scores of shape {scores.shape}, expected {CLASSES} finite numbers")
    return int(scores.argmax())


if __name__ == "__main__":
    main()
