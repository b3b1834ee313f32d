"""The AI Scientist v2: best-first tree search in four stages, in batches of parallel slots.

Yamada et al., "The AI Scientist-v2", arXiv 2504.08066. A batch is planned at once, from what was
known when it began, and its plan is kept as a note: how many evaluations run at the same time
(`slots`) changes nothing in what is tried.
"""

import json
import random
from collections.abc import Sequence
from dataclasses import asdict
from dataclasses import dataclass as plain_dataclass
from functools import cached_property
from itertools import accumulate
from typing import Annotated, Any

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt
from pydantic.dataclasses import dataclass

from fml_hydra.agents.base import IDEA, Advisor, Share
from fml_hydra.edits import render_files
from fml_hydra.journal import Action, History, Node
from fml_hydra.knobs import STRICT
from fml_hydra.replies import parse_object

STAGES = ("initial", "tuning", "research", "ablation")
IDEAS = {"tuning": ("tune", "tuning_idea"), "ablation": ("ablate", "ablation_idea")}
"""Operator and template of the stages that try ideas on the best node of the stages before."""
Four = Annotated[tuple[PositiveFloat, ...], Field(min_length=len(STAGES), max_length=len(STAGES))]
UNREADABLE_CHARS = 1000
"""How much of a reply is kept as the idea when it holds no JSON object."""


@plain_dataclass(frozen=True)
class Stage:
    """A stage at the beginning of a batch."""

    name: str
    """One of STAGES."""
    history: History
    """What was known."""
    carried: Node | None
    """The node it starts from: the best of the stages before; None: the baseline."""

    @cached_property
    def nodes(self) -> list[Node]:
        """Its own nodes, in order."""
        return [node for node in self.history if node.meta["stage"] == self.name]

    def steps(self, taken: Sequence[Action]) -> list[Node | Action]:
        """Its own nodes, and the actions planned before the next one."""
        return [*self.nodes, *taken]

    def tree(self, node: Node) -> int:
        """The tree a node is in, by the id of its first node of this stage, or of `carried`."""
        above = [n for n in self.history.ancestors(node) if n.meta["stage"] == self.name]
        return [node, *above][-1].id

    def outside(self, trees: set[int]) -> list[Node]:
        """The nodes of the other trees, `carried` being one of its own."""
        known = [self.carried, *self.nodes] if self.carried else self.nodes
        return [node for node in known if self.tree(node) not in trees]


@dataclass(frozen=True, config=STRICT)
class AiScientistV2:
    """Stages of a tree search; each ends at its share of the steps, the first when a node works."""

    steps: PositiveInt | None
    """Steps of all stages together; None: those of the run."""
    shares: Four
    """Relative lengths of the stages: initial implementation, tuning, research, ablation."""
    pass_on: bool
    """Whether steps that a stage leaves go to the next one, and the last stage never ends."""
    num_drafts: PositiveInt
    """Drafts of the initial stage."""
    debug_prob: Share
    """Chance of debugging when there is something to debug."""
    max_debug_depth: NonNegativeInt
    """A leaf is debugged while it is at most so many debug steps deep."""
    batch: PositiveInt
    """Steps planned at once."""
    carry_best: bool
    """Whether research starts from the best node of the stages before, not from the baseline."""

    def propose(
        self, history: History, k: int, rng: random.Random, advisor: Advisor
    ) -> list[Action]:
        """The next actions of the batch that is under way, or of a new one."""
        start = max((node.meta["batch"] for node in history), default=0)
        if len(history) - start >= len(history.notes.get(_key(start), [])):
            start = len(history)
        plan = advisor.decide(_key(start), lambda: self._plan(history, rng, advisor))
        rest = plan[len(history) - start :][:k]
        return [Action(a["op"], tuple(a["parents"]), {**a["meta"], "batch": start}) for a in rest]

    def _plan(self, history: History, rng: random.Random, advisor: Advisor) -> list[dict[str, Any]]:
        """A batch of actions, as plain JSON."""
        ends = self._ends(self.steps or advisor.steps)
        stage, left = self._stage(history, ends)
        actions: list[Action] = []
        for _ in range(min(self.batch, left)):
            actions.append(self._slot(stage, actions, rng, advisor))
        return [asdict(action) | {"parents": list(action.parents)} for action in actions]

    def _ends(self, steps: int) -> list[int]:
        """For each stage the steps that it and those before it should take."""
        total = sum(self.shares)
        return [max(1, round(steps * part / total)) for part in accumulate(self.shares)]

    def _stage(self, history: History, ends: Sequence[int]) -> tuple[Stage, int]:
        """The stage of the next batch, and how many steps it has left; 0 when all are over."""
        at = max((STAGES.index(node.meta["stage"]) for node in history), default=0)
        while at < len(STAGES) - 1 and self._left(history, at, ends) <= 0:
            at += 1
        before = [node for node in history if STAGES.index(node.meta["stage"]) < at]
        afresh = STAGES[at] == "research" and not self.carry_best
        carried = None if afresh else history.best(before)
        return Stage(STAGES[at], history, carried), self._left(history, at, ends)

    def _left(self, history: History, at: int, ends: Sequence[int]) -> int:
        """Steps that the stage of that index may still take."""
        own = [node for node in history if node.meta["stage"] == STAGES[at]]
        if at == 0 and any(node.ok for node in own):
            return 0
        if not self.pass_on:
            return ends[at] - [0, *ends][at] - len(own)
        if at == len(STAGES) - 1:
            return self.batch
        return ends[at] - len(history)

    def _slot(
        self, stage: Stage, taken: Sequence[Action], rng: random.Random, advisor: Advisor
    ) -> Action:
        """One action of a batch, knowing those before it."""
        history, meta = stage.history, {"stage": stage.name}
        drafts = sum(step.op == "draft" for step in stage.steps(taken))
        if stage.name == "initial" and drafts < self.num_drafts:
            return Action("draft", (), meta)
        used = {stage.tree(history[parent]) for action in taken for parent in action.parents}
        free = stage.outside(used)
        here = {node.id for node in free}
        broken = [n for n in history.debuggable(self.max_debug_depth) if n.id in here]
        if rng.random() < self.debug_prob and broken:
            node = rng.choice(broken)
            kept = {"idea": node.meta["idea"]} if "idea" in node.meta else {}
            return Action("debug", (node.id,), meta | kept)
        if stage.name in IDEAS and (base := stage.carried or history.best(stage.nodes)):
            return self._idea(stage, base, taken, advisor)
        best = history.best(free) or history.best(stage.outside(set()))
        return Action("improve", (best.id,), meta) if best else Action("draft", (), meta)

    def _idea(self, stage: Stage, base: Node, taken: Sequence[Action], advisor: Advisor) -> Action:
        """Tune or ablate `base`, in a way that was not tried yet in this stage."""
        op, template = IDEAS[stage.name]
        tried = [step.meta["idea"] for step in stage.steps(taken) if step.op == op]
        messages = advisor.conversation(
            template,
            earlier=[json.dumps(idea, ensure_ascii=False) for idea in tried],
            files=render_files(advisor.files(base)),
        )
        reply = advisor.ask("idea", messages, IDEA)
        unnamed = {"Name": f"{op}_{len(tried) + 1}", "Experiment": reply[:UNREADABLE_CHARS]}
        idea = parse_object(reply) or unnamed
        return Action(op, (base.id,), {"stage": stage.name, "idea": idea})


def _key(start: int) -> str:
    """Name of the note with the plan of the batch whose first node has this id."""
    return f"batch/{start}"
