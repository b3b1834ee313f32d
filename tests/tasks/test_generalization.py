"""The coloured-digits task: what prepare promises, what grade computes and refuses, its ideas."""

import re
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from task_files import TaskFiles, arrays, tree_hash

from fml_hydra.edits import apply_edit
from fml_hydra.errors import InvalidOutput
from fml_hydra.ideas import Effect, Idea, load_ideas

ROOT = Path(__file__).parents[2]
FILES = TaskFiles("generalization")
TASK = FILES.folder


grade = FILES.load("grade.py")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return FILES.prepare(tmp_path_factory.mktemp("prepared"))


# ---------------------------------------------------------------- prepare


def test_prepared_bytes_do_not_depend_on_the_run(prepared: Path, tmp_path: Path) -> None:
    hashes = tree_hash(prepared)
    assert len(hashes) == 5
    assert tree_hash(FILES.prepare(tmp_path)) == hashes


def test_parts_hold_only_the_promised_arrays(prepared: Path) -> None:
    train = arrays(prepared / "train" / "environments.npz")
    assert sorted(train) == ["environment", "images", "labels"]
    assert sorted(p.name for p in prepared.iterdir()) == ["answers", "test", "train", "val"]
    for part in ("val", "test"):
        assert [p.name for p in (prepared / part).iterdir()] == ["inputs.npz"]
        assert sorted(arrays(prepared / part / "inputs.npz")) == ["id", "images"]


def test_no_digit_is_in_two_parts(prepared: Path) -> None:
    parts = {"train": arrays(prepared / "train" / "environments.npz")["images"]}
    for part in ("val", "test"):
        parts[part] = arrays(prepared / part / "inputs.npz")["images"]
    shapes = {name: {i.sum(axis=0).tobytes() for i in images} for name, images in parts.items()}
    assert {name: len(found) for name, found in shapes.items()} == {
        "train": 3600,
        "val": 700,
        "test": 700,
    }
    assert not shapes["val"] & shapes["test"]
    assert not shapes["train"] & (shapes["val"] | shapes["test"])


def test_ids_are_disjoint_and_match_the_answers(prepared: Path) -> None:
    ids = {part: arrays(prepared / part / "inputs.npz")["id"] for part in ("val", "test")}
    assert not set(ids["val"]) & set(ids["test"])
    for part in ids:
        answers = arrays(prepared / "answers" / part / "answers.npz")
        np.testing.assert_array_equal(answers["id"], ids[part])


def test_training_environments_have_the_stated_correlations(prepared: Path) -> None:
    train = arrays(prepared / "train" / "environments.npz")
    colour = train["images"][:, 1].any(axis=(1, 2)).astype(int)
    for number, flip in ((0, 0.1), (1, 0.2)):
        rows = train["environment"] == number
        assert rows.sum() == 1800
        # four standard errors of a share of 1,800 draws
        assert np.mean(colour != train["labels"], where=rows) == pytest.approx(flip, abs=0.04)


@pytest.mark.parametrize("part", ["val", "test"])
def test_evaluation_inputs_show_every_digit_in_both_colours(prepared: Path, part: str) -> None:
    answers = arrays(prepared / "answers" / part / "answers.npz")
    images = arrays(prepared / part / "inputs.npz")["images"]
    rows = np.arange(len(images))
    assert not images[rows, 1 - answers["colour"]].any()
    assert images[rows, answers["colour"]].any(axis=(1, 2)).all()
    table = {(p, c) for p, c in zip(answers["pair"], answers["colour"], strict=True)}
    assert len(table) == 1400
    assert np.mean(answers["label"] == answers["colour"]) == 0.5


# ---------------------------------------------------------------- grade

LABEL = np.array([1, 1, 0, 0])
COLOUR = np.array([0, 1, 0, 1])
PAIR = np.array([0, 0, 1, 1])


def _grade(folder: Path, answers: dict[str, np.ndarray] | None = None, **handed: np.ndarray):
    hidden = {"id": np.arange(4), "label": LABEL, "colour": COLOUR, "pair": PAIR}
    np.savez(folder / "answers.npz", **(answers or hidden))
    np.savez(folder / "predictions.npz", **handed)
    return grade.grade(folder, folder)


def _thrice(prediction: np.ndarray) -> np.ndarray:
    return np.stack([prediction] * 3, axis=1)


