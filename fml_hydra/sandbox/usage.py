"""How much a process tree and its folders use.

Not for decisions: `watch` compares with the limits. Deleted files that are still open are not seen.
"""

import os
from collections.abc import Iterable
from pathlib import Path

import psutil

ENTRY = 4096
"""Bytes any file or folder counts at least, so that a flood of empty files is a flood."""


def disk_bytes(root: Path, enough: int) -> int:
    """Bytes allocated below `root`, symbolic links not followed; stops counting beyond `enough`."""
    total, pending = 0, [root]
    while pending and total <= enough:
        try:
            with os.scandir(pending.pop()) as entries:
                for entry in entries:
                    total += max(ENTRY, entry.stat(follow_symlinks=False).st_blocks * 512)
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(Path(entry.path))
        except OSError:  # it was deleted while we looked, or it is a file
            continue
    return total


def volume_bytes(volume: Path) -> int:
    """Bytes in use of the file system `volume` lies on; 0 when it is gone."""
    try:
        facts = os.statvfs(volume)
    except OSError:
        return 0
    used = (facts.f_blocks - facts.f_bfree) * facts.f_frsize
    return max(used, (facts.f_files - facts.f_ffree) * ENTRY)


def machine_tasks() -> int:
    """How many processes and threads the machine has; 0 where that is not known."""
    try:
        return int(Path("/proc/loadavg").read_text(encoding="ascii").split()[3].split("/")[1])
    except OSError:
        return 0


def memory_bytes(processes: Iterable[psutil.Process], enough: int) -> int:
    """Memory of `processes` together.

    Resident sizes count shared pages once per process, so only when they exceed `enough` the
    proportional sizes, which are dear to read, decide.
    """
    processes = list(processes)
    resident = sum(_resident(process) for process in processes)
    return resident if resident <= enough else sum(_proportional(p) for p in processes)


def _resident(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.Error:
        return 0


def _proportional(process: psutil.Process) -> int:
    try:
        full = process.memory_full_info()
    except (psutil.Error, OSError):
        return _resident(process)
    return int(getattr(full, "pss", full.uss))
