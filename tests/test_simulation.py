"""The simulator: its landscapes, the stand-in for a model, what it measures, and its command."""

import csv
import xml.etree.ElementTree as ET
from itertools import product
from statistics import mean

import pytest

from fml_hydra.cli import main
from fml_hydra.config import load_experiment
from fml_hydra.edits import apply_edit, parse_edit
from fml_hydra.errors import EditError
from fml_hydra.journal import History, Node
from fml_hydra.llm.base import LLM, Message, Request
from fml_hydra.overrides import compose_config
from fml_hydra.simulation import (
    SyntheticLLM,
    behaviour,
    make_landscape,
    simulate,
)
from fml_hydra.simulation.method import APPROACH, FILE, Space, changed, readable, written
from fml_hydra.simulation.picture import Row, layout, picture
from fml_hydra.simulation.run import Synthetic

TINY = Space(approaches=2, parts=2, values=3)


def everything(space: Space):
    """All settings of a small space."""
    for values in product(*(range(size) for size in space.sizes.values())):
        yield dict(zip(space.sizes, values, strict=True))


# --- landscapes


@pytest.mark.parametrize("seed", range(20))
def test_scores_are_0_as_given_and_1_at_the_optimum(seed):
    landscape = make_landscape(0.4, seed, TINY)
    runnable = [s for s in everything(TINY) if landscape.failure(s) is None]
    assert max(landscape.score(s) for s in runnable) == pytest.approx(1)
    assert landscape.score(readable(TINY.text())) == 0


def test_density_is_the_share_of_single_changes_that_improve():
    for density in (0.03, 0.3):
        shares = []
        for seed in range(40):
            land = make_landscape(density, seed)
            given = readable(land.space.text())
            singles = [
                {**given, name: value}
                for name in land.space.names
                for value in range(1, land.space.values)
            ]
            better = [s for s in singles if not land.failure(s) and land.score(s) > 0]
            shares.append(len(better) / len(singles))
        assert mean(shares) == pytest.approx(density, rel=0.15)


def test_dense_landscapes_have_traps_and_sparse_ones_gains_of_two_steps():
    pairs = {d: [p for s in range(30) for p in make_landscape(d, s).pairs] for d in (0.03, 0.3)}
    assert any(pair.effect > 0 for pair in pairs[0.03])
    assert mean(pair.effect > 0 for pair in pairs[0.3]) < 0.5
    trap = next(p for p in make_landscape(0.3, 0).pairs if p.effect < 0)
    land = make_landscape(0.3, 0)
    given = {**readable(land.space.text()), APPROACH: trap.approach}
    base = land.score(given)
    first, second = (land.score({**given, n: v}) - base for n, v in (trap.first, trap.second))
    both = land.score({**given, **dict((trap.first, trap.second))}) - base
    assert first > 0
    assert second > 0
    assert both < max(first, second)


def test_another_approach_makes_tuned_values_worthless():
    """Tuned in one approach, a solution is worth much less in the others, on average."""
    losses = []
    for seed in range(20):
        land = make_landscape(0.3, seed)
        good = {n: v for (a, n, v), e in land.effects.items() if a == 0 and e > 0}
        tuned = {**readable(land.space.text()), **good}
        losses += [
            land.score(tuned) - land.score({**tuned, APPROACH: a})
            for a in range(1, land.space.approaches)
        ]
    assert mean(losses) > 0.3


# --- evaluation


def test_equal_code_scores_the_same_and_another_seed_differs():
    bench = Synthetic(make_landscape(0.3, 0), noise=0.1)
    first, again, other = (bench.evaluate({}, "val", shift) for shift in (0, 0, 1))
    assert first == again
    assert first.metrics != other.metrics
    assert bench.evaluate({}, "test").metrics == {"score": 0.0}


def test_what_cannot_be_read_crashes_and_what_fails_says_where():
    land = make_landscape(0.3, 0)
    bench, text = Synthetic(land), land.space.text()
    broken = bench.evaluate({FILE: changed(text, {"PART_03": "1 / 0"})}, "val")
    assert (broken.status, broken.utility) == ("crash", None)
    assert "PART_03" in broken.feedback
    (approach, name, value), kind = next(iter(land.failures.items()))
    failing = bench.evaluate({FILE: changed(text, {APPROACH: approach, name: value})}, "val")
    assert (failing.status, failing.utility) == (kind, None)
    assert f"{name} = {value}" in failing.feedback
    gone = bench.evaluate({FILE: "APPROACH = 0\n"}, "val")
    assert gone.status == "crash"


