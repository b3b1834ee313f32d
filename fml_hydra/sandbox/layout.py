"""The file system a sandboxed command sees, as bubblewrap arguments.

Everything starts empty; what a Python process needs is bound read-only, the mounts are added, then
whatever must stay unreadable is masked. Not here: namespaces and processes (`bubblewrap`).
"""

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path, PurePosixPath

from fml_hydra.errors import SandboxError
from fml_hydra.sandbox.base import Limits, Mount
from fml_hydra.sandbox.interpreter import Interpreter

HOME = "/tmp/home"
"""The candidate's home; shares the size of /tmp."""
SCRATCH = ("/tmp", "/dev/shm")
"""Writable file systems in memory, each as large as the disk limit."""

_ROOTS = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_ETC = (
    "/etc/ld.so.cache",
    "/etc/alternatives",
    "/etc/localtime",
    "/etc/passwd",  # names of users and of localhost: libraries ask for both
    "/etc/group",
    "/etc/hosts",
)
_PACKAGE = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class _Layer:
    """One thing placed at one path."""

    target: PurePosixPath
    """Where it appears."""
    arguments: tuple[str, ...]
    """The bubblewrap arguments that place it."""
    read_only: bool = False
    """Whether it is a file system of ours that is closed once all is in place."""


@dataclass(frozen=True)
class _Fixed:
    """What is the same in every run of one interpreter; all paths resolved."""

    binds: tuple[Mount, ...]
    """Where the system and the interpreter appear."""
    hidden: frozenset[Path]
    """What must not be seen in them."""


def arguments(
    python: Interpreter,
    mounts: Sequence[Mount],
    hidden: Sequence[Path],
    limits: Limits,
    devices: Sequence[Path] = (),
) -> list[str]:
    """Arguments for the whole file system. Raises SandboxError when a mount makes no sense."""
    fixed = _fixed(python)
    binds = [*fixed.binds, *map(_checked, mounts)]
    layers = [_bind(mount) for mount in binds]
    layers += _masks(binds, fixed.hidden | {path.resolve() for path in hidden if path.exists()})
    # a folder before what lies in it, and a mask after what it covers (the sort is stable)
    layers.sort(key=lambda layer: len(layer.target.parts))
    closed = [f"{layer.target}" for layer in layers if layer.read_only]
    return [
        *_kernel(limits, devices),
        *_links(python),
        *(argument for layer in layers for argument in layer.arguments),
        *(word for path in [*closed, "/proc", "/dev", "/"] for word in ("--remount-ro", path)),
    ]


@lru_cache(maxsize=32)
def _fixed(python: Interpreter) -> _Fixed:
    binds = [*_system(), *_interpreter(python)]
    hidden = [_PACKAGE, *_installed(python), *python.unused]
    return _Fixed(
        tuple(replace(bind, source=bind.source.resolve()) for bind in binds),
        frozenset(path.resolve() for path in hidden if path.exists()),
    )


def _checked(mount: Mount) -> Mount:
    target = PurePosixPath(mount.target)
    if not target.is_absolute() or ".." in target.parts or len(target.parts) < 2:
        raise SandboxError(f"mount target {mount.target!r} is not an absolute path")
    if not mount.source.exists():
        raise SandboxError(f"nothing to mount at {mount.source}")
    return replace(mount, source=mount.source.resolve())


def _links(python: Interpreter) -> Iterator[str]:
    roots = [root for root in map(Path, _ROOTS) if root.is_symlink()]
    for link in [*roots, *python.links]:
        yield from ("--symlink", str(link.readlink()), str(link))


def _kernel(limits: Limits, devices: Sequence[Path]) -> Iterator[str]:
    # /proc and /dev are closed later: root's own user could write /proc/sys, and a file system in
    # memory without a size is a way around every limit
    yield from ("--proc", "/proc", "--dev", "/dev")
    for device in devices:
        yield from ("--dev-bind", str(device), str(device))
    for path in SCRATCH:
        yield from ("--perms", "1777", "--size", str(limits.disk_mb << 20), "--tmpfs", path)
    yield from ("--dir", HOME)


def _system() -> Iterator[Mount]:
    yield Mount(Path("/usr"), "/usr")
    for name in (*_ROOTS, *_ETC):
        path = Path(name)
        if path.exists() and not (name in _ROOTS and path.is_symlink()):
            yield Mount(path, name)


def _interpreter(python: Interpreter) -> Iterator[Mount]:
    for prefix in python.prefixes:
        if prefix.is_dir() and not prefix.is_relative_to("/usr") and prefix != Path("/"):
            yield Mount(prefix, str(prefix))


def _installed(python: Interpreter) -> Iterator[Path]:
    """This package inside the mounted interpreters: a wheel carries its own tasks."""
    for prefix in python.prefixes:
        yield from prefix.glob("lib/python*/*-packages/fml_hydra")


def _bind(mount: Mount) -> _Layer:
    verb = "--bind" if mount.writable else "--ro-bind"
    return _Layer(PurePosixPath(mount.target), (verb, str(mount.source), mount.target))


def _masks(binds: Sequence[Mount], hidden: Set[Path]) -> Iterator[_Layer]:
    """An empty folder, or an unreadable file, over each hidden path wherever a bind shows it."""
    lineage = {path: {path, *path.parents} for path in hidden}
    for bind in binds:
        inside = {path for path in hidden if bind.source in lineage[path]}
        for path in sorted(path for path in inside if inside.isdisjoint(path.parents)):
            target = PurePosixPath(bind.target) / path.relative_to(bind.source)
            if _shown_by(binds, target) == bind:
                yield _mask(path, target)


def _shown_by(binds: Sequence[Mount], target: PurePosixPath) -> Mount:
    """The bind that `target` belongs to: the innermost, of equals the last."""
    around = [bind for bind in reversed(binds) if target.is_relative_to(bind.target)]
    return max(around, key=lambda bind: len(PurePosixPath(bind.target).parts))


def _mask(path: Path, target: PurePosixPath) -> _Layer:
    if path.is_dir():
        return _Layer(target, ("--perms", "0555", "--tmpfs", str(target)), read_only=True)
    return _Layer(target, ("--ro-bind", "/dev/null", str(target)))
