"""The COMPAS task: what prepare promises, what grade computes and refuses, its ideas."""

import csv
from pathlib import Path

import numpy as np
import pytest
from task_files import TaskFiles, arrays

from fml_hydra.edits import apply_edit, syntax_error
from fml_hydra.errors import InvalidOutput
from fml_hydra.hashing import tree_hash
from fml_hydra.ideas import load_ideas

FILES = TaskFiles("fairness")
TASK = FILES.folder
TARGETS = {"model.py": (TASK / "repo/model.py").read_text()}
IDEAS = load_ideas(TASK / "ideas", list(TARGETS))
REFERENCES = ("best", "thresholds", "covariance", "adversary")


grade = FILES.load("grade.py")
prepare = FILES.load("prepare.py")


# ---------------------------------------------------------------- prepare

RACES = ("African-American", "Caucasian")
KEPT = {
    "days_b_screening_arrest": "-1",
    "is_recid": "0",
    "c_charge_degree": "F",
    "score_text": "Low",
    "sex": "Male",
    "juv_fel_count": "0",
    "juv_misd_count": "1",
    "juv_other_count": "2",
}
PEOPLE = 400
"""Rows of the made-up file that pass the filter."""


def _raw_rows() -> list[dict[str, str]]:
    """A made-up file in ProPublica's columns; age tells each person apart."""
    rows = [
        KEPT
        | {
            "age": str(1000 + number),
            "priors_count": str(number % 7),
            "race": RACES[number % 3 % 2],
            "two_year_recid": str(number % 5 % 2),
            "name": f"person {number}",
            "decile_score": "9",
        }
        for number in range(PEOPLE)
    ]
    refused = [
        {"days_b_screening_arrest": ""},
        {"days_b_screening_arrest": "31"},
        {"days_b_screening_arrest": "-31.0"},
        {"is_recid": "-1"},
        {"c_charge_degree": "O"},
        {"score_text": "N/A"},
        {"score_text": ""},
        {"race": "Other"},
    ]
    return rows + [rows[0] | {"age": "1"} | change for change in refused]


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("raw") / "compas.csv"
    rows = _raw_rows()
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


