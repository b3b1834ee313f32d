"""A run in progress: the only place where a step happens, and where the budget is kept.

Agents call `run_batch` (or `evaluate`, for one candidate they made themselves); observers hear what
happened and never steer. Not here: what to try (agents), how it is run (evaluation).
"""

import json
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import ParamSpec, Protocol, TypeVar

from fml_hydra.budget import Budget
from fml_hydra.calls import CallLog
from fml_hydra.errors import BudgetExhausted, InfraError, SandboxError
from fml_hydra.evaluation import Outcome
from fml_hydra.hashing import text_hash
from fml_hydra.journal import REFUSED, Action, Batch, History, Journal, Node, Status
from fml_hydra.kept import Kept
from fml_hydra.llm.base import LLM, Message, Purpose, Reply, Request, Schema
from fml_hydra.llm.waits import heard_by
from fml_hydra.refusal import refusal
from fml_hydra.slots import all_at_once
from fml_hydra.standstill import Standstill
from fml_hydra.steps import StepFiles
from fml_hydra.summary import UNFINISHED
from fml_hydra.task import Brief
from fml_hydra.terms import Split
from fml_hydra.usage import Spend

__all__ = [
    "Asker",
    "Budget",
    "Candidate",
    "Evaluates",
    "Maker",
    "Observer",
    "Session",
    "Turn",
    "guarded",
]

T = TypeVar("T")
P = ParamSpec("P")
log = logging.getLogger(__name__)
INFRA_RETRIES = 2
"""How often one evaluation is tried again when the failure was ours."""
UNCHARGED_LIMIT = 4
"""Uncharged nodes per charged step after which a run ends all the same."""


@dataclass(frozen=True)
class Candidate:
    """A code state to evaluate, or the reason why there is none."""

    files: Mapping[str, str]
    """Files that differ from the pinned commit, whole."""
    plan: str = ""
    """What the agent means to do."""
    refused: Status | None = None
    """Node status when it is refused before training."""
    reason: str = ""
    """Why it is refused."""
    prompt: str = ""
    """The prompt that led to it, for people."""
    reply: str = ""
    """The reply that led to it, for people."""
    shift: int = 0
    """Added to the training seed; with another seed even unchanged code is worth a step."""
    spend: Spend = Spend()
    """What the agent spent on it beside the session's own calls."""


class Asker:
    """LLM calls on behalf of one step, or of one proposal; counts them so that each has a name."""

    def __init__(self, session: "Session", owner: str) -> None:
        self._session = session
        self._owner = owner
        self._count = 0

    def __call__(
        self, purpose: Purpose, messages: Sequence[Message], schema: Schema | None = None
    ) -> Reply:
        """The answer, recorded before it is used; raises BudgetExhausted or InfraError."""
        key = f"{self._owner}/{self._count}"
        self._count += 1
        return self._session.ask(key, purpose, messages, schema)


@dataclass(frozen=True)
class Turn:
    """One action's turn: everything its operator may look at."""

    node_id: int
    """Id of the node it will become."""
    action: Action
    """What to try."""
    history: History
    """The run before the action's batch; the same whoever finishes first."""
    ask: Asker
    """LLM calls on behalf of the step."""


class Maker(Protocol):
    """Turns actions into candidates and outcomes into analyses."""

    def make(self, turn: Turn) -> Candidate:
        """The code state to evaluate."""
        ...

    def reflect(self, turn: Turn, candidate: Candidate, outcome: Outcome) -> str:
        """The agent's analysis of the outcome; may be empty."""
        ...


class Evaluates(Protocol):
    """What a session needs of an evaluator."""

    def evaluate(self, files: Mapping[str, str], split: Split, shift: int = 0) -> Outcome:
        """Run and grade one code state; `shift` is added to the split's training seed."""
        ...


class Observer(Protocol):
    """Hears of a run; never steers, and its failure never stops a run."""

    def changed(self) -> None:
        """Something was written to the journal."""
        ...

    def doing(self, what: str) -> None:
        """The run turned to something that takes time."""
        ...


