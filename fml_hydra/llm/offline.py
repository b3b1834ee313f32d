"""`llm=offline`: a seeded search program that answers where a language model would. It is none.

It reads the same messages and answers in the same form, through the same parser: ideas of the
task's own catalogue, mutations of constants, repairs, and now and then a mistake as models make
them. For trying things without a key, and for tests; its results say nothing about any model.

A reply is a pure function of the request and of the files in `ideas`. Tokens are counted on the
texts really exchanged: every word and every punctuation mark is one. Calls cost nothing.
"""

import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Annotated

from pydantic import Field, field_validator
from pydantic.dataclasses import dataclass

from fml_hydra.ideas import load_ideas
from fml_hydra.knobs import STRICT
from fml_hydra.llm.base import Purpose, Reply, Request, Usage
from fml_hydra.llm.program.catalogue import Catalogue
from fml_hydra.llm.program.fixes import fix
from fml_hydra.llm.program.moves import Taste, choose, drawn, wish
from fml_hydra.llm.program.mutate import mutations
from fml_hydra.llm.program.reading import Asked, read_request
from fml_hydra.llm.program.slips import Slip, slipped, written
from fml_hydra.llm.program.telling import told
from fml_hydra.replies import parse_object

Share = Annotated[float, Field(ge=0, le=1)]
_REPAIR = 0.25
"""A repair goes wrong this many times as often as a first answer."""


@dataclass(frozen=True, config=STRICT)
class OfflineLLM:
    """The search program behind the LLM protocol."""

    name: str
    """Name in tables and tags."""
    ideas: Path | None
    """Folder with the task's catalogue of ideas; None, or no such folder: mutations only."""
    error_rate: Share
    """Share of edits that hold a mistake."""
    errors: dict[Slip, Annotated[float, Field(ge=0)]]
    """Relative frequency of each kind of mistake."""
    mutation_rate: Share
    """Share of edits and ideas that are mutations although the catalogue has something left."""
    combine_rate: Share
    """Share of edits that bring in two ideas at once."""
    whole_rate: Share
    """Share of edits given as whole files rather than as SEARCH/REPLACE blocks."""

    @field_validator("errors")
    @classmethod
    def _some(cls, errors: dict[Slip, float]) -> dict[Slip, float]:
        if not sum(errors.values()):
            raise ValueError("give at least one kind of mistake a share above 0")
        return errors

    def complete(self, request: Request) -> Reply:
        """The reply to `request`; equal requests get equal replies."""
        text = self._answers[request.purpose](read_request(request), _rng(request))
        spent = sum(count_tokens(message.content) for message in request.messages)
        return Reply(text, Usage(input=spent, output=count_tokens(text)), 0.0)

    @property
    def _answers(self) -> dict[Purpose, Callable[[Asked, Random], str]]:
        return {
            "edit": lambda asked, rng: self._edit(asked, rng, self.error_rate),
            "repair": lambda asked, rng: self._edit(asked, rng, self.error_rate * _REPAIR),
            "idea": self._idea,
            "analysis": _report,
            "summary": _report,
        }

    def _shelf(self, asked: Asked) -> Catalogue:
        known = load_ideas(self.ideas, tuple(asked.files)) if self.ideas and asked.files else ()
        return Catalogue(known, asked.files)

    def _edit(self, asked: Asked, rng: Random, error_rate: float) -> str:
        shelf = self._shelf(asked)
        failed = "Error" in asked.sections
        taste = Taste(self.mutation_rate, self.combine_rate)
        move = fix(asked, shelf, rng) if failed else choose(asked, shelf, taste, rng)
        if move is None or dict(move.files) == dict(asked.files):
            return "I see nothing in these files that I could change."
        whole = asked.whole_files or rng.random() < self.whole_rate
        if rng.random() >= error_rate:
            return written(move, asked.files, whole)
        kind = rng.choices([*self.errors], weights=[*self.errors.values()])[0]
        return slipped(kind, move, asked.files, whole, rng)

    def _idea(self, asked: Asked, rng: Random) -> str:
        if before := parse_object(asked.said):
            return f"I keep this idea. I am done\n\n{_fenced(before)}"
        return f"This is what I would try next.\n\n{_fenced(self._next_idea(asked, rng))}"

    def _next_idea(self, asked: Asked, rng: Random) -> dict[str, str | int]:
        shelf, had = self._shelf(asked), asked.earlier_ideas
        wanted = wish(asked)
        parts = [idea for idea in shelf.present if idea.id not in had and wanted == "ablate"]
        if parts:
            idea, note = rng.choice(parts), "Take it out, and see what it is worth."
            return {"Name": idea.id, "Title": f"Without: {idea.title}", "Experiment": note}
        fresh = [idea for idea in shelf.open if idea.id not in had and wanted == "improve"]
        mutants = [m for m in mutations(asked.files) if m.label not in had]
        scores = {k: rng.randint(3, 9) for k in ("Interestingness", "Feasibility", "Novelty")}
        if fresh and not (mutants and rng.random() < self.mutation_rate):
            idea = rng.choice(fresh)
            return {"Name": idea.id, "Title": idea.title, "Experiment": idea.rationale, **scores}
        if not mutants:
            name = next(n for i in range(len(had) + 1) if (n := f"mutate_value_{i + 1}") not in had)
            what = "Change one value in the files."
            return {"Name": name, "Title": "Another value", "Experiment": what, **scores}
        m = drawn(mutants, rng)
        title = f"{m.new} instead of {m.old} in line {m.line} of {m.path}"
        what = f"In {m.path}, `{m.quote}` goes from {m.old} to {m.new}."
        return {"Name": m.label, "Title": title, "Experiment": what, **scores}


def count_tokens(text: str) -> int:
    """Words and punctuation marks in `text`."""
    return len(re.findall(r"\w+|[^\w\s]", text))


def _rng(request: Request) -> Random:
    told_so_far = json.dumps([[m.role, m.content] for m in request.messages])
    digest = hashlib.sha256(told_so_far.encode()).hexdigest()
    return Random(f"{request.seed}:{request.purpose}:{digest}")


def _fenced(value: object) -> str:
    return f"```json\n{json.dumps(value, indent=2)}\n```"


def _report(asked: Asked, rng: Random) -> str:
    done = "ALL_COMPLETED" in asked.latest and rng.random() < _REPAIR
    return told(asked.latest) + (" ALL_COMPLETED" if done else "")
