"""Small files that others read while they are written."""

import json
from pathlib import Path
from typing import Any


def replace_json(path: Path, value: Any) -> None:
    """Write a JSON file at once: a reader, or a kill in the middle, never sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.part")
    partial.write_text(json.dumps(value))
    partial.replace(path)
