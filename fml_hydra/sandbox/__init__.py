"""Running commands nobody has read, with limits and without a view of anything that matters.

`open_sandbox` picks a level, `Sandbox.run` runs a command. Not here: what to run, how to judge it.
"""

from fml_hydra.sandbox.base import LEVELS, Completed, Follower, Level, Limits, Mount, Sandbox
from fml_hydra.sandbox.choose import SandboxPolicy, open_sandbox, probe

__all__ = [
    "LEVELS",
    "Completed",
    "Follower",
    "Level",
    "Limits",
    "Mount",
    "Sandbox",
    "SandboxPolicy",
    "open_sandbox",
    "probe",
]
