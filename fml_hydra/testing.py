"""For authors of agents: a toy task, a scripted LLM, and the promises every agent has to keep.

The promises are tried on the simulator, in milliseconds a step; `for promise in PROMISES:
promise(agent)` is a whole test suite. Nothing here is used by a run.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

from fml_hydra.agents.base import Agent
from fml_hydra.journal import REFUSED
from fml_hydra.jsonl import JsonLines
from fml_hydra.llm.base import Reply, Request
from fml_hydra.simulation import DENSITIES, Simulation, SyntheticLLM, make_landscape, simulate
from fml_hydra.simulation.method import FILE, changed
from fml_hydra.simulation.run import scratch
from fml_hydra.skeleton import write_skeleton
from fml_hydra.usage import Usage

STEPS = 12
"""Steps of a run that a promise is tried on."""
FEW = 6
"""Steps of a run that is killed after each of its events."""
LANDSCAPE = make_landscape(DENSITIES["dense"], seed=0)
"""Where it is tried."""


def write_toy_task(folder: Path) -> Path:
    """Write a task whose evaluation takes a tenth of a second: `conf/task/toy.yaml`, `tasks/toy/`.

    Run it with `--config-dir FOLDER/conf tasks_dir=FOLDER/tasks task=toy`.
    """
    write_skeleton(folder, "toy")
    return folder


@dataclass(frozen=True)
class ScriptedLLM:
    """Answers by a function of the request; counts words as tokens."""

    answer: Callable[[Request], str]
    """From request to text."""
    name: str = "scripted"
    """Name in tables and tags."""

    def complete(self, request: Request) -> Reply:
        """Answer `request`."""
        text = self.answer(request)
        asked = sum(len(m.content.split()) for m in request.messages)
        return Reply(text, Usage(input=asked, output=len(text.split())), 0.0)


def as_json(value: object) -> str:
    """A fenced JSON block, as models write it."""
    return f"```json\n{json.dumps(value)}\n```"


def nonsense(request: Request) -> str:
    """An answer that holds nothing of use, now and then not even text."""
    return Random(request.seed).choice(["", "42", "{", "[1]", "null", "```python\n", "né\0", "}{"])


def crashing(request: Request) -> str:
    """An answer as it should be, but for a value that cannot be read by the made-up method."""
    if request.purpose not in {"edit", "repair"}:
        return SyntheticLLM(LANDSCAPE.space).complete(request).text
    shown = [m.content for m in request.messages if f"### FILE: {FILE}" in m.content]
    code = re.findall(rf"### FILE: {FILE}\n```+\w*\n(.*?)\n```", shown[-1], re.DOTALL)[0]
    body = changed(code, {"PART_00": f"{request.seed} / 0"})
    return f"I divide.\n\n### FILE: {FILE}\n```python\n{body}\n```\n"


def outcomes(run: Simulation) -> list[dict[str, Any]]:
    """Everything about its steps but the clock."""
    return [node.outcome() for node in run.history]


def spends_the_budget_exactly(agent: Agent) -> None:
    """Every step is reported once, in order, and the run ends because the steps are gone."""
    for slots in (1, 2, 4):
        for steps in (1, 2, STEPS):
            run = simulate(agent, LANDSCAPE, steps=steps, slots=slots)
            assert [node.id for node in run.history] == list(range(steps)), f"slots={slots}"
            assert run.state.closed is not None
            assert run.state.closed["reason"] == "steps", run.state.closed


def parents_come_first(agent: Agent) -> None:
    """A step starts from steps that were finished when its batch was proposed."""
    for slots in (1, 4):
        with _written() as lines:
            simulate(agent, LANDSCAPE, steps=3 * STEPS, seed=3, slots=slots)
        for event in (json.loads(line) for _, line in lines):
            if event.get("e") == "batch":
                parents = {p for action in event["actions"] for p in action["parents"]}
                assert all(p < event["at"] for p in parents), event


def best_is_best(agent: Agent) -> None:
    """The best step is the earliest with the highest utility."""
    history = simulate(agent, LANDSCAPE, steps=3 * STEPS).history
    utilities = [node.utility for node in history if node.ok]
    assert utilities, "no step of 36 has a metric"
    best = history.best()
    assert best is not None
    assert best.utility == max(u for u in utilities if u is not None)
    assert best.id == min(n.id for n in history if n.utility == best.utility)


def same_seed_same_choices(agent: Agent) -> None:
    """Equal seeds give equal runs; another seed another one, if an LLM takes part."""
    first, again, other = (
        outcomes(simulate(agent, LANDSCAPE, steps=STEPS, seed=seed, slots=2)) for seed in (1, 1, 2)
    )
    assert first == again
    asked = any(node["usage"]["input"] for node in first)
    assert not asked or first != other


def edits_only_targets(agent: Agent) -> None:
    """No step holds another file than those that may be edited."""
    history = simulate(agent, LANDSCAPE, steps=3 * STEPS, seed=1).history
    assert {name for node in history for name in node.snapshot} <= {FILE}


def survives_crashes_only(agent: Agent) -> None:
    """The budget is spent even if every single step crashes."""
    for slots in (1, 4):
        run = simulate(agent, LANDSCAPE, steps=STEPS, slots=slots, llm=ScriptedLLM(crashing))
        statuses = [node.status for node in run.history if node.usage.input]
        assert set(statuses) <= {"crash"}, statuses
        assert len(run.history) == STEPS


def survives_nonsense(agent: Agent) -> None:
    """The budget is spent even if the LLM never answers anything of use."""
    for slots in (1, 4):
        run = simulate(agent, LANDSCAPE, steps=STEPS, slots=slots, llm=ScriptedLLM(nonsense))
        statuses = {node.status for node in run.history if node.usage.input}
        assert statuses <= REFUSED, statuses
        assert len(run.history) == STEPS


def resumes_at_every_event(agent: Agent) -> None:
    """Killed after any event and started again, a run equals the uninterrupted one, spend too."""
    for slots in (1, 3):
        with _written() as lines, scratch() as folder:
            expected = simulate(agent, LANDSCAPE, steps=FEW, seed=5, slots=slots, folder=folder)
        for count in range(1, len(lines)):
            with scratch() as folder:
                for name in {name for name, _ in lines[:count]}:
                    text = "".join(line for file, line in lines[:count] if file == name)
                    (folder / name).write_text(text)
                again = simulate(agent, LANDSCAPE, steps=FEW, seed=5, slots=slots, folder=folder)
            where = f"slots={slots}, killed after event {count}: {lines[count - 1][1][:200]}"
            assert outcomes(again) == outcomes(expected), where
            assert again.state.notes == expected.state.notes, where
            assert again.state.closed == expected.state.closed, where


@contextmanager
def _written() -> Iterator[list[tuple[str, str]]]:
    """(file name, line) of everything that is written meanwhile, in order."""
    lines: list[tuple[str, str]] = []
    append = JsonLines.append

    def noting(self: JsonLines, record: Mapping[str, Any]) -> None:
        append(self, record)
        lines.append((self.path.name, json.dumps(record) + "\n"))

    with mock.patch.object(JsonLines, "append", noting):
        yield lines


PROMISES: tuple[Callable[[Agent], None], ...] = (
    spends_the_budget_exactly,
    parents_come_first,
    best_is_best,
    same_seed_same_choices,
    edits_only_targets,
    survives_crashes_only,
    survives_nonsense,
    resumes_at_every_event,
)
"""What every agent must keep; each raises AssertionError."""
