"""Small changes to the constants of source files: numbers, switches, named choices. Pure.

Python is read by its syntax tree (sites); in other files only lines like `name: 0.1` count.
Not here: which mutation to take (offline), structural changes (a task's ideas).
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from fml_hydra.edits import syntax_tree
from fml_hydra.llm.program.sites import Site, choices, sites

_PROBABILITY = re.compile(r"prob|drop|momentum|beta|decay|ratio|frac|alpha|keep|smooth|ema|^p$")
_FIXED = re.compile(r"seed|random_state|^axis$|^dim|ndim|keepdim|version|^index$|^idx$")
_SETTING = re.compile(
    r"""^([\s"']*(?P<name>[\w.-]+)["']?\s*[:=]\s*-?)(?P<value>\d[\d.]*(?:e-?\d+)?|true|false)(?=[\s,;#]|$)""",
    re.IGNORECASE,
)
_FACTORS = (2.0, 0.5, 3.0, 1 / 3, 10.0, 0.1)
_TENFOLD = 10
"""Integers up to here may grow tenfold; with larger ones that mostly makes a run slow."""

_GUARD = 1e-6
"""Numbers up to here keep a division or a logarithm safe; they, and as large ones, are no knobs."""


@dataclass(frozen=True)
class Mutation:
    """One constant replaced by another."""

    path: str
    """File it is in."""
    label: str
    """`mutate_<name>_<n>`, unique among the mutations of the same files."""
    line: int
    """Line number, from 1."""
    start: int
    """Offset of the constant's first character in the file."""
    old: str
    """The constant as written."""
    new: str
    """What it becomes."""
    quote: str
    """The line it is on, stripped."""

    def applied(self, files: Mapping[str, str]) -> dict[str, str]:
        """`files` with this mutation; they must be the files it was made from."""
        text = files[self.path]
        end = self.start + len(self.old)
        return {**files, self.path: text[: self.start] + self.new + text[end:]}


@dataclass(frozen=True)
class _Knob:
    start: int
    written: str
    name: str
    options: list[str]


def mutations(files: Mapping[str, str]) -> tuple[Mutation, ...]:
    """Every mutation of `files`, in the order of the text; none of a file that cannot be read."""
    found: list[Mutation] = []
    used: Counter[str] = Counter()
    for path, text in sorted(files.items()):
        lines = text.split("\n")
        for knob in _knobs(path, text):
            line = text.count("\n", 0, knob.start)
            stem = re.sub(r"\W+", "_", knob.name).strip("_").lower() or "value"
            for new in knob.options:
                used[stem] += 1
                label = f"mutate_{stem}_{used[stem]}"
                quote = lines[line].strip()
                found.append(Mutation(path, label, line + 1, knob.start, knob.written, new, quote))
    return tuple(found)


def _knobs(path: str, text: str) -> list[_Knob]:
    found = list(_python(text) if path.endswith(".py") else _settings(text))
    return [knob for knob in found if knob.options and not _FIXED.search(knob.name.lower())]


def _python(text: str) -> list[_Knob]:
    try:
        tree = syntax_tree(text)
        seen = choices(tree)
        return [
            _Knob(site.start, site.written, site.name, _options(site, seen.get(site.name, ())))
            for site in sites(tree, text)
        ]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []


def _settings(text: str) -> Iterator[_Knob]:
    start = 0
    for line in text.split("\n"):
        if match := _SETTING.match(line):
            name, written = match["name"], match["value"]
            options = _flipped(written) or _numbers(written, name, direct=True)
            yield _Knob(start + match.start("value"), written, name, options)
        start += len(line) + 1


def _flipped(written: str) -> list[str]:
    other = {"true": "false", "false": "true"}.get(written.lower(), "")
    return [other.capitalize() if written[0].isupper() else other] if other else []


def _options(site: Site, named: tuple[str, ...]) -> list[str]:
    value = site.value
    if isinstance(value, bool):
        return [str(not value)] if site.direct else []
    if isinstance(value, str):
        known = site.direct and value in named
        return [repr(choice) for choice in named if choice != value] if known else []
    if isinstance(value, int) and site.negative:
        return []
    return _numbers(site.written, site.name, site.direct)


def _numbers(written: str, name: str, direct: bool) -> list[str]:
    if re.fullmatch(r"\d[\d_]*", written):
        return _integers(int(written), direct) if len(written) < 10 else []
    try:
        return _floats(float(written), name)
    except ValueError:  # hexadecimal, a version, ...: no knob
        return []


def _integers(value: int, direct: bool) -> list[str]:
    """Other whole numbers, at least 1; a 0, or a 1 inside an expression, is rarely a knob."""
    if value == 0 or (value == 1 and not direct):
        return []
    factors = [factor for factor in _FACTORS if value <= _TENFOLD or factor < _TENFOLD]
    made = dict.fromkeys(max(1, round(value * factor)) for factor in factors)
    return [str(new) for new in made if new != value]


def _floats(value: float, name: str) -> list[str]:
    if not _GUARD < value < 1 / _GUARD:
        return []
    made = [value * factor for factor in _FACTORS]
    if value <= 1 and (_PROBABILITY.search(name.lower()) or 0.5 <= value < 1):
        made = [new for new in made if new < 1]
    if 0.5 < value < 1:  # like a momentum: 0.9 and 0.99 are ten times apart
        made += [1 - (1 - value) * factor for factor in _FACTORS if (1 - value) * factor < 1]
    shown = dict.fromkeys(repr(float(f"{new:.3g}")) for new in made)
    return [new for new in shown if float(new) not in (0.0, 1.0, value)]
