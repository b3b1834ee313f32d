"""Let the learner see one context (protected).

    python learn.py --out OUT --seed SEED --context K

Reads OUT/context.npz, which feed.py put there, and OUT/state.npz, which the call for the context
before left (there is none before the first); writes the new OUT/state.npz. Each context has a
process of its own, so that the state is all the learner can remember.
"""

import argparse
from pathlib import Path

import numpy as np
from learner import initial_state, learn


def main() -> None:
    """Learn the context and save the state."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--context", type=int, required=True)
    arguments = parser.parse_args()
    rng = np.random.default_rng([arguments.seed, arguments.context])
    path = arguments.out / "state.npz"
    state = load(path) if path.exists() else initial_state(rng)
    context = load(arguments.out / "context.npz")
    state = learn(state, context["images"], context["labels"], rng)
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
