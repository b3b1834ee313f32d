"""The sandbox of an agent that is a program: a candidate's walls, and a door if it needs one.

It sees its working copy, its home, its tools and its own installation, nothing else of the machine;
its environment is a list of names. What `network: true` opens: everything this machine can reach,
services on its loopback included.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fml_hydra.external.programs import Place
from fml_hydra.external.running import Room
from fml_hydra.sandbox import Mount, Sandbox
from fml_hydra.sandbox.bubblewrap import Bubblewrap

_RESOLVING = (
    "/etc/resolv.conf",
    "/etc/nsswitch.conf",
    "/etc/ssl",
    "/etc/pki",
    "/etc/ca-certificates",
)
"""What names and certificates are looked up in."""


@dataclass(frozen=True)
class Furniture:
    """What is put into a room."""

    repo: Path
    """The working copy."""
    home: Path
    """The program's home."""
    tools: Path
    """The endpoint's folder."""
    mounts: Sequence[Mount]
    """Further files and folders, read-only."""
    env: Mapping[str, str]
    """Further environment variables."""
    hidden: Sequence[Path]
    """What stays unreadable inside all that."""


def furnish(sandbox: Sandbox, network: bool, furniture: Furniture) -> tuple[Room, Place]:
    """A room in `sandbox`, and where a program finds things in it."""
    repo = Mount(furniture.repo, "/agent/repo", writable=True)
    home = Mount(furniture.home, "/agent/home", writable=True)
    tools = Mount(furniture.tools, "/agent/tools")
    place = Place(
        repo=sandbox.inside(repo),
        home=sandbox.inside(home),
        tools=sandbox.inside(tools),
        socket=f"{sandbox.inside(tools)}/socket",
        python=sys.executable,
        walled=sandbox.level != "process",
    )
    extra = [Mount(Path(p), p) for p in _RESOLVING if network and Path(p).exists()]
    room = Room(
        _with_network(sandbox) if network else sandbox,
        (repo, home, tools, *extra, *furniture.mounts),
        place.repo,
        {**_variables(place), **furniture.env},
        furniture.hidden,
    )
    return room, place


def _with_network(sandbox: Sandbox) -> Sandbox:
    if isinstance(sandbox, Bubblewrap):
        return replace(sandbox, flags=(*sandbox.flags, "--share-net"))
    return sandbox


def _variables(place: Place) -> dict[str, str]:
    return {
        "PATH": f"{place.tools}:{Path(place.python).parent}:/usr/local/bin:/usr/bin:/bin",
        "HOME": place.home,
        "FML_SOCKET": place.socket,
        "FML_REPO": place.repo,
        "FML_TASK": f"{place.tools}/TASK.md",
    }


def passed_on(names: Sequence[str]) -> dict[str, str]:
    """Those of our own environment variables that are on the list and set."""
    return {name: os.environ[name] for name in names if name in os.environ}
