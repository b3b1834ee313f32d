"""What the tests of every embedded task do alike: load its files, prepare its data, read arrays."""

import hashlib
import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import yaml

from fml_hydra.data import Origin, Source, prepare
from fml_hydra.ideas import Idea

ROOT = Path(__file__).parents[2]


class TaskFiles:
    """The files of one embedded task."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.folder = ROOT / "tasks" / name
        self.spec = yaml.safe_load((ROOT / "conf" / "task" / f"{name}.yaml").read_text())

    def load(self, path: str) -> ModuleType:
        """One of its Python files, under a name that no other task's file has."""
        name = f"{self.name}_{path.replace('/', '_').removesuffix('.py')}"
        spec = importlib.util.spec_from_file_location(name, self.folder / path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # dataclasses look their module up
        spec.loader.exec_module(module)
        return module

    def prepare(self, cache: Path) -> Path:
        """Its data, prepared in `cache` from the sources its YAML names."""
        sources = {
            name: Source(raw["sha256"], tuple(Origin(**origin) for origin in raw["origins"]))
            for name, raw in self.spec["sources"].items()
        }
        return prepare(self.folder / "prepare.py", sources, cache).folder

    def searches(self, idea: Idea) -> list[str]:
        """What an idea looks for in the target files, whole lines."""
        text = (self.folder / "ideas" / f"{idea.id}.md").read_text()
        return re.findall(r"<<<<<<< SEARCH\n(.*?\n)=======\n", text, re.DOTALL)


def arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an npz file."""
    with np.load(path, allow_pickle=False) as data:
        return dict(data)


def tree_hash(folder: Path) -> list[tuple[str, str]]:
    """Name and hash of every file below `folder`."""
    paths = sorted(p for p in folder.rglob("*") if p.is_file())
    return [(str(p.relative_to(folder)), hashlib.sha256(p.read_bytes()).hexdigest()) for p in paths]
