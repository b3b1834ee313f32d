"""A stand-in for a language model on the made-up method; it is none.

It reads the prompts an agent sends and knows the settings but not their effects: it proposes
changes at random, leaves out what the conversation shows as tried, follows an idea it is given,
borrows from other programs it is shown, and errs now and then. Replies are a pure function of the
request. Not for real tasks: that is `llm=offline`.
"""

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random

from fml_hydra.edits import Edit, FileEdit, Replace, render_edit
from fml_hydra.llm.base import Purpose, Reply, Request, Usage
from fml_hydra.llm.program.reading import Asked, read_request
from fml_hydra.llm.program.telling import told
from fml_hydra.replies import parse_object
from fml_hydra.simulation.method import APPROACH, FILE, Space, changed, readable, written

Changes = dict[str, int]
_TRIED = re.compile(r"I set (\w+) to (\d+)")
_NAMED = re.compile(r"([a-z_0-9]+?)_to_(\d+)(?:_and_|$)")
_ABLATE = re.compile(r"\s*(Ablat\w*|Remove)\b", re.IGNORECASE)
BROKEN = "1 / 0"
"""What stands behind a setting that was implemented with a bug."""
SLIPS = {"bug": 6, "bracket": 2, "no_code": 1, "unchanged": 1}
"""Relative frequency of each mistake: crash, syntax, edit_failed, noop."""


