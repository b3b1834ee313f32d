"""A task's catalogue of ideas: one Markdown file each, with an edit in the form of LLM replies.

Not here: whether an idea applies to some files (edits), or whether it helps (measured per task).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from fml_hydra.edits import Edit, parse_edit
from fml_hydra.errors import EditError, TaskError

Category = Literal[
    "algorithmic",
    "structural",
    "parameter",
    "data",
    "objective",
    "refactoring",
    "shallow",
    "bugfix",
]
Effect = Literal["good", "neutral", "harmful", "shallow", "crash"]
_FIELDS = ("title", "category", "effect", "rationale")
_CHOICES = {"category": get_args(Category), "effect": get_args(Effect)}


@dataclass(frozen=True)
class Idea:
    """One change a researcher might try."""

    id: str
    """Name of its file, without the ending."""
    title: str
    """One line."""
    category: Category
    """What kind of change it is."""
    effect: Effect
    """What it does to the metric when applied alone, as measured."""
    rationale: str
    """One or two sentences on why it might help."""
    edit: Edit
    """The change to the pristine target files."""


def load_ideas(folder: Path, targets: Sequence[str]) -> tuple[Idea, ...]:
    """The ideas in `folder`, sorted by id, () if there is no such folder.

    Raises TaskError that names the file and what to do about it.
    """
    if not folder.is_dir():
        return ()
    paths = sorted(folder.glob("*.md"), key=lambda path: path.stem)
    return tuple(_load(path, targets) for path in paths)


def _load(path: Path, targets: Sequence[str]) -> Idea:
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise TaskError(f"{path}: not UTF-8 text ({error}); save it as UTF-8") from error
    head, body = _split(text.replace("\r\n", "\n"), path)
    fields = _fields(head, path)
    try:
        edit = parse_edit(body, targets)
    except EditError as error:
        raise TaskError(f"{path}: the edit cannot be read: {error}") from error
    return Idea(path.stem, edit=edit, **fields)  # type: ignore[arg-type]  # checked by _fields


def _split(text: str, path: Path) -> tuple[str, str]:
    """(front matter, edit)."""
    opening, _, rest = text.lstrip("\ufeff").partition("\n")
    head, mark, body = f"\n{rest}".partition("\n---\n")
    if opening.strip() != "---" or not mark:
        raise TaskError(f"{path}: begin with `---`, the fields {', '.join(_FIELDS)}, and `---`")
    return head, body


def _fields(head: str, path: Path) -> dict[str, str]:
    """The front matter: `name: value`, where an indented line goes on with the value above it."""
    fields: dict[str, str] = {}
    name = ""
    for line in filter(str.strip, head.split("\n")):
        if line[0].isspace() and name:
            fields[name] = f"{fields[name]} {line.strip()}".strip()
            continue
        name, colon, value = (part.strip() for part in line.partition(":"))
        if not colon or name not in _FIELDS or name in fields:
            raise TaskError(f"{path}: `{line}` is not one of the fields {', '.join(_FIELDS)}")
        fields[name] = "" if value in (">", "|", ">-", "|-") else value
    for field in _FIELDS:
        value = fields[field] = fields.get(field, "").strip("\"'")
        if not value:
            raise TaskError(f"{path}: the field `{field}` is missing or empty; add it")
        if value not in _CHOICES.get(field, (value,)):
            raise TaskError(
                f"{path}: {field} is `{value}`; use one of {', '.join(_CHOICES[field])}"
            )
    return fields
