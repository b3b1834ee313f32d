"""One simulated run: the real session, journal, operators and agent on a made-up landscape.

Files go to a folder in memory where the system has one, unless another is asked for.
"""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

from fml_hydra.agents.base import Agent
from fml_hydra.calls import Afford, CallLog, whatever
from fml_hydra.errors import BudgetExhausted
from fml_hydra.evaluation import Outcome
from fml_hydra.hashing import text_hash
from fml_hydra.journal import Folded, History, Journal
from fml_hydra.llm.base import LLM, Reply, Request
from fml_hydra.metric import Direction, Metric
from fml_hydra.session import Budget, Session
from fml_hydra.simulation.landscape import Landscape
from fml_hydra.simulation.method import FILE, readable
from fml_hydra.simulation.model import SyntheticLLM
from fml_hydra.task import Brief
from fml_hydra.terms import Split
from fml_hydra.usage import Spend

METRIC = Metric("score", Direction.HIGHER, best=1.0)
"""What a simulated step measures."""
NOISE = 0.01
"""Standard deviation of a measured score over training seeds; the held-out one has none."""
LEVEL = "none"
"""The sandbox level of simulated steps: nothing is run."""
_MEMORY = Path("/dev/shm")  # noqa: S108  # a file system in memory; nothing is kept there
_DESCRIPTION = "Find the settings of a made-up method in method.py that give the highest score."


@dataclass(frozen=True)
class Synthetic:
    """Scores settings where the real evaluator would run commands (a `session.Evaluates`)."""

    landscape: Landscape
    """The function."""
    noise: float = NOISE
    """Standard deviation of the score on val, over training seeds and code states."""

    def evaluate(self, files: Mapping[str, str], split: Split, shift: int = 0) -> Outcome:
        """The score of the settings in `files`; equal code with an equal shift scores the same."""
        text = files.get(FILE, self.landscape.space.text())
        settings, sizes = readable(text), self.landscape.space.sizes
        wrong = [n for n, size in sizes.items() if not 0 <= settings.get(n, -1) < size]
        if wrong:
            return Outcome("crash", feedback=f"exit code 1\nValueError: {wrong[0]}", sandbox=LEVEL)
        if failure := self.landscape.failure(settings):
            name, kind = failure
            return Outcome(kind, feedback=f"it fails with {name} = {settings[name]}", sandbox=LEVEL)
        score = self.landscape.score(settings)
        if split == "val":
            drawn = Random(f"{self.landscape.seed}:{shift}:{sorted(settings.items())}")
            score += drawn.gauss(0, self.noise)
        return Outcome(
            "ok",
            metrics={METRIC.name: score},
            utility=METRIC.utility(score),
            feedback=f"score = {score:.6g} (higher is better; baseline 0)",
            sandbox=LEVEL,
            outputs=text_hash(f"{score!r}"),
        )


@dataclass(frozen=True)
class Simulation:
    """A finished run and the truth behind it."""

    state: Folded
    """The run, as folded from its journal."""
    landscape: Landscape
    """What was searched."""

    @property
    def history(self) -> History:
        """Its steps."""
        return self.state.history()

    def curve(self) -> list[float]:
        """True score of the best step so far by what was measured, after each step; 0 before."""
        curve, best, value = [], None, 0.0
        for node in self.history:
            if node.utility is not None and (best is None or node.utility > best):
                best = node.utility
                text = node.snapshot.get(FILE, self.landscape.space.text())
                value = self.landscape.score(readable(text))
            curve.append(value)
        return curve


def simulate(
    agent: Agent,
    landscape: Landscape,
    *,
    steps: int = 100,
    seed: int = 0,
    slots: int = 1,
    budget: Budget | None = None,
    llm: LLM | None = None,
    noise: float = NOISE,
    folder: Path | None = None,
) -> Simulation:
    """Run `agent` to its end; with a `folder` an unfinished run in it is gone on with.

    `budget` gives the limits other than the number of steps.
    """
    with nullcontext(folder) if folder else scratch() as place:
        journal = Journal(place / "journal.jsonl")
        calls = CallLog(place / "calls.jsonl") if folder else Unlogged()
        session = Session(
            brief=brief(landscape, place),
            journal=journal,
            calls=calls,
            folder=place,
            step_files=False,
            evaluator=Synthetic(landscape, noise),
            llm=llm or SyntheticLLM(landscape.space),
            budget=replace(budget, steps=steps) if budget else Budget(steps),
            seed=seed,
            slots=slots,
        )
        try:
            _search(agent, session)
        finally:
            calls.close()
            journal.close()
        return Simulation(journal.state, landscape)


class Unlogged(CallLog):
    """Calls that are counted only: for runs that nobody resumes or reads."""

    def __init__(self) -> None:
        self._spent = Spend()
        self._by_key: dict[str, Spend] = {}

    def ask(self, llm: LLM, key: str, request: Request, afford: Afford = whatever) -> Reply:
        """The answer to `request`."""
        afford(self._spent, Spend())
        reply = llm.complete(request)
        self._by_key[key] = Spend(reply.usage, reply.cost, reply.seconds)
        self._spent += self._by_key[key]
        return reply

    def spend(self, prefix: str = "") -> Spend:
        """What the calls whose key begins with `prefix` have cost."""
        spent = [s for key, s in [*self._by_key.items()] if key.startswith(prefix)]
        return sum(spent, Spend())

    def close(self) -> None:
        """There is nothing to let go of."""


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder that is gone afterwards, in memory where the system has such a place."""
    with tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as scratch:
        yield Path(scratch)


def _search(agent: Agent, session: Session) -> None:
    journal = session.journal
    header = {"agent": agent.name, "task": "simulation", "llm": "synthetic", "seed": session.seed}
    baseline = {"val": session.brief.baseline}
    metric = {"name": METRIC.name, "direction": METRIC.direction.value, "best": METRIC.best}
    journal.record("open", **header, metric=metric, baseline=baseline, baseline_utility=0.0)
    if journal.state.closed is not None:
        return
    reason = "finished_early"
    try:
        agent.run(session)
    except BudgetExhausted as exhausted:
        reason = exhausted.resource
    journal.record("close", reason=reason, step=len(session.history))


def brief(landscape: Landscape, folder: Path) -> Brief:
    """The made-up task as an agent is told it."""
    return Brief(
        description=_DESCRIPTION,
        repository=folder,
        files={FILE: landscape.space.text()},
        protected=("run.py",),
        commands=("python run.py",),
        metric=METRIC,
        baseline={METRIC.name: 0.0},
    )
