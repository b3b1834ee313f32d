"""The journal: what is appended is there, torn ends are forgiven, other damage is named."""

import os

import pytest

from fml_hydra.errors import InfraError, JournalError
from fml_hydra.journal import Action, Batch, Folded, History, Journal, Node
from fml_hydra.usage import Usage


def node(node_id, utility=None, *, op="improve", parents=(), status=None, **extra):
    return Node(
        id=node_id,
        op=op,
        parents=tuple(parents),
        meta={"k": 1},
        status=status or ("crash" if utility is None else "ok"),
        utility=utility,
        metrics={} if utility is None else {"m": utility},
        snapshot={"a.py": f"x = {node_id}\n"},
        usage=Usage(3, 1, 2, 1),
        **extra,
    )


@pytest.fixture
def path(tmp_path):
    return tmp_path / "journal.jsonl"


def written(path, *nodes):
    journal = Journal(path)
    journal.record("open", baseline_utility=0.5, identity="x")
    journal.propose(Batch(0, tuple(Action("draft") for _ in nodes)))
    for n in nodes:
        journal.commit(n)
    journal.note("ideas", [{"Name": "ü"}])
    journal.close()
    return Folded.read(path)


def test_reading_back_gives_what_was_written(path):
    nodes = [node(0, 0.25, flags=("odd",)), node(1, None, parents=[0], plan='"\n\x1b é')]
    state = written(path, *nodes)
    assert list(state.history()) == nodes
    assert state.baseline == 0.5
    assert state.notes == {"ideas": [{"Name": "ü"}]}
    assert state.pending() == []


def test_torn_last_line_is_forgiven_wherever_it_is_torn(path):
    written(path, node(0, 1.0))
    whole = path.read_bytes()
    *_, last = whole.splitlines(keepends=True)
    for cut in range(1, len(last) + 1):
        path.write_bytes(whole[:-cut])
        state = Folded.read(path)
        assert len(state.nodes) == 1
        assert state.notes == {}
        journal = Journal(path)
        journal.note("again", 1)
        journal.close()
        assert Folded.read(path).notes == {"again": 1}


def test_damage_elsewhere_names_the_line(path):
    written(path, node(0, 1.0))
    lines = path.read_text().splitlines()
    lines[1] = lines[1][:-5]
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(JournalError, match=r"journal.jsonl:2"):
        Folded.read(path)


@pytest.mark.parametrize("line", ['{"e": "nod", "t": 1}', '{"e": "node", "t": 1}', '{"t": 1}'])
def test_event_that_means_nothing_names_the_line(path, line):
    written(path, node(0, 1.0))
    with path.open("a") as file:
        file.write(line + "\n")
    with pytest.raises(JournalError, match=r"journal.jsonl:5"):
        Folded.read(path)


def test_write_that_the_disk_refuses_leaves_the_file_as_it_was(path, monkeypatch):
    written(path, node(0, 1.0))
    before = path.read_bytes()
    journal = Journal(path)
    real_write = os.write

    def half_then_full(fd, data):
        if len(data) < 4:
            raise OSError(28, "No space left on device")
        return real_write(fd, data[: len(data) // 2])

    monkeypatch.setattr(os, "write", half_then_full)
    with pytest.raises(InfraError, match="No space left"):
        journal.note("lost", 1)
    assert path.read_bytes() == before
    assert "lost" not in journal.state.notes


def test_pending_are_the_actions_without_a_node_in_any_order(path):
    journal = Journal(path)
    journal.record("open", baseline_utility=0.5)
    journal.propose(Batch(0, (Action("draft"), Action("debug", (1,), {"i": 2}))))
    journal.commit(node(1, 0.1))
    assert journal.state.pending() == [(0, Action("draft"))]
    assert [n.id for n in journal.state.before(0)] == []
    journal.commit(node(0, 0.2))
    journal.close()
    assert Folded.read(path).pending() == []
    assert [n.id for n in Folded.read(path).history()] == [0, 1]


def test_seconds_leave_out_the_time_between_two_processes(path):
    events = [("open", 100.0), ("note", 103.0), ("pause", 104.0), ("open", 900.0), ("note", 905.5)]
    extra = {"open": {}, "note": {"key": "k", "value": 1}, "pause": {"reason": "interrupted"}}
    state = Folded(path, [{"e": e, "t": t, **extra[e]} for e, t in events])
    assert state.seconds == pytest.approx(4 + 5.5)
    assert state.paused is None


def test_best_is_the_earliest_of_equals_and_ignores_what_has_no_metric():
    nan = float("nan")
    nodes = [node(0, nan), node(1), node(2, 0.5), node(3, 0.7), node(4, 0.7)]
    history = History(nodes, 0.0, {})
    assert history.best().id == 3
    assert History(nodes[:2], 0.0, {}).best() is None


def test_tree_questions():
    nodes = [
        node(0, op="draft"),
        node(1, op="debug", parents=[0]),
        node(2, op="debug", parents=[1]),
        node(3, 0.1, op="improve", parents=[2]),
    ]
    history = History(nodes, 0.0, {})
    assert [history.debug_depth(n) for n in history] == [0, 1, 2, 0]
    assert [n.id for n in history.ancestors(nodes[3])] == [2, 1, 0]
    assert [n.id for n in history.children(0)] == [1]
    assert [n.id for n in history.buggy()] == [0, 1, 2]


def test_debuggable_are_buggy_leaves_that_are_not_too_deep():
    nodes = [
        node(0, op="draft"),
        node(1, op="debug", parents=[0]),
        node(2, op="debug", parents=[1]),
        node(3, 0.1, op="draft"),
        node(4, op="crossover", parents=[3, 3]),
        node(5, op="draft"),
    ]
    history = History(nodes, 0.0, {})
    assert [n.id for n in history.debuggable(2)] == [2, 4, 5]
    assert [n.id for n in history.debuggable(1)] == [4, 5]
    assert history.debuggable(-1) == []


def test_scaled_is_the_place_in_the_range_of_the_run():
    history = History([node(0, -3.0), node(1, 1.0), node(2), node(3, float("nan"))], 9.0, {})
    assert [history.scaled(u) for u in (-3.0, -2.0, 1.0)] == [0.0, 0.25, 1.0]
    assert [history.scaled(u) for u in (-9.0, 9.0, float("-inf"))] == [0.0, 1.0, 0.0]
    assert History([node(0, 2.0), node(1, 2.0)], 0.0, {}).scaled(2.0) == 0.5
    assert History([], 0.0, {}).scaled(2.0) == 0.5
    assert History([node(0, -1.7e308), node(1, 1.7e308)], 0.0, {}).scaled(0.0) == 0.5
