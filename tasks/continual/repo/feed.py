"""Hand over the stream one context at a time, and let nothing pass but the state (protected).

    python -I feed.py --data DATA --out OUT --context K

Runs before every context (K = 0 .. 4) and after the last (K = 5). Only this script sees DATA; it
imports nothing of the learner. It puts the context into OUT/context.npz, in the place of the one
before. What may be carried on is OUT/state_0.npz and so on, one per replicate: no other file, no
change to the repository, at most `STATE_BYTES` each, and no copies of training images. Exits with
the reason if that is not so.
"""

import argparse
import hashlib
import hmac
import os
import shutil
import sys
from pathlib import Path

import numpy as np

CONTEXTS = 5
REPLICATES = 3
STATE_BYTES = 2**20
SIMILAR = 0.99
"""Correlation from which on a row of numbers counts as a copy of an image."""
CHANCE = 20
"""Copies that chance may leave: the importances of a unit that one image drove resemble it."""

Array = np.ndarray


def main() -> None:
    """Check what was carried over, then replace the context."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--context", type=int, required=True)
    arguments = parser.parse_args()
    stream = [arguments.data / "train" / f"context_{k}.npz" for k in range(CONTEXTS)]
    context, seal = arguments.out / "context.npz", arguments.out / "seal"
    context.unlink(missing_ok=True)
    if arguments.context == 0:
        refuse_leftovers(arguments.out, allowed=())
        seal.write_text(repository_code(stream))
    else:
        check(arguments.out, stream[: arguments.context], repository_code(stream))
    if arguments.context < CONTEXTS:
        shutil.copyfile(stream[arguments.context], context)


def check(out: Path, past: list[Path], code: str) -> None:
    """Exit unless the states are all that the learner kept of the contexts `past`."""
    states = [f"state_{replicate}.npz" for replicate in range(REPLICATES)]
    refuse_leftovers(out, allowed=("seal", *states))
    if (out / "seal").read_text() != code:
        sys.exit("files of the repository changed while a context was learned")
    images = np.concatenate([np.load(path)["images"] for path in past])
    for state in states:
        if (size := (out / state).stat().st_size) > STATE_BYTES:
            sys.exit(f"the state has {size} bytes; {STATE_BYTES} are allowed")
        with np.load(out / state, allow_pickle=False) as file:
            stored = stored_examples([file[name] for name in file.files], images)
        if stored > CHANCE:
            sys.exit(f"the state holds {stored} training images; examples must not be stored")


def refuse_leftovers(out: Path, allowed: tuple[str, ...]) -> None:
    """Exit if OUT, or the home that a sandbox gives, holds any other file or folder."""
    left = [path for path in out.iterdir() if path.name not in allowed or path.is_symlink()]
    home = os.environ.get("HOME", "")
    if home and home == os.environ.get("TMPDIR"):  # an empty one, made for this run
        left += Path(home).iterdir()
    if left:
        sys.exit(f"only the state may be left behind, found {', '.join(p.name for p in left)}")


def repository_code(stream: list[Path]) -> str:
    """Code of all files of the repository, in hex.

    Its key is the whole training data, which a learner never has: it cannot forge the code.
    """
    repository = Path(__file__).resolve().parent
    shutil.rmtree(repository / "__pycache__", ignore_errors=True)
    key = b"".join(hashlib.sha256(path.read_bytes()).digest() for path in stream)
    code = hmac.new(key, digestmod="sha256")
    for path in sorted(p for p in repository.rglob("*") if p.is_file()):
        code.update(f"{path.relative_to(repository)}\n".encode())
        code.update(hashlib.sha256(path.read_bytes()).digest())
    return code.hexdigest()


def stored_examples(arrays: list[Array], images: Array) -> int:
    """How many of the images (n, 28, 28) can be read off the arrays, up to brightness and contrast.

    Looks for all 784 pixels, or for the 14 x 14 means of 2 x 2, as rows or columns of an array.
    """
    found = np.zeros(len(images), dtype=bool)
    halved = images.reshape(-1, 14, 2, 14, 2).mean(axis=(2, 4))
    for known in (images.reshape(len(images), -1), halved.reshape(len(images), -1)):
        pixels = known.shape[1]
        known = standardised(known)
        for array in arrays:
            if array.size and array.size % pixels == 0 and array.dtype.kind in "fiu":
                for rows in (array.reshape(-1, pixels), array.reshape(pixels, -1).T):
                    found |= (known @ standardised(rows).T).max(axis=1) > SIMILAR
    return int(found.sum())


def standardised(rows: Array) -> Array:
    """Rows (n, d) shifted and scaled to mean 0 and length 1; constant rows become 0."""
    rows = rows.astype(np.float32)
    rows = rows - rows.mean(axis=1, keepdims=True)
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)


if __name__ == "__main__":
    main()
