"""A toy task with a catalogue, and the requests and verdicts around it."""

import subprocess
import sys
from pathlib import Path

from fml_hydra.edits import apply_edit, parse_edit, render_files, syntax_error
from fml_hydra.errors import EditError
from fml_hydra.llm.base import Message, Purpose, Request

MODEL = '''"""A small model: y = w * x, by gradient descent with rate 0.5."""

CONFIG = {"rate": 0.01, "epochs": 20, "momentum": 0.9, "shuffle": False}


def gradient(weight, inputs, labels):
    residual = [weight * x - y for x, y in zip(inputs, labels, strict=True)]
    return sum(r * x for r, x in zip(residual, inputs, strict=True)) / len(inputs)


def fit(inputs, labels):
    weight, velocity = 0.0, 0.0
    for _ in range(CONFIG["epochs"]):
        velocity = CONFIG["momentum"] * velocity - CONFIG["rate"] * gradient(weight, inputs, labels)
        weight = weight + velocity
    return weight


if __name__ == "__main__":
    print(fit([1.0, 2.0, 3.0], [2.0, 4.0, 6.0]))
'''
FILES = {"model.py": MODEL}

IDEAS = {
    "average": (
        "good",
        "    return weight",
        "    average = 0.5 * (weight + velocity)\n    return average",
    ),
    "more_steps": ("good", "    weight, velocity = 0.0, 0.0", "    weight, velocity = 0.1, 0.0"),
    "clip": (
        "neutral",
        "        weight = weight + velocity",
        "        weight += max(velocity, -9.0)",
    ),
    "scale": (
        "crash",
        "    residual = [weight * x - y for x, y in zip(inputs, labels, strict=True)]",
        "    residual = [weight * x - y for x, y in zip(inputs, targets_scaled, strict=True)]",
    ),
}
SETTINGS = {
    "name": "offline",
    "error_rate": 0.0,
    "errors": {"name": 4, "bracket": 2, "search": 3, "no_code": 1, "wrong_file": 1, "unchanged": 1},
    "mutation_rate": 0.3,
    "combine_rate": 0.15,
    "whole_rate": 0.2,
}
STATUS = {
    "name": "ok",
    "bracket": "syntax",
    "search": "edit_failed",
    "no_code": "edit_failed",
    "wrong_file": "protected",
    "unchanged": "noop",
}


def write_ideas(folder: Path) -> Path:
    for name, (effect, old, new) in IDEAS.items():
        (folder / f"{name}.md").write_text(
            f"---\ntitle: The {name} idea\ncategory: algorithmic\neffect: {effect}\n"
            f"rationale: It may help with {name}.\n---\n### FILE: model.py\n"
            f"<<<<<<< SEARCH\n{old}\n=======\n{new}\n>>>>>>> REPLACE\n"
        )
    return folder


def prompt(files: dict[str, str] | None = None, **sections: str) -> str:
    text = "## Task\nFit a line.\n\n## Files\n" + render_files(FILES if files is None else files)
    more = {name.replace("_", " "): value for name, value in sections.items()}
    return text + "".join(f"\n\n## {name}\n{value}" for name, value in more.items())


def ask(seed: int, *texts: str, purpose: Purpose = "edit") -> Request:
    roles = ("user", "assistant") * len(texts)
    turns = [Message(role, text) for role, text in zip(roles, texts, strict=False)]
    return Request((Message("system", "You are a researcher."), *turns), purpose, seed)


def outcome(reply: str, files: dict[str, str] | None = None) -> tuple[str, dict[str, str]]:
    """(status the harness would give, files afterwards)."""
    files = FILES if files is None else files
    try:
        after = apply_edit(parse_edit(reply, tuple(files)), files)
    except EditError as error:
        return error.status, files
    if after == files:
        return "noop", after
    return ("syntax" if syntax_error(after) else "ok"), after


def run(text: str, folder: Path) -> subprocess.CompletedProcess[str]:
    (folder / "model.py").write_text(text)
    argv = [sys.executable, "-I", str(folder / "model.py")]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
