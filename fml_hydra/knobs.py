"""How configured dataclasses behave: frozen, unknown names and wrong types refused by name.

Not for values: those live in `conf/`.
"""

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, ConfigDict

STRICT = ConfigDict(extra="forbid", arbitrary_types_allowed=True)
Folder = Annotated[Path, AfterValidator(lambda path: path.expanduser().absolute())]
"""A place of this machine: `~` is the home, and a relative one is meant from where one stands."""
