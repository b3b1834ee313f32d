"""The made-up method: one Python file of settings, and how its text is read and written. Pure.

`APPROACH` says which of several ways is gone, the parts refine it; all are 0 as given.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

FILE = "method.py"
"""The only file that may be edited."""
APPROACH = "APPROACH"
"""Name of the setting that the effects of all others depend on."""
_SETTING = re.compile(r"^([A-Z]\w*) = (.*)$", re.MULTILINE)
Settings = Mapping[str, int]


@dataclass(frozen=True)
class Space:
    """Which settings there are."""

    approaches: int = 4
    """Values of the approach, from 0."""
    parts: int = 12
    """Further settings; an even number, since they interact in pairs."""
    values: int = 5
    """Values of each part, from 0."""

    @cached_property
    def sizes(self) -> dict[str, int]:
        """Number of values by name of the setting."""
        return {APPROACH: self.approaches, **dict.fromkeys(self.names, self.values)}

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the parts."""
        return tuple(f"PART_{i:02d}" for i in range(self.parts))

    def text(self) -> str:
        """The file as given."""
        lines = [f"{name} = 0" for name in self.sizes]
        head = '"""A made-up method. Its score is computed from these settings."""'
        return "\n".join([head, "", *lines, ""])


def written(text: str) -> dict[str, str]:
    """What stands behind the `=` of each setting in `text`."""
    return dict(_SETTING.findall(text))


def readable(text: str) -> dict[str, int]:
    """The settings in `text` whose value is a plain number."""
    return {name: int(value) for name, value in written(text).items() if value.isdecimal()}


def changed(text: str, changes: Mapping[str, object]) -> str:
    """`text` with other values for some of its settings."""
    return _SETTING.sub(lambda m: f"{m[1]} = {changes.get(m[1], m[2])}", text)
