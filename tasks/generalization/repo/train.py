"""Train the algorithm on the training environments and save its weights.

Each evaluation trains `REPLICATES` models from different seeds; predict.py loads them all.
"""

import argparse
from pathlib import Path

import torch
from algorithm import HPARAMS, Algorithm
from environments import REPLICATES, Environment, load_environments


def train(environments: list[Environment], seed: int) -> Algorithm:
    """Run `HPARAMS["steps"]` updates, each on one minibatch of every environment."""
    torch.manual_seed(seed)
    algorithm = Algorithm()
    algorithm.train()
    for step in range(HPARAMS["steps"]):
        batches = [environment.sample(HPARAMS["batch_size"]) for environment in environments]
        values = algorithm.update(batches, step)
    shown = ", ".join(f"{name} {value:.3f}" for name, value in values.items())
    print(f"seed {seed}: {HPARAMS['steps']} steps, last {shown}")
    return algorithm


def main() -> None:
    """Parse the command line, train, save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with train/")
    parser.add_argument("--out", type=Path, required=True, help="where the weights go")
    parser.add_argument("--seed", type=int, required=True)
    args = parser.parse_args()
    torch.set_num_threads(1)
    environments = load_environments(args.data / "train")
    for replicate in range(REPLICATES):
        algorithm = train(environments, seed=REPLICATES * args.seed + replicate)
        torch.save(algorithm.state_dict(), args.out / f"model_{replicate}.pt")


if __name__ == "__main__":
    main()
