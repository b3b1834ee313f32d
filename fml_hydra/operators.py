"""Operators: how an LLM is asked for a code state, given an action and the history.

One call for the edit, up to `repairs` free calls to mend one that cannot be applied, and one for
the analysis of the outcome; with a memory of kind `summary` one more, before the edit. The edit
applies to the first parent's code; other parents, and nodes in `meta["inspirations"]`, are shown
beside it. Not here: which action comes next (agents), what an edit is (edits).
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
from fml_hydra.refusal import refusal
from fml_hydra.replies import without_thoughts
from fml_hydra.session import Candidate, Turn
from fml_hydra.task import Brief

MemoryKind = Literal["none", "good", "all", "siblings", "ancestors", "chain", "summary"]


@dataclass(frozen=True, config=STRICT)
class Operator:
    """How one kind of action is put to the LLM."""

    instruction: str
    """Name of the template that says what to do."""
    memory: MemoryKind = "good"
    """Which earlier steps are shown: all with a metric, all, those with the same parent, the chain
    of ancestors, that chain only as far as it is failures being debugged, or instead of steps the
    LLM's summary of all of them."""


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
class Shown:
    """A node whose code a prompt shows for comparison."""

    node: Node
    """The node."""
    files: str
    """Its files that differ from the task's, rendered."""


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
        base = self.code(turn.history, turn.action.parents)
        return self.answered(turn, base, self.messages(turn, base))

    def messages(self, turn: Turn, base: Mapping[str, str]) -> list[Message]:
        """The conversation that asks for an edit of `base`."""
        context = self._context(turn, base)
        instruction = self.prompts.render(self.operators[turn.action.op].instruction, **context)
        return self.prompts.conversation("edit", **context, instruction=instruction)

    def answered(
        self, turn: Turn, base: Mapping[str, str], messages: Sequence[Message]
    ) -> Candidate:
        """The edit of `base` that answers `messages`, after its repairs."""
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
        return self._about_task() | {
            "action": turn.action,
            "parents": parents,
            "children": len(siblings(turn.history, parents)),
            "memory": remembered(operator.memory, turn.history, parents),
            "summary": self._summary(turn) if operator.memory == "summary" else "",
            "files": render_files(base),
            "others": self._others(turn),
            "error": self.feedback.cut(parents[0].feedback) if failed else "",
            "idea": turn.action.meta.get("idea"),
            "whole_files": self.whole_files,
        }

    def _summary(self, turn: Turn) -> str:
        """What the LLM thinks should be kept in mind of all earlier steps; free of charge."""
        steps = list(turn.history)
        if not steps:
            return ""
        messages = self.prompts.conversation("memory_summary", **self._about_task(), memory=steps)
        return without_thoughts(turn.ask("summary", messages).text)

    def _others(self, turn: Turn) -> list[Shown]:
        """Nodes whose code is shown beside the one to be edited, each once."""
        ids = [*turn.action.parents[1:], *turn.action.meta.get("inspirations", ())]
        nodes = [turn.history[i] for i in dict.fromkeys(ids)]
        return [Shown(n, render_files(n.snapshot or self.brief.files)) for n in nodes]

    def _about_task(self) -> dict[str, Any]:
        return {"task": self.brief, "targets": sorted(self.brief.files)}

    def code(self, history: History, parents: Sequence[int]) -> dict[str, str]:
        """The target files that an action begins with, whole."""
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


def siblings(history: History, parents: Sequence[Node]) -> list[Node]:
    """The earlier steps that started from the same (first) parent, or from the baseline."""
    parent = tuple(p.id for p in parents[:1])
    return [n for n in history if n.parents[:1] == parent]


def debug_chain(history: History, parent: Node) -> list[Node]:
    """The failures that led to `parent`, itself included: back to the edit that is debugged."""
    return [parent, *history.ancestors(parent)][: history.debug_depth(parent) + 1][::-1]


def remembered(kind: MemoryKind, history: History, parents: Sequence[Node]) -> list[Node]:
    """The earlier steps an operator shows, oldest first; none for a summary, which is text."""
    parent = parents[0] if parents else None
    choose: dict[str, Callable[[], list[Node]]] = {
        "none": list,
        "summary": list,
        "good": history.good,
        "all": lambda: list(history),
        "siblings": lambda: siblings(history, parents),
        "ancestors": lambda: [*reversed(history.ancestors(parent)), parent] if parent else [],
        "chain": lambda: debug_chain(history, parent) if parent else [],
    }
    return choose[kind]()
