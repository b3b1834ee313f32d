"""How widely runs explored, joined from their journals; and what is kept of it."""

import math
from dataclasses import dataclass, field

import numpy as np
from journals import events, write, written

from fml_hydra.analysis.explored import explored
from fml_hydra.analysis.load import load_folder


@dataclass
class Digits:
    """Texts that are numbers, on a line: a text's vector is (its value, 0)."""

    name: str = "digits"
    seen: list[str] = field(default_factory=list, repr=False)

    def embed(self, texts):
        self.seen += texts
        return np.array([[float(text), 0.0] for text in texts])


def coded(folder, codes, **header):
    history = events([0.6] * len(codes), pristine={"model.py": "1"}, **header)
    nodes = [event for event in history if event["e"] == "node"]
    for node, code in zip(nodes, codes, strict=True):
        node["snapshot"] = {"model.py": code} if code else {}
    return written(folder, history)


def test_the_four_numbers(tmp_path):
    coded(tmp_path / "runs/a", ["2", "4", ""])  # the last step left the baseline's code, 1
    row = explored(load_folder(tmp_path), Digits()).loc[0]
    # centroid 7/3: distances 1/3, 5/3, 4/3
    assert math.isclose(row["diversity"], 10 / 9)
    assert row["reach"] == 3
    assert math.isclose(row["uniqueness"], 1 / 3)  # all in one direction
    assert math.isclose(row["effective_dimension"], 1)
    assert row["embedder"] == "digits"


def test_without_steps_journal_or_baseline(tmp_path):
    coded(tmp_path / "runs/a", [], instance="a")
    write(tmp_path / "runs/b", [0.6], instance="b", seed=4)  # its header has no code
    runs = load_folder(tmp_path)
    runs.loc[2] = runs.loc[1]
    runs.loc[2, ["run_id", "journal"]] = ["c", ""]
    table = explored(runs, _Length()).set_index("run_id")
    assert math.isnan(table["diversity"]["a"])
    assert table["diversity"]["b"] == 0
    assert math.isnan(table["reach"]["b"])
    assert math.isnan(table["diversity"]["c"])


class _Length(Digits):
    def embed(self, texts):
        return np.array([[float(len(text)), 1.0] for text in texts])


def test_nothing_is_embedded_twice_until_the_journal_changes(tmp_path):
    journal = coded(tmp_path / "runs/a", ["2", "4"])
    runs, embedder = load_folder(tmp_path), Digits()
    first = explored(runs, embedder, tmp_path / "kept")
    asked = len(embedder.seen)
    again = explored(runs, embedder, tmp_path / "kept")
    assert len(embedder.seen) == asked
    assert first.equals(again)
    explored(runs, Digits("others"), tmp_path / "kept")
    with journal.open("a") as file:
        file.write('{"e": "pause", "t": 200.0, "reason": "interrupted", "detail": ""}\n')
    explored(runs, embedder, tmp_path / "kept")
    assert len(embedder.seen) == 2 * asked


def test_each_run_is_told(tmp_path):
    coded(tmp_path / "runs/a", ["2"], instance="a")
    coded(tmp_path / "runs/b", ["3"], instance="b", seed=4)
    told = []
    explored(load_folder(tmp_path), Digits(), tell=lambda: told.append(1))
    assert len(told) == 2
