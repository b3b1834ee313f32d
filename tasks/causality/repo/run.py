"""Estimates the effects of new units in every replicate (protected).

    python run.py --data DATA --out OUT --seed 0

Reads DATA/train and DATA/eval, writes OUT/effects.npz with `id` (m,) and `effect` (m, replicates).
The replicates are independent studies: the estimator is called once for each and sees no other.
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from data import load_study, load_units
from numpy.typing import NDArray
from training import estimate_effects


def main() -> None:
    """Run the estimator on each replicate."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.set_num_threads(1)
    study, units = load_study(args.data / "train"), load_units(args.data / "eval")
    effects: list[NDArray[np.float64]] = []
    for replicate, y in enumerate(study.y.T):
        seed = 100 * args.seed + replicate
        torch.manual_seed(seed)
        effect = estimate_effects(study.x.copy(), study.t.copy(), y.copy(), units.x.copy(), seed)
        if np.shape(effect) != (len(units.id),):
            raise ValueError(f"effects of shape {np.shape(effect)}, expected ({len(units.id)},)")
        effects.append(np.asarray(effect, dtype=np.float64))
        print(f"replicate {replicate}: mean effect {effects[-1].mean():.3f}")
    np.savez(args.out / "effects.npz", id=units.id, effect=np.column_stack(effects))


if __name__ == "__main__":
    main()
