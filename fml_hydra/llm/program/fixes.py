"""How the offline program repairs code that failed: from the error, and from what it put in. Pure.

Not here: mending a reply that could not be applied (offline).
"""

import ast
import builtins
import difflib
import re
from collections.abc import Callable, Iterator, Mapping
from random import Random

from fml_hydra.edits import syntax_error, syntax_tree
from fml_hydra.llm.program.catalogue import Catalogue, new_lines
from fml_hydra.llm.program.moves import Move, drawn, mutated, with_mutation, without
from fml_hydra.llm.program.mutate import mutations
from fml_hydra.llm.program.reading import Asked

_UNKNOWN = re.compile(r"name '(\w+)' is not defined|has no attribute '(\w+)'")
_CHANGED = re.compile(r"`([^`\n]+)` goes from (\S+) to (\S+)\. ")
_PLACE = re.compile(r'File "([^"\n]+)", line (\d+)')
_MESSAGE = re.compile(r":(\d+): ")


def fix(asked: Asked, shelf: Catalogue, rng: Random) -> Move | None:
    """The first repair that can be made, from the most telling one to a mutation at random."""
    error = asked.sections.get("Error", "")
    attempts: tuple[Callable[[], Move | None], ...] = (
        lambda: _spelt(asked.files, error),
        lambda: _closed(asked.files),
        lambda: _taken_out(asked, shelf, error, rng),
        lambda: _reverted(asked),
        lambda: _nearby(asked, error, rng),
        lambda: mutated(asked, rng),
    )
    return next((move for attempt in attempts if (move := attempt())), None)


def _spelt(files: Mapping[str, str], error: str) -> Move | None:
    """An unknown name replaced by the defined one that is closest to it."""
    for found in _UNKNOWN.finditer(error):
        wrong = found[1] or found[2]
        known = [name for text in files.values() for name in _identifiers(text) if name != wrong]
        close = difflib.get_close_matches(wrong, sorted({*known, *dir(builtins)}), 1, 0.75)
        word = re.compile(rf"\b{wrong}\b")
        if close and any(word.search(text) for text in files.values()):
            plan = f"The name `{wrong}` is not defined. I write `{close[0]}`, which is meant."
            return Move({path: word.sub(close[0], text) for path, text in files.items()}, plan)
    return None


def _identifiers(text: str) -> Iterator[str]:
    """Names that are defined in a Python file, and attributes it uses."""
    try:
        nodes = list(ast.walk(syntax_tree(text)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in nodes:
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name) | ast.Attribute(attr=name):
                yield name
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.alias(name=name, asname=other):
                yield other or name.partition(".")[0]


def _closed(files: Mapping[str, str]) -> Move | None:
    """A missing bracket put in, near where the compiler stumbles."""
    message = syntax_error(files)
    if message is None:
        return None
    path, where = message.split(":")[0], int((_MESSAGE.search(message) or [0, 1])[1])
    lines = files[path].split("\n")
    order = sorted(range(len(lines)), key=lambda i: abs(i + 1 - where))
    for at in order[:40]:
        for bracket in ")]}":
            for line in (f"{lines[at]}{bracket}", re.sub(r":(\s*)$", rf"{bracket}:\1", lines[at])):
                after = {**files, path: "\n".join([*lines[:at], line, *lines[at + 1 :]])}
                if line != lines[at] and syntax_error({path: after[path]}) is None:
                    return Move(after, f"{message}. I put in the missing `{bracket}`.")
    return None


def _taken_out(asked: Asked, shelf: Catalogue, error: str, rng: Random) -> Move | None:
    """The idea most likely to blame: a known crash, one that the error quotes, or any."""
    present = shelf.present
    crashing = [idea for idea in present if idea.effect == "crash"]
    quoted = [i for i in present if any(len(ln) > 8 and ln in error for ln in new_lines(i))]
    suspects = crashing or quoted
    if not suspects:
        return None
    move = without(rng.choice(suspects), asked.files)
    return Move(move.files, f"The run failed. {move.plan}") if move else None


def _reverted(asked: Asked) -> Move | None:
    """A value set back that an earlier plan, shown in the prompt, says it changed."""
    told = "\n".join(text for name, text in asked.sections.items() if name != "Files")
    for quote, old, new in reversed(_CHANGED.findall(told)):
        for path, text in asked.files.items():
            for line in text.split("\n"):
                if line.strip() == quote.replace(old, new, 1):
                    back = line.replace(line.strip(), quote)
                    plan = f"The run failed. I set `{quote}` back from {new} to {old}."
                    return Move({**asked.files, path: text.replace(line, back, 1)}, plan)
    return None


def _nearby(asked: Asked, error: str, rng: Random) -> Move | None:
    """A mutation of a line that the traceback names."""
    places = {(name.rpartition("/")[2], int(line)) for name, line in _PLACE.findall(error)}
    found = [m for m in mutations(asked.files) if (m.path.rpartition("/")[2], m.line) in places]
    return with_mutation(drawn(found, rng), asked.files) if found else None
