"""A run in progress: the only place where a step happens, and where the budget is kept.

Agents call `run_batch` (or `evaluate`, for one candidate they made themselves); observers hear what
happened and never steer. Not here: what to try (agents), how it is run (evaluation).
"""

import json
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ParamSpec, Protocol, TypeVar

from pydantic import PositiveInt
from pydantic.dataclasses import dataclass as checked

from fml_hydra.calls import CallLog
from fml_hydra.errors import BudgetExhausted, ConfigError, InfraError, SandboxError
from fml_hydra.evaluation import Outcome
from fml_hydra.hashing import text_hash
from fml_hydra.journal import REFUSED, Action, Batch, History, Journal, Node, Status
from fml_hydra.knobs import STRICT
from fml_hydra.llm.base import LLM, Message, Purpose, Reply, Request
from fml_hydra.refusal import refusal
from fml_hydra.steps import StepFiles
from fml_hydra.task import Brief
from fml_hydra.terms import Split
from fml_hydra.usage import Spend

T = TypeVar("T")
P = ParamSpec("P")
log = logging.getLogger(__name__)
INFRA_RETRIES = 2
"""How often one evaluation is tried again when the failure was ours."""
UNCHARGED_LIMIT = 4
"""Uncharged nodes per charged step after which a run ends all the same."""


@checked(frozen=True, config=STRICT)
class Budget:
    """What a run may spend; null means no limit."""

    steps: PositiveInt
    """Counted evaluations."""
    seconds: float | None = None
    """Wall time, checked before each batch."""
    tokens: PositiveInt | None = None
    """Input plus output tokens, checked before each call."""
    dollars: float | None = None
    """US dollars, checked before each call."""
    repairs: int = 2
    """Free LLM calls to mend an edit that cannot be applied."""
    charge_failed_edits: bool = True
    """Whether a step that was refused before training counts."""


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

    def __call__(self, purpose: Purpose, messages: Sequence[Message]) -> Reply:
        """The answer, recorded before it is used; raises BudgetExhausted or InfraError."""
        key = f"{self._owner}/{self._count}"
        self._count += 1
        return self._session.ask(key, purpose, messages)


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
        self._evaluator = evaluator
        self._llm = llm
        self._observers = observers
        self._lock = threading.Lock()
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
        self._afford(self._calls.spend(), Spend())

    def ask(self, key: str, purpose: Purpose, messages: Sequence[Message]) -> Reply:
        """One LLM call under a name of its own; `Asker` gives the names.

        Raises BudgetExhausted, InfraError, or ConfigError for a limit that cannot be kept.
        """
        seed = int(text_hash(f"{self.seed}:{key}")[:8], 16)
        request = Request(tuple(messages), purpose, seed)
        return self._calls.ask(self._llm, key, request, self._afford)

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
        """Try actions at once, one per slot, and commit each as it finishes.

        A batch that is pending from before a crash is finished first and alone; `actions` are then
        not looked at.
        """
        state = self.journal.state
        if not state.pending():
            self.check_budget()
            self.journal.propose(Batch(len(self.history), tuple(actions)))
        self.doing(" + ".join(action.op for _, action in state.pending()))
        try:
            _all_at_once([self._turn(i, action, maker) for i, action in state.pending()])
        except KeyboardInterrupt:
            with self._lock:  # the other slots' threads cannot be stopped, but write nothing more
                self._interrupted = True
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
        for observer in self._observers:
            guarded(observer.doing, what)

    def _turn(self, node_id: int, action: Action, maker: Maker) -> Callable[[], None]:
        batch = self.journal.state.batch
        history = self.journal.state.before(batch.at if batch else 0)
        turn = Turn(node_id, action, history, Asker(self, str(node_id)))
        return lambda: self._step(turn, maker)

    def _step(self, turn: Turn, maker: Maker) -> None:
        started = time.time()
        candidate = self._checked(turn, maker.make(turn))
        if candidate.refused:
            outcome = Outcome(candidate.refused, feedback=candidate.reason)
        else:
            outcome = self._evaluated(candidate)
        analysis = maker.reflect(turn, candidate, outcome)
        with self._lock:
            if self._interrupted:
                return
            node = self._node(turn, candidate, outcome, analysis, started)
            if self._files:
                self._files.write(node, candidate.prompt, candidate.reply, outcome)
            self.journal.commit(node)
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

    def _afford(self, spent: Spend, more: Spend) -> None:
        """Raise if nothing is left for another call, or not enough for this one (`more`)."""
        both, tokens, dollars = spent + more, self.budget.tokens, self.budget.dollars
        if tokens is not None and (spent.usage.total >= tokens or both.usage.total > tokens):
            raise BudgetExhausted("tokens")
        if dollars is None:
            return
        if spent.cost is None or both.cost is None:
            raise ConfigError(
                f"budget.dollars cannot be kept: the price of {self._llm.name} is not known; "
                "give it a price or limit budget.tokens"
            )
        if spent.cost >= dollars or both.cost > dollars:
            raise BudgetExhausted("dollars")


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


def _all_at_once(work: Sequence[Callable[[], None]]) -> None:
    """Run all of `work`, each in a thread of its own, and raise the first failure afterwards."""
    if len(work) == 1:
        work[0]()
        return
    failures: list[Exception] = []

    def collected(call: Callable[[], None]) -> None:
        try:
            call()
        except Exception as error:  # noqa: BLE001  # raised again below, in the caller's thread
            failures.append(error)

    threads = [
        threading.Thread(target=collected, args=(w,), name=f"slot {i}", daemon=True)
        for i, w in enumerate(work)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise next((f for f in failures if not isinstance(f, BudgetExhausted)), failures[0])
