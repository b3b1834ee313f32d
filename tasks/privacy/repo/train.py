"""Train `model.py` on one set of members (protected).

    python train.py --out OUT --seed SEED --set K

Reads OUT/members.npz, which feed.py put there; writes OUT/state.npz. Each set is used in a process
of its own, by the same code, which knows nothing of the other sets.
"""

import argparse
from pathlib import Path

import numpy as np
from model import fit


def main() -> None:
    """Fit and save the state; real numbers are kept in single precision."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--set", type=int, required=True)
    arguments = parser.parse_args()
    with np.load(arguments.out / "members.npz", allow_pickle=False) as file:
        images, labels = file["images"], file["labels"]
    state = fit(images, labels, np.random.default_rng([arguments.seed, arguments.set]))
    np.savez(arguments.out / "state.npz", **{name: plain(name, v) for name, v in state.items()})


def plain(name: str, value: np.ndarray) -> np.ndarray:
    """The value as an array of numbers; real ones in single precision. Raises TypeError."""
    array = np.asarray(value)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"state[{name!r}] is not an array of numbers but {type(value).__name__}")
    return array.astype(np.float32) if array.dtype.kind == "f" else array


if __name__ == "__main__":
    main()