class Session:
    """Journal, calls, budget and evaluator of one run."""

    def __init__(
        self,
        *,
        brief: Brief,
        journal: Journal,
        calls: CallLog,
        folder: Path,
        evaluator: Evaluates,
        llm: LLM,
        budget: Budget,
        seed: int,
        slots: int = 1,
        observers: Sequence[Observer] = (),
        step_files: bool = True,
    ) -> None:
        self.brief = brief
        self.journal = journal
        self.budget = budget
        self.seed = seed
        self.slots = slots
        self.folder = folder
        self._calls = calls
        self._files = StepFiles(folder, brief.files) if step_files else None
        self._kept = Kept.below(folder)
        self._evaluator = evaluator
        self._llm = llm
        self._observers = observers
        self._lock = threading.Lock()
        self._room = threading.BoundedSemaphore(slots)
        self._standstill = Standstill(journal, self._lock, self._say)
        self._work = ""
        self._interrupted = False

    @property
    def history(self) -> History:
        """What a policy may see now."""
        return self.journal.state.history()

    def steps_left(self) -> int:
        """Steps that may still be taken."""
        nodes = self.journal.state.nodes.values()
        if len(nodes) >= (1 + UNCHARGED_LIMIT) * self.budget.steps:
            return 0
        free = frozenset() if self.budget.charge_failed_edits else REFUSED
        charged = sum(n.status not in free or bool(n.sandbox) for n in nodes)  # what ran is charged
        return max(0, self.budget.steps - charged)

    def check_budget(self) -> None:
        """Raise BudgetExhausted when anything is spent."""
        if not self.steps_left():
            raise BudgetExhausted("steps")
        if self.budget.seconds is not None and self.journal.state.seconds >= self.budget.seconds:
            raise BudgetExhausted("seconds")
        self.budget.afford(self._calls.spend(), Spend(), self._llm.name)

    def ask(
        self,
        key: str,
        purpose: Purpose,
        messages: Sequence[Message],
        schema: Schema | None = None,
    ) -> Reply:
        """One LLM call under a name of its own; `Asker` gives the names.

        Raises BudgetExhausted, InfraError, or ConfigError for a limit that cannot be kept.
        """
        seed = int(text_hash(f"{self.seed}:{key}")[:8], 16)
        request = Request(tuple(messages), purpose, seed, schema)
        with heard_by(partial(self._standstill.hear, key)):
            return self._calls.ask(self._llm, key, request, self._affordable)

    def proposer(self) -> Asker:
        """LLM calls on behalf of the next proposal."""
        return Asker(self, f"p{len(self.history)}")

    def decide(self, key: str, decision: Callable[[], T]) -> T:
        """A decision of the policy that an LLM takes part in: made once, then read back."""
        if key not in self.journal.state.notes:
            made = json.dumps(decision())
            self.journal.note(key, json.loads(made))  # as a resumed run reads it: no tuples
            self.tell()
        value: T = self.journal.state.notes[key]
        return value

    def run_batch(self, actions: Sequence[Action], maker: Maker) -> None:
        """Try actions at once, `slots` of them evaluated at a time; commit each as it finishes.

        A batch that is pending from before a crash is finished first and alone; `actions` are then
        not looked at.
        """
        state = self.journal.state
        if not state.pending():
            self.check_budget()
            self.journal.propose(Batch(len(self.history), tuple(actions)))
        self.doing(" + ".join(action.op for _, action in state.pending()))
        try:
            all_at_once([self._turn(i, action, maker) for i, action in state.pending()])
        except KeyboardInterrupt:
            with self._lock:  # the other slots' threads cannot be stopped, but write nothing more
                self._interrupted = True
                self._standstill.close()
            raise

    def evaluate(self, action: Action, candidate: Candidate) -> Node:
        """One step with a candidate that the agent made itself; refused like any other.

        A batch that is pending from before a crash is given up: its candidate is known no more.
        """
        self.check_budget()
        self.journal.propose(Batch(len(self.history), (action,)))
        self.run_batch([], _Ready(candidate))
        return self.journal.state.nodes[max(self.journal.state.nodes)]

    def tell(self) -> None:
        """Let the observers hear that the journal has changed."""
        for observer in self._observers:
            guarded(observer.changed)

    def doing(self, what: str) -> None:
        """Let the observers hear what takes time now."""
        self._work = what
        self._say()

    def settle(self) -> None:
        """Once the search is over: calls that led to no step were paid for all the same."""
        state = self.journal.state
        owners = [i for i, _ in state.pending()] or [len(state.nodes)]
        keys = [key for i in owners for key in (f"{i}/", f"p{i}/")]
        spend = sum((self._calls.spend(key) for key in keys), Spend())
        if spend.usage.total or spend.cost != 0.0:
            self.journal.note(UNFINISHED, asdict(spend))

    def _affordable(self, spent: Spend, more: Spend) -> None:
        self.budget.afford(spent, more, self._llm.name)

    def _say(self) -> None:
        what = ", ".join(filter(None, (self._work, self._standstill.words)))
        for observer in self._observers:
            guarded(observer.doing, what)

    def _turn(self, node_id: int, action: Action, maker: Maker) -> Callable[[], None]:
        batch = self.journal.state.batch
        history = self.journal.state.before(batch.at if batch else 0)
        turn = Turn(node_id, action, history, Asker(self, str(node_id)))

        def work() -> None:
            with self._standstill.turn():
                self._step(turn, maker)

        return work

    def _step(self, turn: Turn, maker: Maker) -> None:
        started = time.time()
        candidate = self._checked(turn, maker.make(turn))
        if candidate.refused:
            outcome = Outcome(candidate.refused, feedback=candidate.reason)
        else:
            with self._room:
                outcome = self._evaluated(candidate)
        analysis = maker.reflect(turn, candidate, outcome)
        with self._lock:
            if self._interrupted:
                return
            node = self._node(turn, candidate, outcome, analysis, started)
            if self._files:
                self._files.write(node, candidate.prompt, candidate.reply, outcome)
            self.journal.commit(node)
            self._kept.settle(node, outcome.kept, self.history.best())
            self.tell()

    def _checked(self, turn: Turn, candidate: Candidate) -> Candidate:
        """The candidate with only the files that differ, refused if it need not be tried."""
        if candidate.refused:
            return candidate
        pristine = self.brief.files
        files = {k: v for k, v in candidate.files.items() if v != pristine.get(k)}
        parents = turn.action.parents
        before = turn.history[parents[0]].snapshot if parents else {}
        found = refusal(files, before, pristine)
        if found and not (found.status == "noop" and candidate.shift):
            kept = {} if found.status == "protected" else files  # its names may lead anywhere
            return replace(candidate, files=kept, refused=found.status, reason=found.reason)
        return replace(candidate, files=files)

    def _evaluated(self, candidate: Candidate) -> Outcome:
        for _ in range(INFRA_RETRIES):
            try:
                return self._evaluator.evaluate(candidate.files, "val", candidate.shift)
            except (InfraError, SandboxError) as error:
                log.warning("evaluation failed through no fault of the agent, again: %s", error)
        return self._evaluator.evaluate(candidate.files, "val", candidate.shift)

    def _node(
        self,
        turn: Turn,
        candidate: Candidate,
        outcome: Outcome,
        analysis: str,
        started: float,
    ) -> Node:
        calls = self._calls.spend(f"{turn.node_id}/") + self._calls.spend(f"p{turn.node_id}/")
        spend = calls + candidate.spend
        return Node(
            id=turn.node_id,
            op=turn.action.op,
            parents=turn.action.parents,
            meta=dict(turn.action.meta),
            status=outcome.status,
            utility=outcome.utility,
            metrics=outcome.metrics,
            snapshot=dict(candidate.files),
            plan=candidate.plan,
            analysis=analysis,
            feedback=outcome.feedback,
            usage=spend.usage,
            cost=spend.cost,
            seconds_llm=spend.seconds,
            seconds_exec=outcome.seconds,
            started=started,
            sandbox=outcome.sandbox,
            outputs=outcome.outputs,
            flags=(*outcome.flags, *self._twins(turn, candidate, outcome)),
        )

    def _twins(self, turn: Turn, candidate: Candidate, outcome: Outcome) -> list[str]:
        """Equal outputs of unequal code; the own batch is left out, whose order is chance."""
        if not outcome.outputs:
            return []
        same = [n for n in turn.history if n.outputs == outcome.outputs]
        twins = [f"step {n.id}" for n in same if n.snapshot != candidate.files]
        if candidate.files and self.journal.state.header.get("baseline_outputs") == outcome.outputs:
            twins.insert(0, "the baseline")
        return [f"outputs identical to {twin}, although the code differs" for twin in twins[:1]]


@dataclass(frozen=True)
class _Ready:
    """A maker for a candidate that is there already."""

    candidate: Candidate

    def make(self, turn: Turn) -> Candidate:
        return self.candidate

    def reflect(self, turn: Turn, candidate: Candidate, outcome: Outcome) -> str:
        return ""


def guarded(call: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> None:
    """Call an observer; its failure is logged and never stops a run."""
    try:
        call(*args, **kwargs)
    except Exception:  # noqa: BLE001  # whatever an observer raises
        log.exception("an observer failed; the run goes on")
