"""From any repository's outputs to one format, metrics by name: JSON, JSON lines, CSV or a pattern.

Stands in for `grade.py` where a task has `results`, and like it runs in a process of its own, with
limits, since what it reads was written by a candidate. Standard library only. Not here: which files
may be read (evaluation), what the numbers mean (metric).
"""

import csv
import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from fml_hydra.errors import InvalidOutput, MissingOutput

RULES = "rules.json"
"""File beside the outputs that says how each is read."""
_PART = re.compile(r"([^.\[\]]+)|\[(-?\d+)\]")
_TAKE: dict[str, Callable[[Sequence[float]], float]] = {
    "first": lambda values: values[0],
    "last": lambda values: values[-1],
    "min": min,
    "max": max,
    "mean": fmean,
}


def grade(outputs: Path, answers: Path) -> dict[str, float]:
    """All metrics that the rules name; `answers` is not looked at.

    Raises MissingOutput when a value is not there, InvalidOutput when it is no number.
    """
    metrics: dict[str, float] = {}
    for rule in json.loads((outputs / RULES).read_text(encoding="utf-8")):
        text = (outputs / rule["kept"]).read_text(encoding="utf-8", errors="replace")
        for name, where in rule["metrics"].items():
            metrics[name] = _value(text, rule, where)
    return metrics


def _value(text: str, rule: dict[str, Any], where: str) -> float:
    name = rule["name"]
    found = list(_READ[rule["format"]](text, where, rule))
    if not found:
        raise MissingOutput(f"{name}: nothing found for {where!r} ({rule['format']})")
    numbers = [_number(value, f"{name}: {where}") for value in found]
    value = _TAKE[rule["take"]](numbers)
    if rule.get("scale") != "-log10":
        return value
    if value <= 0:
        raise InvalidOutput(f"{name}: {where} is {value:g}, which has no logarithm")
    return -math.log10(value)


def _number(value: object, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise InvalidOutput(f"{what} is not a number but {type(value).__name__}")
    try:
        return float(value)
    except (ValueError, OverflowError):
        raise InvalidOutput(f"{what} is not a number but {str(value)[:80]!r}") from None


def _from_json(text: str, where: str, rule: dict[str, Any]) -> Iterator[object]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidOutput(f"{rule['name']}: not JSON ({error})") from error
    yield from _at(document, where)


def _from_json_lines(text: str, where: str, rule: dict[str, Any]) -> Iterator[object]:
    """Lines that are no JSON are left out: a program prints other things too."""
    for line in text.splitlines():
        if line.lstrip()[:1] not in ("{", "["):
            continue
        try:
            document = json.loads(line)
        except (ValueError, RecursionError):
            continue
        yield from _at(document, where)


def _from_csv(text: str, where: str, rule: dict[str, Any]) -> Iterator[object]:
    rows = csv.DictReader(text.splitlines(), delimiter=rule["delimiter"], skipinitialspace=True)
    try:
        yield from (row[where] for row in rows if row.get(where))
    except csv.Error as error:
        raise InvalidOutput(f"{rule['name']}: not CSV ({error})") from error


def _from_pattern(text: str, where: str, rule: dict[str, Any]) -> Iterator[object]:
    yield from (match[1] for match in re.finditer(where, text, re.MULTILINE))


_READ: dict[str, Callable[[str, str, dict[str, Any]], Iterator[object]]] = {
    "json": _from_json,
    "json_lines": _from_json_lines,
    "csv": _from_csv,
    "regex": _from_pattern,
}


def _at(document: Any, where: str) -> Iterator[object]:
    """The value at a path such as `cifar10.means.accuracy` or `folds[-1].f1`; nothing if none is.

    A last key that holds dots is found as it is, too.
    """
    while where:
        if isinstance(document, dict) and where in document:
            yield document[where]
            return
        part = _PART.search(where)
        if part is None:
            return
        key, index = part.groups()
        try:
            document = document[int(index)] if index else document[key]
        except (KeyError, IndexError, TypeError):
            return
        where = where[part.end() :].removeprefix(".")
    yield document
