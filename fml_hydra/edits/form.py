"""What an edit is, and the marks that write it down in a reply. Not here: reading or applying."""

import re
from dataclasses import dataclass

DECORATED = re.compile(r"^ {0,3}(?:#{1,6} *|\*\* *)FILE *: *(.+)$", re.IGNORECASE)
BARE_HEADER = re.compile(r"^ {0,3}FILE *: *(\S+)$", re.IGNORECASE)
FENCE = re.compile(r"^( {0,3})(`{3,})([^`]*)$")
OPEN = re.compile(r"^ {0,3}(<{5,9}) ?SEARCH *$")
DIVIDE = re.compile(r"^ {0,3}(={5,9}) *$")
CLOSE = re.compile(r"^ {0,3}(>{5,9}) ?REPLACE *$")


@dataclass(frozen=True)
class Replace:
    """One SEARCH/REPLACE block."""

    search: str
    """Whole lines to find, joined by newlines, without the last newline."""
    replace: str
    """Whole lines to put there; empty deletes."""


@dataclass(frozen=True)
class FileEdit:
    """What happens to one file: `whole` is its new text, or `blocks` are applied in order."""

    path: str
    """One of the targets, spelt as the task spells it."""
    whole: str | None
    """The complete new text with `\\n` line ends, or None."""
    blocks: tuple[Replace, ...]
    """Replacements; empty when `whole` is given."""


@dataclass(frozen=True)
class Edit:
    """A parsed reply."""

    files: tuple[FileEdit, ...]
    """One entry per file, in the order of the reply."""
    plan: str
    """The prose before the first file, without thinking, at most PLAN_LIMIT characters."""