# --- the stand-in for a model

PROMPT = """## Task
t

## Files
### FILE: method.py
```python
{text}```
{more}
## Instruction
{instruction}

## Answer format
SEARCH blocks or whole files
"""


def ask(text=None, more="", instruction="Improve.", seed=0, llm=None, purpose="edit"):
    space = Space()
    body = PROMPT.format(text=text or space.text(), more=more, instruction=instruction)
    request = Request((Message("user", body),), purpose, seed)
    return (llm or SyntheticLLM(space, error_rate=0.0)).complete(request).text


def edited(reply: str, text: str | None = None) -> dict[str, str]:
    """The settings that a reply changes."""
    before = text or Space().text()
    after = apply_edit(parse_edit(reply, [FILE]), {FILE: before})[FILE]
    was = written(before)
    return {name: value for name, value in written(after).items() if was[name] != value}


def test_it_is_a_language_model_and_a_pure_function_of_the_request():
    assert isinstance(SyntheticLLM(Space()), LLM)
    assert ask(seed=1) == ask(seed=1)
    assert len({ask(seed=s) for s in range(10)}) > 5


def test_most_edits_change_one_part_some_two_and_some_the_approach():
    changes = [edited(ask(seed=s)) for s in range(300)]
    leaps = mean(APPROACH in c for c in changes)
    doubles = mean(len(c) == 2 for c in changes)
    assert leaps == pytest.approx(0.15, abs=0.06)
    assert doubles == pytest.approx(0.85 * 0.2, abs=0.06)
    assert {len(c) for c in changes} == {1, 2}


def test_it_does_not_repeat_what_the_prompt_shows_as_tried():
    tried = "\n".join(f"- I set PART_{p:02d} to {v}." for p in range(12) for v in range(1, 5) if p)
    llm = SyntheticLLM(Space(), leap_rate=0, double_rate=0, error_rate=0)
    changes = [edited(ask(more=f"## Earlier attempts\n{tried}", seed=s, llm=llm)) for s in range(9)]
    assert all([*change] == ["PART_00"] for change in changes)


def test_it_follows_an_idea_of_its_own_form():
    idea = '## Idea\n{"Name": "part_03_to_2_and_approach_to_1"}'
    assert edited(ask(more=idea)) == {"PART_03": "2", APPROACH: "1"}


def test_it_borrows_from_other_programs_it_is_shown():
    other = changed(Space().text(), {"PART_01": 4, "PART_02": 4})
    llm = SyntheticLLM(Space(), borrow_rate=1, error_rate=0)
    more = f"## Other programs\n```python\n{other}```"
    found = [edited(ask(more=more, seed=s, llm=llm)) for s in range(20)]
    assert {name for change in found for name in change} == {"PART_01", "PART_02"}
    assert all(value == "4" for change in found for value in change.values())


def test_it_takes_a_setting_out_when_asked_to_ablate():
    text = changed(Space().text(), {"PART_05": 3, APPROACH: 1})
    assert edited(ask(text, instruction="Ablate one component."), text) == {"PART_05": "0"}


def test_its_mistakes_have_the_share_that_is_asked_for():
    llm = SyntheticLLM(Space(), error_rate=0.5)
    wrong = 0
    for seed in range(200):
        try:
            change = edited(ask(seed=seed, llm=llm))
        except EditError:
            wrong += 1
            continue
        wrong += not change or any(not value.isdecimal() for value in change.values())
    assert wrong / 200 == pytest.approx(0.5, abs=0.1)


def test_it_finds_a_bug_at_the_rate_it_is_given():
    text = changed(Space().text(), {"PART_05": "1 / 0"})
    more = "## Error\nValueError: PART_05\n"
    fixed = [edited(ask(text, more, seed=s), text)["PART_05"] for s in range(200)]
    assert mean(value.isdecimal() for value in fixed) == pytest.approx(0.6, abs=0.1)


def test_a_summary_repeats_what_was_tried():
    assert "I set PART_04 to 2" in ask(more="- I set PART_04 to 2.", purpose="summary")


# --- runs and what is measured


def step(node_id, utility, op="draft", parents=(), **meta) -> Node:
    status = "crash" if utility is None else "ok"
    return Node(node_id, op, parents, meta, status, utility, {}, {})


TREE = [
    step(0, 0.1, island=0),
    step(1, None, island=1),
    step(2, None, "debug", (1,)),
    step(3, 0.3, "debug", (2,)),
    step(4, 0.2, "improve", (0,)),
    step(5, 0.4, "crossover", (4, 3)),
]


