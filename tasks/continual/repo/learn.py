"""Let the learner see one context (protected).

    python learn.py --out OUT --seed SEED --context K

Reads OUT/context.npz, which feed.py put there, and OUT/state_0.npz and so on, which the call for
the context before left (there are none before the first); writes them anew. Replicates differ in
their random numbers only. Each context has a process of its own, so that the states are all that a
learner can remember.
"""

import argparse
from pathlib import Path

import numpy as np
from learner import initial_state, learn

REPLICATES = 3


def main() -> None:
    """Learn the context and save the states."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--context", type=int, required=True)
    arguments = parser.parse_args()
    context = load(arguments.out / "context.npz")
    for replicate in range(REPLICATES):
        rng = np.random.default_rng([arguments.seed, replicate, arguments.context])
        path = arguments.out / f"state_{replicate}.npz"
        state = load(path) if path.exists() else initial_state(rng)
        state = learn(state, context["images"].copy(), context["labels"].copy(), rng)
        np.savez(path, **{name: plain(name, value) for name, value in state.items()})


def load(path: Path) -> dict[str, np.ndarray]:
    """All arrays of an npz file."""
    with np.load(path, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def plain(name: str, value: np.ndarray) -> np.ndarray:
    """The value as an array of numbers; real ones in single precision. Raises TypeError."""
    array = np.asarray(value)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"state[{name!r}] is not an array of numbers but {type(value).__name__}")
    return array.astype(np.float32) if array.dtype.kind == "f" else array


if __name__ == "__main__":
    main()
