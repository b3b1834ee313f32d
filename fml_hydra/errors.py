"""Every exception this package raises on purpose.

FmlError
├── ConfigError        the experiment cannot start as configured; names file, key and remedy
│   └── NotPrepared    a task's repository, Python or data has not been fetched yet
├── TaskError          a task's own files are wrong: target missing, baseline crashes, grader broken
├── DataError          a data set cannot be had or does not match its checksum
├── JournalError       a journal is damaged in a way that cannot be forgiven; names the line
├── EditError          an LLM reply cannot be turned into an edit (`status` says which way)
├── InvalidOutput      a candidate's output is not what the task asks for (raised while grading)
│   └── MissingOutput  an output, or a value in it, is not there at all
├── SandboxError       the sandbox could not be set up, or is below what is required
├── InfraError         our fault or the provider's: never charged to the agent
│   └── ProviderError  a language model's provider gives no answer (llm.base)
├── Divergence         a replayed run asks for something else than was recorded
├── RunLocked          another process is working on the same run
└── BudgetExhausted    ends a run normally; `resource` is steps, seconds, tokens or dollars
"""

from collections.abc import Sequence
from typing import Literal


class FmlError(Exception):
    """Base class of every exception this package raises on purpose."""


class ConfigError(FmlError):
    """The experiment cannot start as configured."""


class NotPrepared(ConfigError):
    """Parts of a task have not been fetched yet; `task` is its name."""

    def __init__(self, task: str, parts: Sequence[str]) -> None:
        super().__init__(
            f"task {task} is not prepared: no {', no '.join(parts)}; "
            f"run `python -m fml_hydra tasks prepare {task}`"
        )
        self.task = task


class TaskError(FmlError):
    """A task's own files are wrong."""


class DataError(FmlError):
    """A data set cannot be had, or does not match its checksum."""


class JournalError(FmlError):
    """A journal is damaged in a way that cannot be forgiven."""


class EditError(FmlError):
    """An LLM reply cannot be turned into an edit; `status` is the node status it leads to."""

    def __init__(
        self, message: str, status: Literal["edit_failed", "protected"] = "edit_failed"
    ) -> None:
        super().__init__(message)
        self.status: Literal["edit_failed", "protected"] = status


class InvalidOutput(FmlError):
    """A candidate's output is not what the task asks for."""


class MissingOutput(InvalidOutput):
    """An output, or a value in it, is not there at all."""


class SandboxError(FmlError):
    """The sandbox could not be set up, or is below what is required."""


class InfraError(FmlError):
    """Our fault or the provider's; never charged to the agent."""


class Divergence(FmlError):
    """A replayed run asks for something else than was recorded.

    `call` names the recorded call ("" if there is none), `diff` is a short unified diff of the
    first difference.
    """

    def __init__(self, message: str, call: str = "", diff: str = "") -> None:
        super().__init__(message)
        self.call, self.diff = call, diff


class RunLocked(FmlError):
    """Another process is working on the same run."""


class BudgetExhausted(FmlError):
    """The run has spent its budget; `resource` is steps, seconds, tokens or dollars."""

    def __init__(self, resource: str) -> None:
        super().__init__(f"budget exhausted: {resource}")
        self.resource = resource
