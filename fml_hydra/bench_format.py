"""Tasks in FML-bench's own format: config.json, prompt.json, baseline_results, and its commands.

What is read becomes facts that a task's YAML is written from (bench_task). Not here: FML-bench's
own tasks, whose YAMLs are in conf/task/paper and conf/task/fml18.
"""

import json
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from fml_hydra.errors import ConfigError

CHECKPOINT = "model_checkpoint"
"""Folder in which the scripts of FML-bench leave on val what they read on test."""
_FROM_TASK = re.compile(r"(?:\.\./)+(ml_tasks/.+)")
_SHELL = re.compile(r"[;&|<>$`*?()\[\]{}~!]|^\w+=|^(cd|export|source|mv) ")
_NEW = ("repo_dir", "target_files", "val_command", "test_command", "metric", "metric_direction")
_OLD = ("repo_dir", "target_files", "execute_commands")


@dataclass(frozen=True)
class BenchTask:
    """A task folder `ml_tasks/<name>` of a checkout laid out like FML-bench."""

    folder: Path
    """The task's own folder."""
    config: dict[str, Any]
    """Its config.json."""

    @classmethod
    def read(cls, folder: Path) -> "BenchTask":
        """Raises ConfigError, naming file and key, if it is no task of that format."""
        path = folder / "config.json"
        config = _json(path)
        if not isinstance(config, dict):
            raise ConfigError(f"{path}: must hold an object")
        wanted = _OLD if "execute_commands" in config else _NEW
        if missing := [key for key in wanted if not config.get(key)]:
            raise ConfigError(f"{path}: {missing[0]} is missing")
        return cls(folder, config)

    @property
    def root(self) -> Path:
        """The checkout it lies in."""
        return self.folder.parent.parent

    @property
    def repository(self) -> Path:
        """The task's repository, as FML-bench's setup makes it."""
        return self.root / str(self.config["repo_dir"])

    @property
    def old(self) -> bool:
        """Whether one command serves val and test (`execute_commands`)."""
        return "execute_commands" in self.config

    @property
    def results_file(self) -> str:
        """Where the metrics are, in the repository."""
        if not self.old:
            return "results_tmp/{split}_info.json"
        folder = PurePosixPath(str(self.config.get("exp_running_dir", "results_tmp/")))
        return str(folder / "final_info.json")

    def description(self) -> str:
        """What its agents are told."""
        prompt, text = self.folder / "prompt.json", self.folder / "task_description.txt"
        if prompt.exists():
            found = _json(prompt)
            parts = [str(found[key]) for key in ("system", "task_description") if found.get(key)]
            if parts:
                return "\n\n".join(parts)
            raise ConfigError(f"{prompt}: task_description is missing")
        if text.exists():
            return text.read_text(encoding="utf-8").strip()
        raise ConfigError(f"{prompt} does not exist, and no task_description.txt either")

    def baseline(self, split: str) -> dict[str, dict[str, float]]:
        """The declared metrics of each data set, in order; empty if none are declared."""
        for name in (f"{split}_info.json", "final_info.json"):
            path = self.folder / "baseline_results" / name
            if path.exists():
                return {data: dict(found["means"]) for data, found in _json(path).items()}
        return {}

    def leaves_checkpoint(self) -> bool:
        """Whether its commands or scripts mention the folder that val leaves to test."""
        texts = [json.dumps(self.config)]
        texts += [path.read_text(errors="replace") for path in self.folder.rglob("*.py")]
        return any(CHECKPOINT in text for text in texts)


@dataclass
class Translation:
    """FML-bench's shell lines as commands of ours, and the files they would have copied first."""

    files: dict[str, Path] = field(default_factory=dict)
    """Files to be put in, by their place in the repository."""

    def commands(self, task: BenchTask, lines: Sequence[str]) -> list[str]:
        """The lines without their copies from the task's folder; notes what those copy."""
        kept = [self._command(task, str(line)) for line in lines]
        return [command for command in kept if command]

    def _command(self, task: BenchTask, line: str) -> str:
        steps = []
        for step in re.split(r"\s*&&\s*", line.strip()):
            copied = dict(_copies(task, step))
            self.files |= copied
            if step and not copied and not self._removes(step):
                steps.append(step)
        text = " && ".join(steps)
        text = f"bash -c {shlex.quote(text)}" if _SHELL.search(text) else text
        text = text.replace("${", "$''{")  # the same to a shell, but no value of a configuration
        return text.replace("{", "{{").replace("}", "}}")  # else taken for {seed} and the like

    def _removes(self, step: str) -> bool:
        """Whether a step only takes away a file that was put in; it is protected now."""
        words = _words(step)
        names = [str(PurePosixPath(word)) for word in words[1:] if not word.startswith("-")]
        return words[:1] == ["rm"] and bool(names) and all(name in self.files for name in names)


def _copies(task: BenchTask, step: str) -> Iterator[tuple[str, Path]]:
    """Places and sources of `cp ../../../ml_tasks/<name>/... DESTINATION`; nothing for others."""
    words = [word for word in _words(step) if not word.startswith("-")]
    sources = [_FROM_TASK.fullmatch(word) for word in words[1:-1]]
    if words[:1] != ["cp"] or not sources or not all(sources):
        return
    target = words[-1]
    place = PurePosixPath(target)
    folder = target.endswith(("/", ".")) or (task.repository / place).is_dir() or len(sources) > 1
    for match in sources:
        assert match is not None
        found = sorted(task.root.glob(match[1]))
        if not found:
            raise ConfigError(
                f"{task.folder / 'config.json'}: `{step}`: {task.root / match[1]} does not exist"
            )
        for source in found:
            inside = not folder or match[1].endswith("/.")
            yield from _files(source, place if inside else place / source.name)


def _files(source: Path, place: PurePosixPath) -> Iterator[tuple[str, Path]]:
    if source.is_dir():
        for path in sorted(p for p in source.rglob("*") if p.is_file()):
            yield str(place / path.relative_to(source)), path
    else:
        yield str(place), source


def _words(step: str) -> list[str]:
    try:
        return shlex.split(step)
    except ValueError:  # the half of a quoted text
        return []


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path} does not exist") from None
    except ValueError as error:
        raise ConfigError(f"{path}: not JSON ({error})") from error
