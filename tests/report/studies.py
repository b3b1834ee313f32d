"""Studies for the tests of the report, from journals written by hand."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from journals import ACCURACY, ERROR, events, written

from fml_hydra.analysis.known import known_methods
from fml_hydra.commands.report import load_settings
from fml_hydra.report import collect as collecting
from fml_hydra.report.build import build
from fml_hydra.report.collect import collect
from fml_hydra.report.files import Folder, write_report
from fml_hydra.report.parts import Block, Section, Table
from fml_hydra.report.selection import select
from fml_hydra.report.settings import Settings
from fml_hydra.report.study import Study

collecting.known_methods = cache(known_methods)  # type: ignore[assignment]  # read once
WORDS = ("tracking=none", "embedder=offline", "resamples=50", "figures=[svg]")
PRISTINE = {"model.py": "RATE = 0.1\n\n\ndef fit(x):\n    return x * RATE\n"}


@dataclass(frozen=True)
class Built:
    """A study with everything that was made of it."""

    study: Study
    sections: Sequence[Section]
    folder: Path

    def table(self, name: str) -> Table:
        """One of its tables."""
        return next(t for t in tables(self.sections) if t.name == name)

    @property
    def page(self) -> str:
        """Its page."""
        return (self.folder / "report.html").read_text()


def run(
    root: Path, task: str, agent: str, values: Sequence[float | None], seed: int = 0, **more: Any
) -> Path:
    """Write a run below `root`; every step has code of its own."""
    llm = more.setdefault("llm", "offline")
    name = f"{task}.{agent}.{llm}.s{seed}.{more.get('sweep', 's')}"
    more = {"instance": name, "identity": name, "pristine": PRISTINE, "started": 100.0, **more}
    history = events(values, task=task, agent=agent, seed=seed, **more)
    for event in history:
        if event["e"] == "node":
            code = PRISTINE["model.py"].replace("0.1", f"0.{event['id'] + 2}{seed}")
            event["snapshot"] = {"model.py": code + f"# {agent}\n" * event["id"]}
    return written(root / "runs" / name, history)


def matrix(root: Path) -> None:
    """2 agents x 2 LLMs x 2 tasks x 2 seeds; `acc` is to be raised, `err` lowered."""
    for a, agent in enumerate(("aide", "ai_scientist")):
        for m, llm in enumerate(("offline", "other")):
            for seed in (0, 1):
                if (agent, llm, seed) != ("aide", "other", 1):
                    good = 0.6 + 0.1 * a + 0.02 * m + 0.01 * seed
                    steps = [0.5, None, good, good - 0.1]
                    run(root, "lift", agent, steps, seed, llm=llm, test=good - 0.05)
                bad = 0.4 - 0.1 * a - 0.02 * m - 0.01 * seed
                knobs = {"metric": ERROR, "baseline": (0.5, 0.5), "test": bad, "llm": llm}
                run(root, "lower", agent, [0.6, bad, None], seed, **knobs)


def study_of(root: Path, *words: str) -> Study:
    """What a report on the folders below `root` is about."""
    settings = replace(_settings(words), root=root)
    return collect(settings, select(settings))


@cache
def _settings(words: tuple[str, ...]) -> Settings:
    return load_settings([*WORDS, "behaviours=false", *words])


def built(root: Path, *words: str) -> Built:
    """A whole report, its files below `root`."""
    study = study_of(root, *words)
    sections = build(study)
    folder = Folder(root / "reports" / "r")
    write_report(study, sections, folder)
    return Built(study, sections, folder.path)


def tables(sections: Sequence[Section]) -> list[Table]:
    """Every table, those of the runs' steps included."""
    found: list[Table] = []
    for block in blocks(sections):
        if isinstance(block, Table):
            found.append(block)
        elif block.block == "runs":
            found += [run.steps for run in block.runs]  # type: ignore[union-attr]
    return found


def blocks(sections: Sequence[Section]) -> list[Block]:
    """Everything that stands on the page."""
    return [block for section in sections for block in section.blocks]


__all__ = ["ACCURACY", "ERROR", "Built", "built", "matrix", "run", "study_of", "tables"]
