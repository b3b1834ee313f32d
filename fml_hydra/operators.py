"""Operators: how an LLM is asked for a code state, given an action and the history.

One call for the edit, up to `repairs` free calls to mend one that cannot be applied, and one for
the analysis of the outcome. Not here: which action comes next (agents), what an edit is (edits).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass as plain_dataclass
from typing import Any, Literal

from pydantic.dataclasses import dataclass

from fml_hydra.edits import apply_edit, parse_edit, render_files
from fml_hydra.errors import EditError
from fml_hydra.evaluation import Outcome
from fml_hydra.journal import History, Node
from fml_hydra.knobs import STRICT
from fml_hydra.llm.base import Message
from fml_hydra.prompts import Prompts
from fml_hydra.replies import without_thoughts
from fml_hydra.session import Candidate, Turn, refusal
from fml_hydra.task import Brief

MemoryKind = Literal["none", "good", "all", "siblings", "ancestors"]


@dataclass(frozen=True, config=STRICT)
class Operator:
    """How one kind of action is put to the LLM."""

    instruction: str
    """Name of the template that says what to do."""
    memory: MemoryKind = "good"
    """Which earlier steps are shown: all with a metric, all, those with the same parent, or the
    chain of ancestors."""


@dataclass(frozen=True, config=STRICT)
class Feedback:
    """How much of an error the LLM is shown."""

    head: int = 0
    """Characters from the beginning."""
    tail: int = 1500
    """Characters from the end, where the exception is."""

    def cut(self, text: str) -> str:
        """The head and the tail of `text`."""
        if len(text) <= self.head + self.tail:
            return text
        return f"{text[: self.head]}\n[...]\n{text[-self.tail :]}".strip()


@plain_dataclass(frozen=True)
class Operators:
    """Asks for code states on behalf of one agent in one run (a `session.Maker`)."""

    brief: Brief
    """The task as the agent is told it."""
    prompts: Prompts
    """The templates."""
    operators: Mapping[str, Operator]
    """One per action kind."""
    feedback: Feedback
    """How errors are cut."""
    analysis: str | None
    """Template of the call after each step, or none."""
    whole_files: bool
    """Whether replies must give whole files."""
    repairs: int
    """Free calls to mend an edit that cannot be applied."""

    def make(self, turn: Turn) -> Candidate:
        """Ask for an edit of the parent's code; refusals come back as such, never as exceptions."""
        base = self._code(turn.history, turn.action.parents)
        messages = self.prompts.conversation("edit", **self._context(turn, base))
        prompt = messages[-1].content
        reply = turn.ask("edit", messages)
        candidate = self._read(reply.text, reply.finish, base, prompt)
        for _ in range(self.repairs):
            if not candidate.refused:
                break
            messages = self._repair(messages, candidate)
            reply = turn.ask("repair", messages)
            candidate = self._read(reply.text, reply.finish, base, prompt)
        return candidate

    def reflect(self, turn: Turn, candidate: Candidate, outcome: Outcome) -> str:
        """Ask what the outcome means; free of charge in steps."""
        if self.analysis is None:
            return ""
        messages = self.prompts.conversation(
            self.analysis,
            **self._about_task(),
            action=turn.action,
            plan=candidate.plan,
            status=outcome.status,
            feedback=self.feedback.cut(outcome.feedback),
        )
        return without_thoughts(turn.ask("analysis", messages).text)

    def _context(self, turn: Turn, base: Mapping[str, str]) -> dict[str, Any]:
        operator = self.operators[turn.action.op]
        parents = [turn.history[i] for i in turn.action.parents]
        failed = bool(parents) and not parents[0].ok
        about = self._about_task() | {
            "action": turn.action,
            "parents": parents,
            "memory": remembered(operator.memory, turn.history, parents),
            "files": render_files(base),
            "error": self.feedback.cut(parents[0].feedback) if failed else "",
            "idea": turn.action.meta.get("idea"),
            "whole_files": self.whole_files,
        }
        return about | {"instruction": self.prompts.render(operator.instruction, **about)}

    def _about_task(self) -> dict[str, Any]:
        return {"task": self.brief, "targets": sorted(self.brief.files)}

    def _code(self, history: History, parents: Sequence[int]) -> dict[str, str]:
        changed = history[parents[0]].snapshot if parents else {}
        return {**self.brief.files, **changed}

    def _read(self, reply: str, finish: str, base: Mapping[str, str], prompt: str) -> Candidate:
        """Turn a reply into a candidate, or into the reason for refusing it."""
        before, plan = self._changed(base), ""
        try:
            edit = parse_edit(reply, sorted(self.brief.files))
            plan = edit.plan
            files = self._changed(apply_edit(edit, base))
        except EditError as error:
            cut_off = " The reply was cut off at its maximum length." if finish == "length" else ""
            return Candidate(before, plan, error.status, f"{error}{cut_off}", prompt, reply)
        found = refusal(files, before, self.brief.files)
        status, reason = (found.status, found.reason) if found else (None, "")
        return Candidate(files, plan, status, reason, prompt, reply)

    def _changed(self, files: Mapping[str, str]) -> dict[str, str]:
        return {name: text for name, text in files.items() if text != self.brief.files[name]}

    def _repair(self, messages: Sequence[Message], refused: Candidate) -> list[Message]:
        text = self.prompts.render("repair", error=refused.reason, whole_files=self.whole_files)
        said = Message("assistant", refused.reply or "(an empty reply)")
        return [*messages, said, Message("user", text)]


def remembered(kind: MemoryKind, history: History, parents: Sequence[Node]) -> list[Node]:
    """The earlier steps an operator shows, oldest first."""
    parent = parents[0] if parents else None
    choose: dict[str, Callable[[], list[Node]]] = {
        "none": list,
        "good": history.good,
        "all": lambda: list(history),
        "siblings": lambda: [
            n for n in history if n.parents[:1] == tuple(p.id for p in parents[:1])
        ],
        "ancestors": lambda: [*reversed(history.ancestors(parent)), parent] if parent else [],
    }
    return choose[kind]()