@dataclass(frozen=True)
class SyntheticLLM:
    """Proposes settings behind the LLM protocol."""

    space: Space
    """What can be set."""
    leap_rate: float = 0.15
    """Share of changes that go to another approach."""
    double_rate: float = 0.2
    """Share of changes of two parts at once."""
    borrow_rate: float = 0.5
    """Share of edits that take something over, when other programs are shown."""
    error_rate: float = 0.15
    """Share of edits that hold a mistake; a fourth of it in repairs."""
    cure_rate: float = 0.6
    """Share of debug steps that find the bug."""
    name: str = "synthetic"
    """Name in tables and tags."""

    def complete(self, request: Request) -> Reply:
        """The reply to `request`; equal requests get equal replies."""
        texts = [m.content for m in request.messages]
        digest = hashlib.sha256("\x00".join(texts).encode()).hexdigest()
        rng = Random(f"{request.seed}:{request.purpose}:{digest}")
        text = self._answers[request.purpose](request, rng)
        return Reply(text, Usage(sum(map(len, texts)) // 4, output=len(text) // 4), 0.0)

    @property
    def _answers(self) -> dict[Purpose, Callable[[Request, Random], str]]:
        return {
            "edit": lambda request, rng: self._edit(request, rng, self.error_rate),
            "repair": lambda request, rng: self._edit(request, rng, self.error_rate / 4),
            "idea": self._idea,
            "analysis": lambda request, rng: told(request.messages[-1].content),
            "summary": lambda request, rng: _summary(request),
        }

    def _edit(self, request: Request, rng: Random, error_rate: float) -> str:
        asked = read_request(request)
        before = asked.files.get(FILE)
        if before is None:
            return "I see no file that I could change."
        changes, plan = self._move(before, asked, request, rng)
        if rng.random() >= error_rate:
            return _reply(before, changed(before, changes), plan, asked, rng)
        kind = rng.choices([*SLIPS], weights=[*SLIPS.values()])[0]
        if kind == "no_code":
            return plan
        wrong = {"bug": BROKEN, "bracket": "(1"}.get(kind)
        after = before if wrong is None else changed(before, {**changes, [*changes][-1]: wrong})
        return _reply(before, after, plan, asked, rng)

    def _move(
        self, before: str, asked: Asked, request: Request, rng: Random
    ) -> tuple[dict[str, object], str]:
        """The values to be written, and the plan."""
        if "Error" in asked.sections and (move := self._debug(before, asked, rng)):
            return move
        now = readable(before)
        changes = self._ablation(asked, now, rng) or self._idea_asked(asked, now)
        changes = changes or self._borrowed(asked, now, rng)
        changes = changes or self._fresh(now, _tried(request), rng)
        return dict(changes), f"{_said(changes)}. Everything else stays as it is."

    def _debug(
        self, before: str, asked: Asked, rng: Random
    ) -> tuple[dict[str, object], str] | None:
        """Mend what cannot be read, or take out what the error names."""
        sizes = self.space.sizes
        broken = [n for n, value in written(before).items() if not value.isdecimal()]
        if broken:
            cured = rng.random() < self.cure_rate
            value: object = rng.randrange(1, sizes[broken[0]]) if cured else f"{rng.random()} / 0"
            return {broken[0]: value}, f"I look into {broken[0]}."
        blamed = [n for n, v in readable(before).items() if v and n in asked.sections["Error"]]
        if not blamed:
            return None
        others = [v for v in range(sizes[blamed[0]]) if v != readable(before)[blamed[0]]]
        value = 0 if rng.random() < self.cure_rate else rng.choice(others)
        return {blamed[0]: value}, f"I try {blamed[0]} = {value} instead."

    def _ablation(self, asked: Asked, now: Mapping[str, int], rng: Random) -> Changes:
        is_set = [name for name, value in now.items() if value and name != APPROACH]
        wanted = _ABLATE.match(asked.sections.get("Instruction", ""))
        return {rng.choice(is_set): 0} if wanted and is_set else {}

    def _idea_asked(self, asked: Asked, now: Mapping[str, int]) -> Changes:
        named = {name.upper(): int(value) for name, value in _NAMED.findall(asked.idea)}
        return {name: v for name, v in named.items() if now.get(name, v) != v}

    def _borrowed(self, asked: Asked, now: Mapping[str, int], rng: Random) -> Changes:
        """Half of what another program shown in the prompt has otherwise, at random."""
        others = [s for n, t in asked.sections.items() if n != "Files" and (s := readable(t))]
        if not others or rng.random() >= self.borrow_rate:
            return {}
        other = rng.choice(others)
        differing = [name for name, value in other.items() if now.get(name, value) != value]
        return {name: other[name] for name in rng.sample(differing, -(-len(differing) // 2))}

    def _fresh(self, now: Mapping[str, int], tried: set[tuple[str, int]], rng: Random) -> Changes:
        """A change of the approach, of a part, or of two parts, not tried yet if there is one."""
        names = [APPROACH] if rng.random() < self.leap_rate else list(self.space.names)
        sizes = self.space.sizes
        moves = [(n, v) for n in names for v in range(sizes[n]) if now.get(n) != v]
        fresh = [move for move in moves if move not in tried] or moves
        count = 2 if len(names) > 1 and rng.random() < self.double_rate else 1
        return dict(rng.sample(fresh, min(count, len(fresh))))

    def _idea(self, request: Request, rng: Random) -> str:
        asked = read_request(request)
        if (before := parse_object(asked.said)) and "Name" in before:
            return f"{_fenced(before)}\nI am done."
        text = "\n".join(m.content for m in request.messages)
        had = {(n.upper(), int(v)) for n, v in re.findall(r"(part_\d+|approach)_to_(\d+)", text)}
        now = readable(asked.files.get(FILE, self.space.text()))
        changes = self._fresh(now, had | _tried(request), rng)
        name = "_and_".join(f"{n.lower()}_to_{v}" for n, v in changes.items())
        about = {"Title": _said(changes), "Experiment": f"{_said(changes)} and measure."}
        scores = {k: rng.randint(3, 9) for k in ("Interestingness", "Feasibility", "Novelty")}
        return _fenced({"Name": name, **about, **scores})


def _tried(request: Request) -> set[tuple[str, int]]:
    """The changes that the conversation speaks of."""
    text = "\n".join(m.content for m in request.messages)
    return {(name, int(value)) for name, value in _TRIED.findall(text)}


def _said(changes: Mapping[str, int]) -> str:
    return ", and ".join(f"I set {name} to {value}" for name, value in changes.items())


def _summary(request: Request) -> str:
    tried = ", and ".join(f"I set {name} to {value}" for name, value in sorted(_tried(request)))
    return f"{told(request.messages[-1].content)} So far: {tried or 'nothing'}."


def _reply(before: str, after: str, plan: str, asked: Asked, rng: Random) -> str:
    if asked.whole_files or before == after or rng.random() < 0.5:
        return render_edit(Edit((FileEdit(FILE, after, ()),), plan))
    lines = zip(before.split("\n"), after.split("\n"), strict=True)
    blocks = tuple(Replace(old, new) for old, new in lines if old != new)
    return render_edit(Edit((FileEdit(FILE, None, blocks),), plan))


def _fenced(value: object) -> str:
    return f"```json\n{json.dumps(value)}\n```"
