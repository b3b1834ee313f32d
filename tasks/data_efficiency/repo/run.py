"""Run `fewshot.py` on every episode and write its answers (protected).

    python run.py --data DATA --out OUT --seed SEED

`learn_base` is called once for each backbone, `classify` once for each episode, with a random
generator of its own. OUT/predictions.npz holds `id` (n,) and `way` (n, queries), values 0 to 4.
"""

import argparse
from pathlib import Path

import numpy as np
from episodes import load_base, load_episodes
from fewshot import classify, learn_base


def main() -> None:
    """Answer all episodes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    learned = [
        learn_base(base, np.random.default_rng([arguments.seed, number]))
        for number, base in enumerate(load_base(arguments.data))
    ]
    ids, ways = [], []
    for episode in load_episodes(arguments.data):
        rng = np.random.default_rng([arguments.seed, len(learned), episode.id])
        ids.append(episode.id)
        ways.append(classify(episode.support, episode.query, learned[episode.backbone], rng))
    np.savez(arguments.out / "predictions.npz", id=np.array(ids), way=np.stack(ways))


if __name__ == "__main__":
    main()