def test_behaviour_of_a_tree_worked_by_hand():
    shape = behaviour(History(TREE, 0.0, {}))
    assert shape.operators == {"draft": 2 / 6, "debug": 2 / 6, "improve": 1 / 6, "crossover": 1 / 6}
    assert (shape.drafts, shape.depth, shape.width, shape.leaves) == (2, 4, 2, 1)
    assert (shape.debug_chain, shape.islands, shape.success) == (2, 2, 4 / 6)
    assert behaviour(History([], 0.0, {})).depth == 0


def test_the_curve_is_the_true_score_of_what_looks_best():
    agent = load_experiment(compose_config(["agent=random_search"])).agent
    land = make_landscape(0.3, 1)
    run = simulate(agent, land, steps=30, noise=0.5)
    best = run.history.best()
    assert run.curve()[-1] == land.score(readable(best.snapshot[FILE]))
    assert run.curve()[-1] != best.utility
    exact = simulate(agent, land, steps=30, noise=0.0).curve()
    assert exact == sorted(exact)


def test_leaves_stand_side_by_side_and_parents_above_them():
    places = layout(TREE)
    assert {i: depth for i, (_, depth) in places.items()} == {
        -1: 0, 0: 1, 1: 1, 2: 2, 3: 3, 4: 2, 5: 3,
    }  # fmt: skip
    leaves = [places[i][0] for i in (5, 3)]
    assert leaves == [0, 1]
    assert places[-1][0] == 0.5


def test_the_picture_is_svg_with_a_mark_per_step():
    text = picture("an <agent>", [Row("sparse", [[0.0, 0.5], [0.1, 0.7]], TREE)])
    root = ET.fromstring(text)
    names = [element.tag.rpartition("}")[2] for element in root.iter()]
    assert names.count("circle") == len(TREE) + 3
    assert picture("an <agent>", [Row("sparse", [[0.0]], [])]).startswith("<svg")


# --- the command


def run_command(*words: str) -> int:
    with pytest.raises(SystemExit) as caught:
        main(["simulate", *words])
    return caught.value.code or 0


def test_the_command_prints_a_table_and_writes_csv_and_pictures(tmp_path, capsys):
    words = ("agent=random_search,upstream/aide", "steps=6", "seeds=2", f"out={tmp_path}/o")
    assert run_command(*words, "density=dense,0.1") == 0
    printed = capsys.readouterr().out
    assert "random_search" in printed
    assert "draft 100" in printed
    rows = list(csv.DictReader((tmp_path / "o" / "runs.csv").open()))
    assert [(r["agent"], r["density"], r["seed"]) for r in rows] == [
        (agent, density, seed)
        for agent in ("random_search", "upstream/aide")
        for density in ("dense", "0.1")
        for seed in ("0", "1")
    ]
    assert {r["drafts"] for r in rows if r["agent"] == "random_search"} == {"6"}
    assert sorted(p.name for p in (tmp_path / "o").glob("*.svg")) == [
        "random_search.svg",
        "upstream-aide.svg",
    ]


def test_agent_knobs_are_those_of_every_other_command(tmp_path, capsys):
    words = ("agent=aide", "steps=6", "seeds=1", "density=dense", f"out={tmp_path}")
    assert run_command(*words, "agent.policy.num_drafts=6") == 0
    assert "draft 100" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("steps=none", "steps must be a whole number above 0, got 'none'"),
        ("seeds=0", "seeds must be a whole number above 0"),
        ("density=medium", "density must be sparse, dense or a share between 0 and 1"),
        ("density=1.5", "density must be sparse, dense or a share"),
        ("agent=aid", "did you mean aide?"),
        ("agent.policy.num_draft=3", "did you mean num_drafts?"),
        ("agent=claude_code", "none of these agents can be simulated"),
    ],
)
def test_a_wrong_word_is_one_clear_line(word, told, tmp_path, capsys):
    assert run_command(word, f"out={tmp_path}/o") == 2
    captured = capsys.readouterr()
    assert told in captured.err
    assert captured.err.count("\n") == 1
    assert not (tmp_path / "o").exists()


def test_unwritable_out_is_one_clear_line(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    words = ("agent=repeat_baseline", "steps=1", "seeds=1", f"out={tmp_path}/file/o")
    assert run_command(*words) == 2
    assert "cannot be written" in capsys.readouterr().err