@pytest.mark.parametrize(
    ("prediction", "unseen", "seen", "sensitivity"),
    [
        (LABEL, 0.75, 0.75, 0.0),  # the clean label: right whenever the noise is not
        (COLOUR, 0.1, 0.85, 1.0),  # the colour: right whenever it agrees with the label
        (1 - COLOUR, 0.9, 0.15, 1.0),
        (np.ones(4, dtype=int), 0.5, 0.5, 0.0),
        # first digit by shape, second by colour: (0.75 + 0.1) / 2 and (0.75 + 0.85) / 2
        (np.array([1, 1, 0, 1]), 0.425, 0.8, 0.5),
    ],
)
def test_accuracies_by_hand(
    tmp_path: Path, prediction: np.ndarray, unseen: float, seen: float, sensitivity: float
) -> None:
    got = _grade(tmp_path, id=np.arange(4), prediction=_thrice(prediction))
    assert got == pytest.approx(
        {
            "worst_env_accuracy": min(unseen, seen),
            "unseen_accuracy": unseen,
            "seen_accuracy": seen,
            "colour_sensitivity": sensitivity,
        }
    )


def test_minimum_is_taken_per_replicate(tmp_path: Path) -> None:
    mixed = np.stack([COLOUR, 1 - COLOUR, LABEL], axis=1)
    got = _grade(tmp_path, id=np.arange(4), prediction=mixed)
    assert got["worst_env_accuracy"] == pytest.approx((0.1 + 0.15 + 0.75) / 3)
    assert got["unseen_accuracy"] == pytest.approx((0.1 + 0.9 + 0.75) / 3)


def test_no_mixture_of_shape_and_colour_exceeds_the_bound() -> None:
    for first in np.ndindex(2, 2, 2, 2):
        prediction = np.array(first)[:, None]
        scores = [grade.accuracy(prediction, LABEL, COLOUR, flip)[0] for flip in (0.15, 0.9)]
        assert min(scores) <= 0.75 + 1e-12


def test_shuffled_rows_score_the_same(tmp_path: Path) -> None:
    order = np.array([2, 0, 3, 1])
    prediction = _thrice(np.array([1, 1, 0, 1]))
    got = _grade(tmp_path, id=order, prediction=prediction[order])
    assert got["worst_env_accuracy"] == pytest.approx(0.425)


@pytest.mark.parametrize(
    ("ids", "prediction"),
    [
        (np.arange(3), _thrice(LABEL[:3])),
        (np.array([0, 1, 2, 2]), _thrice(LABEL)),
        (np.arange(1, 5), _thrice(LABEL)),
        (np.arange(4), _thrice(LABEL)[:, :2]),
        (np.arange(4), _thrice(LABEL) * 2),
        (np.arange(4), _thrice(LABEL) - 1),
        (np.arange(4), _thrice(LABEL).astype(float)),
        (np.arange(4), _thrice(LABEL).astype(object)),
    ],
    ids=["short", "duplicate", "unknown", "replicates", "high", "low", "float", "object"],
)
def test_malformed_predictions_are_refused(
    tmp_path: Path, ids: np.ndarray, prediction: np.ndarray
) -> None:
    with pytest.raises(InvalidOutput):
        _grade(tmp_path, id=ids, prediction=prediction)


def test_missing_predictions_are_refused(tmp_path: Path) -> None:
    answers = {"id": np.arange(4), "label": LABEL, "colour": COLOUR, "pair": PAIR}
    np.savez(tmp_path / "answers.npz", **answers)
    with pytest.raises(InvalidOutput):
        grade.grade(tmp_path, tmp_path)


# ---------------------------------------------------------------- ideas and references

TARGETS = {"algorithm.py": (TASK / "repo/algorithm.py").read_text()}
IDEAS = load_ideas(TASK / "ideas", list(TARGETS))


def test_the_catalogue_is_large_and_varied() -> None:
    assert len(IDEAS) >= 12
    assert {idea.effect for idea in IDEAS} == set(get_args(Effect))


@pytest.mark.parametrize("idea", IDEAS, ids=lambda idea: idea.id)
def test_idea_matches_once_and_stays_python(idea: Idea) -> None:
    for search in re.findall(
        r"<<<<<<< SEARCH\n(.*?\n)=======\n", (TASK / f"ideas/{idea.id}.md").read_text(), re.DOTALL
    ):
        assert ("\n" + TARGETS["algorithm.py"]).count("\n" + search) == 1
    edited = apply_edit(idea.edit, TARGETS)
    assert edited != TARGETS
    compile(edited["algorithm.py"], idea.id, "exec")


@pytest.mark.parametrize("method", ["best", "vrex", "irm"])
def test_reference_is_a_whole_target_file(method: str) -> None:
    source = (TASK / "reference" / method / "algorithm.py").read_text()
    compile(source, method, "exec")
    assert source != (TASK / "repo" / "algorithm.py").read_text()
    assert "class Algorithm(nn.Module)" in source
