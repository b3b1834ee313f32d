"""The picture of the search tree: valid, whole, the same every time, readable at any size."""

import random
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from fml_hydra.journal import Folded
from fml_hydra.tracking.tree import RADIUS, ROW, layout, tree_svg

SVG = "{http://www.w3.org/2000/svg}"
ODD_PLAN = 'Replace <b>x</b> & "y" with\nñ \x1b[31m'


def drawn(parents: list[tuple[int, ...]], values: list[float | None]) -> Folded:
    """A run whose steps have these parents and values; None is a crash."""
    metric = {"name": "acc", "direction": "higher", "best": 1.0}
    head = {"e": "open", "t": 0.0, "task": "toy", "agent": "a & b", "llm": "offline", "seed": 1}
    head |= {"metric": metric, "baseline": {"val": {"acc": 0.5}, "test": {"acc": 0.5}}}
    events = [head]
    for i, (origin, value) in enumerate(zip(parents, values, strict=True)):
        event = {"e": "node", "t": 1.0, "id": i, "op": "improve" if origin else "draft"}
        event |= {"parents": list(origin), "meta": {}, "utility": value, "snapshot": {}}
        event |= {"status": "crash" if value is None else "ok", "usage": {}, "flags": []}
        event |= {"metrics": {} if value is None else {"acc": value}, "plan": ODD_PLAN}
        events.append(event)
    return Folded(Path("journal.jsonl"), events)


def random_tree(size: int, seed: int) -> Folded:
    rng = random.Random(seed)
    parents = [() if i < 3 else (rng.randrange(i),) for i in range(size)]
    parents = [(*p, rng.randrange(i)) if p and i % 9 == 0 else p for i, p in enumerate(parents)]
    return drawn(parents, [rng.choice([None, rng.random()]) for _ in range(size)])


SHAPES = {
    "nothing": drawn([], []),
    "one": drawn([()], [0.7]),
    "star": drawn([()] * 100, [0.1] * 100),
    "chain": drawn([(), *((i,) for i in range(99))], [0.1] * 100),
    "random": random_tree(100, 1),
    "failures": drawn([(), (), (0,)], [None, None, None]),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_valid_with_one_circle_per_step(shape):
    state = SHAPES[shape]
    root = ET.fromstring(tree_svg(state))
    circles = root.findall(f".//{SVG}circle")
    assert len(circles) == len(state.nodes)
    titles = [g.find(f"{SVG}title").text for g in root.findall(f"{SVG}g")]
    assert [t.split(":")[0] for t in titles] == [f"step {i}" for i in range(len(state.nodes))]


@pytest.mark.parametrize("shape", SHAPES)
def test_circles_do_not_touch_and_everything_is_inside(shape):
    root = ET.fromstring(tree_svg(SHAPES[shape]))
    width, height = (float(root.get(side)) for side in ("width", "height"))
    assert width <= 1200
    places = [(float(c.get("cx")), float(c.get("cy"))) for c in root.findall(f".//{SVG}circle")]
    assert all(b[1] - a[1] == ROW > 2 * RADIUS for a, b in zip(places, places[1:], strict=False))
    words = [float(t.get("x")) for t in root.findall(f"{SVG}g/{SVG}text")]
    assert all(RADIUS < x < min(words) - RADIUS and RADIUS < y < height - RADIUS for x, y in places)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_line_never_runs_through_a_circle_of_another_branch(shape):
    """Down a column: between a step and its first parent's row nothing else lies there."""
    history = SHAPES[shape].history()
    columns = layout(history)
    for step in history:
        parent = step.parents[0] if step.parents else -1
        between = [n for n in history if parent < n.id < step.id]
        assert all(columns[n.id] != columns[step.id] for n in between)


def test_equal_histories_give_equal_pictures():
    assert tree_svg(random_tree(40, 3)) == tree_svg(random_tree(40, 3))
    assert tree_svg(random_tree(40, 3)) != tree_svg(random_tree(40, 4))


def test_the_way_to_the_best_step_stands_out():
    root = ET.fromstring(tree_svg(drawn([(), (0,), (), (1,)], [0.6, None, 0.7, 0.9])))
    ways = [p for p in root.findall(f"{SVG}path") if p.get("class") == "edge best"]
    assert len(ways) == 3 + 1  # baseline to 0 to 1 to 3, and the legend
    ringed = [c.get("class") for c in root.findall(f".//{SVG}circle")]
    assert ringed == ["ok best", "failed best", "ok", "ok best"]


def test_every_second_parent_has_a_line_of_its_own():
    text = tree_svg(drawn([(), (), (0, 1)], [0.1, 0.2, 0.3]))
    assert len(re.findall('class="edge second"', text)) == 1
