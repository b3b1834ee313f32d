"""Reading what a candidate handed in, for `grade.py` files: plain arrays or a named refusal.

Runs in the grading interpreter, so it imports numpy and nothing heavier. It does not judge: metrics
are the task's business.
"""

import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fml_hydra.errors import InvalidOutput

MAX_BYTES = 256 * 2**20
"""Largest unpacked size of one npz file."""

_DTYPES: dict[str, type] = {"f": np.float64, "i": np.int64, "b": np.bool_}
# a lying header asks for any size; zip has methods and passwords of its own
_UNREADABLE = (
    ValueError,
    OSError,
    EOFError,
    KeyError,
    MemoryError,
    RuntimeError,
    zipfile.BadZipFile,
    zlib.error,
)
_ACCEPTED = {"f": "fiu", "i": "iu", "b": "b"}


@dataclass(frozen=True)
class Spec:
    """What one array of a submission must look like."""

    shape: tuple[int | None, ...]
    """Expected shape; None accepts any length of that axis."""
    kind: str = "f"
    """`f` real numbers, `i` integers, `b` booleans."""
    low: float | None = None
    """Smallest value allowed."""
    high: float | None = None
    """Largest value allowed."""


def load_npz(path: Path, **specs: Spec) -> dict[str, NDArray[Any]]:
    """Read an npz file of plain arrays: exactly the named ones, as float64, int64 or bool.

    Raises InvalidOutput naming what is wrong: not an npz, too large, missing or unknown names,
    object arrays, wrong shape or kind, NaN or infinite values, values out of range.
    """
    _check_archive(path)
    try:
        with np.load(path, allow_pickle=False) as archive:
            loaded = {name: archive[name] for name in archive.files}
    except _UNREADABLE as error:
        raise InvalidOutput(f"{path.name}: cannot be read as plain arrays ({error})") from error
    if missing := sorted(set(specs) - set(loaded)):
        raise InvalidOutput(f"{path.name}: no array named {', '.join(missing)}")
    if extra := sorted(set(loaded) - set(specs)):
        raise InvalidOutput(f"{path.name}: unexpected array {', '.join(extra)}")
    return {
        name: _checked(loaded[name], spec, f"{path.name}:{name}") for name, spec in specs.items()
    }


def align(ids: NDArray[Any], expected: NDArray[Any], what: str) -> NDArray[np.intp]:
    """Indices that bring rows labelled `ids` into the order of `expected` (both 1-d).

    Shuffled rows are fine; duplicated, missing or extra ids raise InvalidOutput.
    """
    order = np.argsort(ids, kind="stable")
    ordered = ids[order]
    if len(ordered) > 1 and bool(np.any(ordered[1:] == ordered[:-1])):
        raise InvalidOutput(f"{what}: duplicated ids")
    if len(ids) != len(expected) or not np.array_equal(ordered, np.sort(expected)):
        missing = len(np.setdiff1d(expected, ids))
        extra = len(np.setdiff1d(ids, expected))
        raise InvalidOutput(f"{what}: {missing} ids missing, {extra} ids unknown")
    rank = np.argsort(np.argsort(expected, kind="stable"), kind="stable")
    return order[rank]


def _check_archive(path: Path) -> None:
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(info.file_size for info in archive.infolist())
    except (OSError, zipfile.BadZipFile) as error:
        raise InvalidOutput(f"{path.name}: not an npz file ({error})") from error
    if size > MAX_BYTES:
        raise InvalidOutput(f"{path.name}: unpacks to {size} bytes, more than {MAX_BYTES}")


def _checked(array: NDArray[Any], spec: Spec, what: str) -> NDArray[Any]:
    if array.dtype.kind not in _ACCEPTED[spec.kind]:
        raise InvalidOutput(f"{what}: dtype {array.dtype} is not of kind {spec.kind!r}")
    fits = array.ndim == len(spec.shape) and all(
        want is None or want == got for want, got in zip(spec.shape, array.shape, strict=True)
    )
    if not fits:
        raise InvalidOutput(f"{what}: shape {array.shape}, expected {spec.shape}")
    values: NDArray[Any] = array.astype(_DTYPES[spec.kind])
    if spec.kind == "f" and not bool(np.isfinite(values).all()):
        raise InvalidOutput(f"{what}: NaN or infinite values")
    if spec.low is not None and values.size and values.min() < spec.low:
        raise InvalidOutput(f"{what}: value {values.min()} below {spec.low}")
    if spec.high is not None and values.size and values.max() > spec.high:
        raise InvalidOutput(f"{what}: value {values.max()} above {spec.high}")
    return values
