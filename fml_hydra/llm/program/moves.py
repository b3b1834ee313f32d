"""Which change the offline program makes: an idea of the task's, a mutation, or both. Pure.

Not here: repairing code that failed (fixes), writing it down and the mistakes in it (slips).
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from random import Random
from typing import Literal

from fml_hydra.edits import syntax_error
from fml_hydra.ideas import Idea
from fml_hydra.llm.program.catalogue import Catalogue, added, holds, new_lines, removed
from fml_hydra.llm.program.mutate import Mutation, mutations
from fml_hydra.llm.program.reading import Asked

Wish = Literal["tune", "ablate", "cross", "improve"]
_WISHES: dict[Wish, re.Pattern[str]] = {
    "tune": re.compile(r"\s*(Tune|Vary)\b", re.IGNORECASE),
    "ablate": re.compile(r"\s*(Ablat\w*|Remove)\b", re.IGNORECASE),
    "cross": re.compile(r"\s*(Combine|Cross\w*)\b", re.IGNORECASE),
}


@dataclass(frozen=True)
class Move:
    """A change, with the reasons given for it."""

    files: Mapping[str, str]
    """All the files afterwards."""
    plan: str
    """Two to four sentences."""


@dataclass(frozen=True)
class Taste:
    """How often which kind of move is made."""

    mutation_rate: float
    """Share of mutations where an idea could be drawn."""
    combine_rate: float
    """Share of drawn ideas that are combined with a second one."""


def wish(asked: Asked) -> Wish:
    """What the instruction asks for, by its first word."""
    instruction = asked.sections.get("Instruction", "")
    return next((kind for kind, word in _WISHES.items() if word.match(instruction)), "improve")


def choose(asked: Asked, shelf: Catalogue, taste: Taste, rng: Random) -> Move | None:
    """A move for a draft or an improvement, None when there is nothing left to change."""
    wanted, move = wish(asked), None
    if wanted == "ablate":
        parts = [idea for idea in shelf.present if asked.idea in ("", idea.id)]
        move = without(rng.choice(parts), asked.files) if parts else None
    elif wanted == "cross":
        move = crossed(asked, shelf, rng)
    if asked.idea and not move:
        return _implemented(asked, shelf, taste, rng)
    if wanted in ("tune", "ablate"):
        move = move or mutated(asked, rng)
    return move or _free(asked, shelf, taste, rng)


def _free(asked: Asked, shelf: Catalogue, taste: Taste, rng: Random) -> Move | None:
    memory = asked.sections.get("Earlier attempts", "")
    fresh = [idea for idea in shelf.open if idea.title not in memory] or shelf.open
    mutant = mutated(asked, rng)
    if not fresh or (mutant and rng.random() < taste.mutation_rate):
        return mutant
    first = rng.choice(fresh)
    if rng.random() < taste.combine_rate:
        return combined(first, [idea for idea in fresh if idea is not first], asked.files, rng)
    return with_idea(first, asked.files)


def _implemented(asked: Asked, shelf: Catalogue, taste: Taste, rng: Random) -> Move | None:
    """The idea asked for; once it is in, a variation of it."""
    idea = shelf.named(asked.idea)
    if idea is None:
        wanted = [m for m in mutations(asked.files) if m.label == asked.idea]
        return with_mutation(wanted[0], asked.files) if wanted else _free(asked, shelf, taste, rng)
    if idea in shelf.open:
        return with_idea(idea, asked.files)
    inside = set(new_lines(idea))
    own = [m for m in mutations(asked.files) if m.quote in inside]
    others = [other for other in shelf.open if other is not idea]
    if own and (not others or rng.random() >= taste.combine_rate):
        return with_mutation(drawn(own, rng), asked.files)
    return with_idea(rng.choice(others), asked.files) if others else mutated(asked, rng)


def with_idea(idea: Idea, files: Mapping[str, str]) -> Move | None:
    """The move that brings an idea in."""
    after = added(idea, files)
    where = ", ".join(change.path for change in idea.edit.files)
    plan = f"I try this idea: {idea.title} ({idea.category}). {idea.rationale} I change {where}."
    return Move(after, plan) if after else None


def without(idea: Idea, files: Mapping[str, str]) -> Move | None:
    """The move that takes an idea out."""
    after = removed(idea, files)
    plan = f"I take this idea out again: {idea.title}. Everything else stays as it is."
    return Move(after, plan) if after else None


def crossed(asked: Asked, shelf: Catalogue, rng: Random) -> Move | None:
    """What another solution has and this one lacks: an idea, else some lines; None: no such."""
    for other in asked.others:
        theirs = {**asked.files, **other}
        lacking = [idea for idea in shelf.open if holds(idea, theirs)]
        if lacking and (move := with_idea(rng.choice(lacking), asked.files)):
            return Move(move.files, f"This is in the other solution. {move.plan}")
        if move := _taken_over(asked.files, theirs, rng):
            return move
    return None


def _taken_over(files: Mapping[str, str], theirs: Mapping[str, str], rng: Random) -> Move | None:
    """One passage that differs, as the other solution has it, where the file still compiles."""
    for path in rng.sample(sorted(files), len(files)):
        mine, other = files[path].split("\n"), theirs[path].split("\n")
        codes = SequenceMatcher(None, mine, other, autojunk=False).get_opcodes()
        passages = [code for code in codes if code[0] != "equal"]
        for _, start, end, left, right in rng.sample(passages, len(passages)):
            after = "\n".join([*mine[:start], *other[left:right], *mine[end:]])
            if syntax_error({path: after}) is None:
                what = f"line {start + 1} of {path}"
                plan = f"I take over a passage from the other solution at {what}. The rest stays."
                return Move({**files, path: after}, plan)
    return None


def combined(first: Idea, others: list[Idea], files: Mapping[str, str], rng: Random) -> Move | None:
    """Two ideas at once, or the first alone where no other goes with it."""
    move = with_idea(first, files)
    for second in rng.sample(others, len(others)) if move else []:
        if after := added(second, move.files if move else files):
            plan = (
                f"I try two ideas together: {first.title} ({first.category}), and {second.title} "
                f"({second.category}). {first.rationale} {second.rationale}"
            )
            return Move(after, plan)
    return move


def mutated(asked: Asked, rng: Random) -> Move | None:
    """A mutation of any constant in the files."""
    found = mutations(asked.files)
    return with_mutation(drawn(found, rng), asked.files) if found else None


def with_mutation(mutation: Mutation, files: Mapping[str, str]) -> Move:
    """The move that makes a mutation."""
    plan = (
        f"I change one value in {mutation.path}: `{mutation.quote}` goes from {mutation.old} to "
        f"{mutation.new}. Everything else stays as it is, so that its effect can be seen."
    )
    return Move(mutation.applied(files), plan)


def drawn(found: Sequence[Mutation], rng: Random) -> Mutation:
    """One of the mutations: every constant is as likely as any other, then every new value."""
    path, start = rng.choice(sorted({(m.path, m.start) for m in found}))
    return rng.choice([m for m in found if (m.path, m.start) == (path, start)])
