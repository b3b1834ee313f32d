"""The best step's outputs have the one place; whatever else is left goes."""

from dataclasses import replace
from pathlib import Path

from fml_hydra.journal import Node
from fml_hydra.kept import Kept

NODE = Node(0, "draft", (), {}, "ok", 0.5, {"acc": 0.5}, {})


def left(tmp_path: Path, name: str) -> Path:
    folder = tmp_path / f"slots-{name}"
    folder.mkdir()
    (folder / "model").write_text(name)
    return folder


def there(kept: Kept) -> dict[str, str]:
    return {p.name: (p / "model").read_text() for p in kept.folder.glob("*")}


def test_only_what_the_best_left_stays(tmp_path: Path) -> None:
    kept = Kept.below(tmp_path)
    first, second = replace(NODE, id=3), replace(NODE, id=4)
    assert kept.of(first) is None
    kept.settle(first, left(tmp_path, "a"), best=first)
    assert there(kept) == {"3": "a"}
    worse = left(tmp_path, "b")
    kept.settle(second, worse, best=first)
    assert (there(kept), worse.exists()) == ({"3": "a"}, False)
    kept.settle(second, left(tmp_path, "c"), best=second)
    assert there(kept) == {"4": "c"}
    assert (kept.of(first), kept.of(second)) == (None, kept.folder / "4")


def test_a_step_without_a_metric_changes_nothing(tmp_path: Path) -> None:
    kept = Kept.below(tmp_path)
    kept.settle(NODE, None, best=None)
    assert not kept.folder.exists()
    kept.settle(NODE, left(tmp_path, "a"), best=NODE)
    kept.settle(replace(NODE, id=1, status="crash"), None, best=NODE)
    assert there(kept) == {"0": "a"}


def test_a_best_step_that_could_not_be_kept_takes_the_others_away(tmp_path: Path) -> None:
    kept = Kept.below(tmp_path)
    kept.settle(NODE, left(tmp_path, "a"), best=NODE)
    better = replace(NODE, id=1)
    kept.settle(better, None, best=better)
    assert there(kept) == {}


def test_a_step_done_again_after_a_kill_replaces_what_it_left_before(tmp_path: Path) -> None:
    kept = Kept.below(tmp_path)
    kept.settle(NODE, left(tmp_path, "before"), best=NODE)
    kept.settle(NODE, left(tmp_path, "again"), best=NODE)
    assert there(kept) == {"0": "again"}


def test_a_disk_that_refuses_costs_no_run(tmp_path: Path, caplog) -> None:
    kept = Kept.below(tmp_path)
    kept.folder.touch()
    lost = left(tmp_path, "a")
    kept.settle(NODE, lost, best=NODE)
    assert kept.of(NODE) is None
    assert not lost.exists()
    assert "cannot be kept for the test" in caplog.text
