"""Hand over one set of members at a time, and keep models apart from each other (protected).

    python -I feed.py --data DATA --out OUT --set K            before set K is trained on
    python -I feed.py --data DATA --out OUT --set K --check    after that: the members go
    python -I feed.py --data DATA --out OUT --set 4            at the end: the predictions

Only this script sees DATA/train; it imports nothing of the model. Four models are trained on sets
that overlap; if one could ask another, or remember the other's members, it would hide its own
perfectly. So while a model is trained and asked, OUT holds its own members (then only its own
state), and what earlier models answered is there encrypted. Exits with the reason if anything else
was left behind, the repository was changed, the state is too large, or holds training images.
"""

import argparse
import hashlib
import hmac
import io
import os
import shutil
import sys
from pathlib import Path
from typing import Any

SETS = 4
STATE_BYTES = 2**20
SIMILAR = 0.99
"""Correlation from which on a row of numbers counts as a copy of an image."""
CHANCE = 20
"""Copies that chance may leave."""

Array = Any  # numpy is imported where it is needed: most calls do without its start-up time


def main() -> None:
    """Check what was left, then put the next thing in its place."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--set", type=int, required=True)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    pool, number, out = find_pool(arguments.data), arguments.set, arguments.out
    key = pool_key(pool)
    if arguments.check:
        after_training(out, number, key)
        return
    if number == 0:
        refuse_leftovers(out, [])
        lock(out / "repository", repository_code(), key)
    else:
        after_asking(out, number - 1, key)
    if number < SETS:
        shutil.copyfile(pool / f"members_{number}.npz", out / "members.npz")
    else:
        refuse_stored_examples(out, pool, key)
        join(out, key)


def after_training(out: Path, number: int, key: bytes) -> None:
    """Take the members away, and a copy of the state."""
    (out / "members.npz").unlink(missing_ok=True)
    refuse_leftovers(out, ["state.npz", *locked_names(number)])
    refuse_changes(out, key)
    state = out / "state.npz"
    if (size := state.stat().st_size) > STATE_BYTES:
        sys.exit(f"the state has {size} bytes; {STATE_BYTES} are allowed")
    lock(out / f"state_{number}", state.read_bytes(), key)


def after_asking(out: Path, number: int, key: bytes) -> None:
    """Take the state away, and what the model answered."""
    (out / "state.npz").unlink(missing_ok=True)
    refuse_leftovers(out, ["answers.npz", f"state_{number}", *locked_names(number)])
    refuse_changes(out, key)
    lock(out / f"answers_{number}", (out / "answers.npz").read_bytes(), key)
    (out / "answers.npz").unlink()


def find_pool(data: Path) -> Path:
    """Folder of the sets that belong to the queries: it has their hash as its name."""
    queries = (data / "eval" / "inputs.npz").read_bytes()
    return data / "train" / hashlib.sha256(queries).hexdigest()[:16]


def pool_key(pool: Path) -> bytes:
    """A secret: made from all sets together, of which a model sees one."""
    code = hashlib.sha256()
    for number in range(SETS):
        code.update((pool / f"members_{number}.npz").read_bytes())
    return code.digest()


def lock(path: Path, content: bytes, key: bytes) -> None:
    """Write the content so that only the owner of the key can read it, or change it unseen."""
    hidden = mixed(content, key, path.name)
    path.write_bytes(hmac.digest(key, path.name.encode() + hidden, "sha256") + hidden)


def unlock(path: Path, key: bytes) -> bytes:
    """What was locked under this name; exits if it was changed."""
    code, hidden = path.read_bytes()[:32], path.read_bytes()[32:]
    if not hmac.compare_digest(code, hmac.digest(key, path.name.encode() + hidden, "sha256")):
        sys.exit(f"{path.name} was changed")
    return mixed(hidden, key, path.name)


def mixed(content: bytes, key: bytes, name: str) -> bytes:
    """Content xor a stream of bytes that follows from key and name; its own inverse."""
    stream = hashlib.shake_256(key + name.encode()).digest(len(content))
    mix = int.from_bytes(content, "little") ^ int.from_bytes(stream, "little")
    return mix.to_bytes(len(content), "little")


def locked_names(number: int) -> list[str]:
    """Locked files of the sets before `number`."""
    return ["repository", *(f"{what}_{k}" for what in ("state", "answers") for k in range(number))]


def refuse_leftovers(out: Path, allowed: list[str]) -> None:
    """Exit unless OUT holds exactly these files, and the home that a sandbox gives none."""
    left = [p for p in out.iterdir() if p.name not in allowed or p.is_symlink() or p.is_dir()]
    home = os.environ.get("HOME", "")
    if home and home == os.environ.get("TMPDIR"):  # an empty one, made for this run
        left += Path(home).iterdir()
    if left:
        sys.exit(f"nothing else may be left behind, found {', '.join(p.name for p in left)}")
    if missing := [name for name in allowed if not (out / name).is_file()]:
        sys.exit(f"missing: {', '.join(missing)}")


def refuse_changes(out: Path, key: bytes) -> None:
    """Exit if a file of the repository was changed, added or removed."""
    if unlock(out / "repository", key) != repository_code():
        sys.exit("files of the repository changed while a model was trained or asked")


def repository_code() -> bytes:
    """Code of all files of the repository."""
    repository = Path(__file__).resolve().parent
    shutil.rmtree(repository / "__pycache__", ignore_errors=True)
    code = hashlib.sha256()
    for path in sorted(p for p in repository.rglob("*") if p.is_file()):
        code.update(f"{path.relative_to(repository)}\n".encode())
        code.update(hashlib.sha256(path.read_bytes()).digest())
    return code.digest()


def refuse_stored_examples(out: Path, pool: Path, key: bytes) -> None:
    """Exit if a state holds images that its model was trained on."""
    for number in range(SETS):
        images = load(pool / f"members_{number}.npz")["images"]
        state = load(io.BytesIO(unlock(out / f"state_{number}", key)))
        stored = stored_examples(list(state.values()), images)
        if stored > CHANCE:
            sys.exit(f"the state holds {stored} training images; a model must not store them")


def load(file: Path | io.BytesIO) -> dict[str, Array]:
    """All arrays of an npz file."""
    import numpy as np

    with np.load(file, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def stored_examples(arrays: list[Array], images: Array) -> int:
    """How many of the images (n, 28, 28) can be read off the arrays, up to brightness and contrast.

    Looks for all 784 pixels, or for the 14 x 14 means of 2 x 2, as rows or columns of an array.
    """
    import numpy as np

    found = np.zeros(len(images), dtype=bool)
    rows = images[:, ::2].astype(np.float32) + images[:, 1::2]
    for known in (images, rows[:, :, ::2] + rows[:, :, 1::2]):
        known = standardised(known.reshape(len(images), -1))
        pixels = known.shape[1]
        for array in arrays:
            if array.size and array.size % pixels == 0 and array.dtype.kind in "fiu":
                for lines in (array.reshape(-1, pixels), array.reshape(pixels, -1).T):
                    found |= (known @ standardised(lines).T).max(axis=1) > SIMILAR
    return int(found.sum())


def standardised(rows: Array) -> Array:
    """Rows (n, d) shifted and scaled to mean 0 and length 1; constant rows become 0."""
    import numpy as np

    rows = rows.astype(np.float32)
    rows = rows - rows.mean(axis=1, keepdims=True)
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)


def join(out: Path, key: bytes) -> None:
    """OUT/predictions.npz from the answers of all models: `id` (n,), `logits` (SETS, n, 10)."""
    import numpy as np

    answers = [load(io.BytesIO(unlock(out / f"answers_{k}", key))) for k in range(SETS)]
    logits = np.stack([one["logits"] for one in answers])
    np.savez(out / "predictions.npz", id=answers[0]["id"], logits=logits)


if __name__ == "__main__":
    main()
