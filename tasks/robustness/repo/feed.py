"""Hand over the training sets first and the images to be classified after training (protected).

    python -I feed.py training --data DATA --out OUT      # OUT/training/study_0.npz, ...
    python -I feed.py inputs --data DATA --out OUT        # OUT/inputs.npz instead

Only this script sees DATA, and it imports nothing of the defence. While it is trained, a defence
must not see the images that it will be asked about: half of them carry the trigger.
"""

import argparse
import os
import shutil
import sys
from pathlib import Path


def main() -> None:
    """Put one of the two into OUT."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=("training", "inputs"))
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    training, inputs = arguments.out / "training", arguments.out / "inputs.npz"
    if arguments.part == "training":
        shutil.copytree(arguments.data / "eval" / "training", training)
    elif os.path.lexists(inputs):
        sys.exit("inputs.npz is there already")
    else:
        shutil.rmtree(training)
        shutil.copyfile(arguments.data / "eval" / "inputs.npz", inputs)


if __name__ == "__main__":
    main()