@pytest.fixture(scope="module")
def data(raw: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("data")
    prepare.prepare({"compas": raw}, out)
    return out


def _inputs(data: Path) -> dict[str, dict[str, np.ndarray]]:
    places = {"train": "train/train.npz", "val": "val/inputs.npz", "test": "test/inputs.npz"}
    return {part: arrays(data / place) for part, place in places.items()}


def test_the_same_file_gives_the_same_bytes(raw: Path, data: Path, tmp_path: Path):
    prepare.prepare({"compas": raw}, tmp_path)
    assert tree_hash(tmp_path) == tree_hash(data)


def test_every_person_is_in_exactly_one_part(data: Path):
    parts = _inputs(data).values()
    ids = np.concatenate([part["id"] for part in parts])
    ages = np.concatenate([part["features"][:, 0] for part in parts])
    assert sorted(ids) == list(range(PEOPLE))
    assert sorted(ages) == [1000 + number for number in range(PEOPLE)]  # and nobody refused


def test_only_training_rows_carry_labels(data: Path):
    assert {part: set(arrays) for part, arrays in _inputs(data).items()} == {
        "train": {"id", "features", "group", "label"},
        "val": {"id", "features", "group"},
        "test": {"id", "features", "group"},
    }
    files = {str(path.relative_to(data)) for path in data.rglob("*") if path.is_file()}
    hidden = {"answers/val/answers.npz", "answers/test/answers.npz"}
    assert files == {"train/train.npz", "val/inputs.npz", "test/inputs.npz"} | hidden


@pytest.mark.parametrize("part", ["train", "val", "test"])
def test_columns_belong_to_the_person(data: Path, part: str):
    rows = _inputs(data)[part]
    number = rows["features"][:, 0].astype(int) - 1000
    assert np.array_equal(rows["features"][:, 1], number % 7)
    assert np.array_equal(rows["features"][:, 2:], np.tile([0, 1, 2, 1, 1], (len(number), 1)))
    assert np.array_equal(rows["group"], number % 3 % 2)
    answers = rows if part == "train" else arrays(data / "answers" / part / "answers.npz")
    assert np.array_equal(answers["id"], rows["id"])
    assert np.array_equal(answers["group"], rows["group"])
    assert np.array_equal(answers["label"], number % 5 % 2)


def test_parts_have_the_declared_share_of_every_cell(data: Path):
    inputs = _inputs(data)
    labels = {p: arrays(data / "answers" / p / "answers.npz")["label"] for p in ("val", "test")}
    labels["train"] = inputs["train"]["label"]
    counts = {
        part: np.bincount(2 * rows["group"] + labels[part], minlength=4)
        for part, rows in inputs.items()
    }
    total = sum(counts.values())
    for part, share in prepare.SHARES.items():
        assert np.all(np.abs(counts[part] - share * total) <= 1)


def test_ids_tell_nothing_about_the_order_of_the_file(data: Path):
    parts = _inputs(data).values()
    ids = np.concatenate([part["id"] for part in parts])
    ages = np.concatenate([part["features"][:, 0] for part in parts])
    assert abs(np.corrcoef(ids, ages)[0, 1]) < 0.15  # three standard errors of 400 rows


# ---------------------------------------------------------------- grade

GROUP = np.array([0, 0, 0, 0, 1, 1, 1, 1])
LABEL = np.array([0, 0, 1, 1, 0, 0, 1, 1])
IDS = np.array([3, 14, 15, 92, 65, 35, 89, 79])


def _handed_in(folder: Path, ids: np.ndarray, label: np.ndarray) -> dict[str, float]:
    """Grade an `id` and a `label` array against the eight people above."""
    outputs, answers = folder / "outputs", folder / "answers"
    outputs.mkdir()
    answers.mkdir()
    np.savez(answers / "answers.npz", id=IDS, label=LABEL, group=GROUP)
    np.savez(outputs / "predictions.npz", id=ids, label=label)
    return grade.grade(outputs, answers)


def _copies(predicted: list[int]) -> np.ndarray:
    return np.tile(predicted, (grade.REPLICATES, 1))


@pytest.mark.parametrize(
    ("predicted", "abs_aod", "accuracy", "average_abs_odds"),
    [
        pytest.param([0, 0, 1, 1, 0, 0, 1, 1], 0.0, 1.0, 0.0, id="perfect"),
        pytest.param([1, 1, 1, 1, 1, 1, 1, 1], 0.0, 0.5, 0.0, id="constant"),
        pytest.param([1, 1, 1, 1, 0, 0, 0, 0], 1.0, 0.5, 1.0, id="the group itself"),
        # d_0 = 1/2 - 0 and d_1 = 1 - 1/2: both against group 0
        pytest.param([0, 1, 1, 1, 0, 0, 0, 1], 0.5, 0.75, 0.5, id="same sign"),
        # d_0 = 1 - 1/2 and d_1 = 0 - 1/2: they cancel
        pytest.param([1, 1, 0, 0, 0, 1, 0, 1], 0.0, 0.25, 0.5, id="cancelling"),
        # d_0 = 1/2 - 0 and d_1 = 1/2 - 1/2
        pytest.param([0, 1, 0, 1, 0, 0, 0, 1], 0.25, 0.625, 0.25, id="one label only"),
    ],
)
def test_hand_computed_metrics(
    tmp_path: Path, predicted: list[int], abs_aod: float, accuracy: float, average_abs_odds: float
):
    assert _handed_in(tmp_path, IDS, _copies(predicted)) == {
        "abs_aod": pytest.approx(abs_aod),
        "accuracy": pytest.approx(accuracy),
        "average_abs_odds": pytest.approx(average_abs_odds),
    }


def test_opposite_models_do_not_cancel_in_the_mean(tmp_path: Path):
    half = grade.REPLICATES // 2
    label = np.concatenate([np.tile(1 - GROUP, (half, 1)), np.tile(GROUP, (half, 1))])
    assert _handed_in(tmp_path, IDS, label)["abs_aod"] == pytest.approx(1.0)


def test_shuffled_rows_are_fine(tmp_path: Path):
    order = np.random.default_rng(0).permutation(len(IDS))
    label = _copies([0, 1, 1, 1, 0, 0, 0, 1])
    got = _handed_in(tmp_path, IDS[order], label[:, order])
    assert got["accuracy"] == pytest.approx(0.75)
    assert got["abs_aod"] == pytest.approx(0.5)


GOOD = _copies([0, 1] * 4)
REFUSED = {
    "a replicate short": (IDS, GOOD[1:]),
    "a person short": (IDS[1:], GOOD[:, 1:]),
    "a person twice": (np.r_[IDS[:-1], IDS[0]], GOOD),
    "an unknown person": (np.r_[IDS[:-1], 1000], GOOD),
    "ids of the wrong length": (IDS[1:], GOOD),
    "scores instead of labels": (IDS, GOOD * 0.5),
    "a label of 2": (IDS, GOOD * 2),
    "a label of -1": (IDS, -GOOD),
    "NaN": (IDS, np.where(GOOD == 1, np.nan, 0.0)),
    "objects": (IDS, GOOD.astype(object)),
}


@pytest.mark.parametrize("case", REFUSED)
def test_malformed_predictions_are_refused(tmp_path: Path, case: str):
    with pytest.raises(InvalidOutput):
        _handed_in(tmp_path, *REFUSED[case])


# ---------------------------------------------------------------- repository, ideas, references


@pytest.mark.parametrize("idea", IDEAS, ids=lambda idea: idea.id)
def test_an_idea_matches_exactly_once(idea):
    for change in idea.edit.files:
        for block in change.blocks:
            lines = f"\n{TARGETS[change.path]}".count(f"\n{block.search}\n")
            assert lines == 1
    edited = apply_edit(idea.edit, TARGETS)
    assert edited["model.py"] != TARGETS["model.py"]
    assert syntax_error(edited) is None


def test_the_catalogue_has_every_kind_of_idea():
    assert len(IDEAS) >= 12
    assert {idea.effect for idea in IDEAS} == {"good", "neutral", "harmful", "shallow", "crash"}
    assert len({idea.category for idea in IDEAS}) >= 6


def test_the_grader_expects_what_the_repository_writes():
    assert FILES.load("repo/config.py").REPLICATES == grade.REPLICATES


def test_features_are_the_ones_the_repository_names():
    assert len(FILES.load("repo/config.py").FEATURES) == len(prepare.feature_row(_raw_rows()[0]))
    assert FILES.load("repo/config.py").GROUPS == prepare.GROUPS


@pytest.fixture(scope="module")
def biased() -> dict[str, np.ndarray]:
    """2,000 made-up people: the outcome follows priors, and group 0 has more of them."""
    rng = np.random.default_rng(0)
    group = rng.integers(0, 2, 2000)
    features = np.zeros((2000, 7))
    features[:, 0] = rng.integers(18, 60, 2000)
    features[:, 1] = rng.poisson(np.where(group == 0, 6.0, 3.0))
    label = (features[:, 1] + rng.normal(0.0, 3.0, 2000) > 4.5).astype(int)
    return {"features": features, "label": label, "group": group}


def _fitted(path: str, people: dict[str, np.ndarray]) -> np.ndarray:
    """Predictions of a model file on the people it was fitted to."""
    module = FILES.load(path)
    model = module.fit(**people, rng=np.random.default_rng(0))
    return module.predict(model, people["features"], people["group"])


def test_the_baseline_learns_and_is_deterministic(biased):
    first, second = (_fitted("repo/model.py", biased) for _ in range(2))
    assert np.array_equal(first, second)
    assert np.mean(first == biased["label"]) > 0.7


@pytest.mark.parametrize("method", REFERENCES)
def test_a_reference_is_fairer_than_the_baseline(biased, method: str):
    label, group = biased["label"], biased["group"]
    before = grade.score(_fitted("repo/model.py", biased), label, group)
    after = grade.score(_fitted(f"reference/{method}/model.py", biased), label, group)
    assert after["abs_aod"] < before["abs_aod"]
    assert after["accuracy"] > 0.65
