"""What is refused before training: an evaluation would be wasted on it. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from fml_hydra.edits import syntax_error
from fml_hydra.journal import Status


@dataclass(frozen=True)
class Refusal:
    """Why a code state is not worth an evaluation."""

    status: Status
    """The node status it leads to."""
    reason: str
    """What the agent is told."""


def refusal(
    files: Mapping[str, str], before: Mapping[str, str], pristine: Mapping[str, str]
) -> Refusal | None:
    """What can be known before training: forbidden names, no change at all, no valid Python.

    `files` and `before` hold what differs from `pristine`, whole, now and in the parent.
    """
    if outside := sorted(set(files) - set(pristine)):
        return Refusal("protected", f"may not be edited or created: {', '.join(outside)}")
    if files == before:
        return Refusal("noop", "The edit changes nothing: every file is as it was.")
    if wrong := syntax_error(files):
        return Refusal("syntax", f"The edited file does not compile: {wrong}")
    return None
