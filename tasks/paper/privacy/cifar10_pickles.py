"""CIFAR-10 as the pickled torchvision data sets that ml_privacy_meter reads.

python cifar10_pickles.py RAW OUT
"""

import pickle
import sys
from pathlib import Path

from torchvision import transforms
from torchvision.datasets import CIFAR10

if __name__ == "__main__":
    raw, out = map(Path, sys.argv[1:3])
    half = [0.5, 0.5, 0.5]
    scaled = transforms.Compose([transforms.ToTensor(), transforms.Normalize(half, half)])
    for name, train in (("cifar10.pkl", True), ("cifar10_population.pkl", False)):
        with (out / name).open("wb") as file:
            pickle.dump(CIFAR10(str(raw), train=train, transform=scaled), file)
