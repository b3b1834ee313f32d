"""How configured dataclasses behave: frozen, unknown names and wrong types refused by name.

Not for values: those live in `conf/`.
"""

from pydantic import ConfigDict

STRICT = ConfigDict(extra="forbid", arbitrary_types_allowed=True)
