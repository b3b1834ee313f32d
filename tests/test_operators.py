"""What an operator's prompt shows: memory kinds, siblings counted, further solutions."""

from pathlib import Path

import pytest
from omegaconf import OmegaConf

from fml_hydra.journal import Action, History, Node
from fml_hydra.llm.base import Reply, Usage
from fml_hydra.metric import Direction, Metric
from fml_hydra.operators import Feedback, Operator, Operators, remembered
from fml_hydra.prompts import Prompts
from fml_hydra.resources import conf_dir
from fml_hydra.session import Turn
from fml_hydra.task import Brief

BRIEF = Brief(
    description="A task.",
    repository=Path(),
    files={"a.py": "x = 'pristine'\n", "b.py": "y = 'pristine'\n"},
    protected=("run.py",),
    commands=("python run.py",),
    metric=Metric("loss", Direction.LOWER, best=0.0),
    baseline={"loss": 1.0},
)


def node(node_id, op="draft", parents=(), ok=True):
    return Node(
        id=node_id,
        op=op,
        parents=parents,
        meta={},
        status="ok" if ok else "crash",
        utility=float(node_id) if ok else None,
        metrics={},
        snapshot={"a.py": f"x = 'step {node_id}'\n"},
        plan=f"Plan of step {node_id}.",
        feedback=f"loss = {node_id}" if ok else f"Error of step {node_id}",
    )


HISTORY = History(
    [
        node(0),
        node(1, "improve", (0,), ok=False),
        node(2, "debug", (1,), ok=False),
        node(3, "debug", (2,), ok=False),
        node(4),
        node(5, "crossover", (0, 4)),
    ],
    0.0,
    {},
)


class Model:
    """Keeps what it is asked, and answers with a change of a.py."""

    def __init__(self):
        self.asked = []

    def __call__(self, purpose, messages):
        self.asked.append((purpose, messages[-1].content))
        edit = "A plan.\n\n### FILE: a.py\n```python\nx = 'new'\n```\n"
        return Reply("It was all in vain." if purpose == "summary" else edit, Usage(), 0.0)


@pytest.fixture(scope="module")
def prompts():
    config = OmegaConf.load(conf_dir() / "prompt" / "default.yaml")
    return Prompts(config.name, OmegaConf.to_container(config.templates))


@pytest.fixture
def asked(prompts):
    """Make a candidate for an action; what the model was asked, and the candidate."""

    def make(action, memory="none", instruction="research", past=HISTORY):
        operator = {action.op: Operator(instruction, memory)}
        maker = Operators(BRIEF, prompts, operator, Feedback(), None, False, 0)
        model = Model()
        candidate = maker.make(Turn(9, action, past, model))
        return model.asked, candidate

    return make


@pytest.mark.parametrize(
    ("kind", "parents", "expected"),
    [
        ("none", (3,), []),
        ("summary", (3,), []),
        ("good", (3,), [0, 4, 5]),
        ("all", (3,), [0, 1, 2, 3, 4, 5]),
        ("siblings", (), [0, 4]),
        ("siblings", (0,), [1, 5]),
        ("siblings", (0, 4), [1, 5]),
        ("ancestors", (3,), [0, 1, 2, 3]),
        ("chain", (3,), [1, 2, 3]),
        ("chain", (0,), [0]),
        ("chain", (), []),
    ],
)
def test_memory_kinds(kind, parents, expected):
    shown = remembered(kind, HISTORY, [HISTORY[p] for p in parents])
    assert [n.id for n in shown] == expected


def test_a_summary_is_asked_of_all_steps_before_the_edit_and_shown_in_it(asked):
    (summary, edit), _ = asked(Action("improve", (4,)), memory="summary")
    assert [summary[0], edit[0]] == ["summary", "edit"]
    assert all(f"Plan of step {i}." in summary[1] for i in range(6))
    assert "Error of step 3" in summary[1]
    assert "## What was learned so far\nIt was all in vain." in edit[1]
    assert "Plan of step" not in edit[1]


def test_no_summary_is_asked_of_nothing(asked):
    (only,), _ = asked(Action("draft"), memory="summary", past=History([], 0.0, {}))
    assert only[0] == "edit"
    assert "What was learned" not in only[1]


def test_the_edit_applies_to_the_first_parent_and_the_second_is_shown_beside_it(asked):
    ((_, text),), candidate = asked(Action("crossover", (0, 4)), instruction="aira_crossover")
    head, tail = text.split("## Other solution 4\n")
    assert "x = 'step 0'" in head
    assert "y = 'pristine'" in head
    assert tail.startswith("Step 4: loss = 4\n### FILE: a.py\n```python\nx = 'step 4'\n```")
    assert "b.py" not in tail.split("## Instruction")[0]  # as the task has it
    assert candidate.files == {"a.py": "x = 'new'\n"}


def test_inspirations_are_shown_once_each_in_their_order(asked):
    ((_, text),), _ = asked(Action("improve", (0,), {"inspirations": [5, 4, 5]}))
    assert [line for line in text.split("\n") if line.startswith("## Other")] == [
        "## Other solution 5",
        "## Other solution 4",
    ]


def test_nothing_is_shown_beside_an_ordinary_improvement(asked):
    ((_, text),), _ = asked(Action("improve", (0,)), memory="good")
    assert "## Other" not in text
    assert "learned" not in text


@pytest.mark.parametrize(
    ("siblings", "cue"),
    [(0, "minimal"), (1, "minimal"), (2, "moderate"), (3, "moderate"), (4, "advanced")],
)
@pytest.mark.parametrize("op", ["draft", "improve", "crossover"])
def test_complexity_grows_with_the_children_of_the_parent(siblings, cue, op, asked):
    parents = {"draft": (), "improve": (0,), "crossover": (0, 1)}[op]
    nodes = [node(0), node(1, "improve", (9,))] if parents else []
    nodes += [node(2 + i, op, parents) for i in range(siblings)]
    ((_, text),), _ = asked(
        Action(op, parents), instruction=f"aira_{op}", past=History(nodes, 0.0, {})
    )
    wanted = text.split("## Instruction")[1].split("## Answer format")[0]
    assert [word for word in ("minimal", "moderate", "advanced") if word in wanted] == [cue]
