"""The few-shot task: what prepare promises, what grade computes and refuses, its ideas."""

import gzip
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from task_files import TaskFiles, arrays

from fml_hydra.edits import apply_edit, syntax_error
from fml_hydra.errors import InvalidOutput
from fml_hydra.hashing import tree_hash
from fml_hydra.ideas import load_ideas

FILES = TaskFiles("data_efficiency")
TASK = FILES.folder
TARGETS = {"fewshot.py": (TASK / "repo/fewshot.py").read_text()}
IDEAS = load_ideas(TASK / "ideas", list(TARGETS))
REFERENCES = ("best", "balanced_k_means", "soft_k_means", "simpleshot")


grade = FILES.load("grade.py")
prepare = FILES.load("prepare.py")


# ---------------------------------------------------------------- prepare

PER_DIGIT = 40
"""Images of each digit in the made-up file."""


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Noisy made-up digits: digit d is a bright band from row 2d."""
    rng = np.random.default_rng(0)
    digits = np.repeat(np.arange(10), PER_DIGIT)
    images = rng.integers(0, 80, (len(digits), 28, 28))
    for image, digit in zip(images, digits, strict=True):
        image[2 * digit : 2 * digit + 8] += 150
    table = np.column_stack([images.reshape(len(digits), -1), digits])
    path = tmp_path_factory.mktemp("raw") / "digits.csv.gz"
    with gzip.open(path, "wt") as file:
        np.savetxt(file, table, fmt="%d", delimiter=",")
    return path


@pytest.fixture(scope="module")
def small() -> pytest.MonkeyPatch:
    """Two backbones of one epoch; fewer episodes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prepare, "BACKBONES", 2)
        patch.setattr(prepare, "EPISODES", 6)
        patch.setattr(prepare, "SEEN", 32)
        patch.setattr(prepare, "EPOCHS", 1)
        yield patch


@pytest.fixture(scope="module")
def data(raw: Path, small: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("data")
    prepare.prepare({"digits": raw}, out)
    return out


def _inputs(data: Path, part: str) -> dict[str, np.ndarray]:
    return arrays(data / part / "inputs.npz")


def _answers(data: Path, part: str) -> dict[str, np.ndarray]:
    return arrays(data / "answers" / part / "answers.npz")


def test_the_same_file_gives_the_same_bytes(raw: Path, data: Path, small, tmp_path: Path):
    prepare.prepare({"digits": raw}, tmp_path)
    assert tree_hash(tmp_path) == tree_hash(data)


def test_parts_hold_only_the_promised_arrays(data: Path):
    assert sorted(arrays(data / "train/base.npz")) == ["features", "label", "seen"]
    for part in ("val", "test"):
        assert [p.name for p in (data / part).iterdir()] == ["inputs.npz"]
        assert sorted(_inputs(data, part)) == ["backbone", "features", "id", "query", "support"]


def test_no_image_is_in_two_parts(data: Path):
    base = arrays(data / "train/base.npz")["features"][0]
    parts = [base, *(_inputs(data, part)["features"][0] for part in ("val", "test"))]
    maps = [{one.tobytes() for one in part} for part in parts]
    assert [len(m) for m in maps] == [5 * PER_DIGIT, 5 * PER_DIGIT // 2, 5 * PER_DIGIT // 2]
    assert len(set.union(*maps)) == 10 * PER_DIGIT
    assert not set(_inputs(data, "val")["id"]) & set(_inputs(data, "test")["id"])


def test_base_images_are_labelled_and_some_are_unseen(data: Path):
    base = arrays(data / "train/base.npz")
    assert np.bincount(base["label"]).tolist() == [PER_DIGIT] * 5
    assert np.bincount(base["label"][base["seen"]]).tolist() == [32] * 5


@pytest.mark.parametrize("part", ["val", "test"])
def test_an_episode_is_balanced_and_keeps_its_support_out_of_its_queries(data: Path, part: str):
    inputs, answers = _inputs(data, part), _answers(data, part)
    assert np.array_equal(inputs["id"], answers["id"])
    assert np.array_equal(inputs["backbone"], answers["backbone"])
    for support, query, way in zip(inputs["support"], inputs["query"], answers["way"], strict=True):
        assert len({*support, *query}) == 5 + 75
        assert np.bincount(way).tolist() == [15] * 5
        assert not np.array_equal(way, np.sort(way))


def test_answers_name_the_image_whose_features_were_shown(raw: Path, data: Path):
    with gzip.open(raw, "rt") as file:
        digits = np.loadtxt(file, delimiter=",", usecols=-1, dtype=int)
    answers = _answers(data, "val")
    named = np.take_along_axis(answers["digit"], answers["way"], axis=1)
    assert np.array_equal(digits[answers["image"]], named)


def test_neither_rows_nor_ways_say_which_digit(data: Path):
    inputs, answers = _inputs(data, "val"), _answers(data, "val")
    assert len({tuple(digit) for digit in answers["digit"]}) > 1
    digit_of_row = np.zeros((2, 5 * PER_DIGIT // 2), dtype=int) - 1
    for backbone, query, way, digit in zip(
        inputs["backbone"], inputs["query"], answers["way"], answers["digit"], strict=True
    ):
        known = digit_of_row[backbone][query]
        assert np.all((known == -1) | (known == digit[way]))  # one row, one image
        digit_of_row[backbone][query] = digit[way]
    assert not np.array_equal(digit_of_row[0], np.sort(digit_of_row[0]))
    assert not np.array_equal(digit_of_row[0], digit_of_row[1])


# ---------------------------------------------------------------- grade

EPISODES = 4
WAY = np.stack([np.random.default_rng(i).permutation(np.arange(75) % 5) for i in range(EPISODES)])
DIGIT = np.stack([np.roll(np.arange(5), i) for i in range(EPISODES)])
IDS = np.array([7, 3, 12, 1])


def _image() -> np.ndarray:
    """Image number of each query, such that image i shows digit i % 5, in every episode."""
    image = np.zeros_like(WAY)
    for row, way, digit in zip(image, WAY, DIGIT, strict=True):
        order = np.argsort(digit[way], kind="stable")
        row[order] = np.argsort(np.arange(75) % 5, kind="stable")
    return image


IMAGE = _image()


def _handed_in(folder: Path, ids: np.ndarray, way: np.ndarray) -> dict[str, float]:
    """Grade `way` against the four episodes above; the first two are of one backbone."""
    outputs, answers = folder / "outputs", folder / "answers"
    outputs.mkdir()
    answers.mkdir()
    truth = {"way": WAY, "image": IMAGE, "digit": DIGIT, "backbone": np.array([0, 0, 1, 1])}
    np.savez(answers / "answers.npz", id=IDS, **truth)
    np.savez(outputs / "predictions.npz", id=ids, way=way)
    return grade.grade(outputs, answers)


def _ways_of(digit: np.ndarray) -> np.ndarray:
    """Ways (4, 75) that stand for the given digits (4, 75)."""
    return np.take_along_axis(np.argsort(DIGIT, axis=1), digit, axis=1)


def test_perfect_answers(tmp_path: Path):
    got = _handed_in(tmp_path, IDS, WAY)
    assert got == {"accuracy": 1.0, "ci95": 0.0, "repeated_errors": 0.0}


def test_a_constant_answer_is_at_chance(tmp_path: Path):
    assert _handed_in(tmp_path, IDS, np.zeros_like(WAY))["accuracy"] == pytest.approx(0.2)


def test_the_interval_is_over_episodes(tmp_path: Path):
    way = WAY.copy()
    way[:2] = (way[:2] + 1) % 5  # accuracies 0, 0, 1, 1
    got = _handed_in(tmp_path, IDS, way)
    assert got["accuracy"] == pytest.approx(0.5)
    assert got["ci95"] == pytest.approx(1.96 * 0.5 / 2)


def test_the_same_mistake_in_every_episode_is_repeated(tmp_path: Path):
    confused = IMAGE % 5
    confused[IMAGE < 10] = 4 - confused[IMAGE < 10]  # of ten images, the two of digit 2 stay right
    got = _handed_in(tmp_path, IDS, _ways_of(confused))
    assert got["accuracy"] == pytest.approx(1 - 8 / 75)
    assert got["repeated_errors"] == 1.0


def test_mistakes_in_one_episode_of_each_backbone_are_not_repeated(tmp_path: Path):
    confused = IMAGE % 5
    confused[::2] = (confused[::2] + 1) % 5  # episodes 0 and 2; 1 and 3 are right
    assert _handed_in(tmp_path, IDS, _ways_of(confused))["repeated_errors"] == 0.0


def test_different_mistakes_and_half_of_them_the_same(tmp_path: Path):
    confused = IMAGE % 5
    shift = np.array([1, 1, 1, 2])  # backbone 0: the same wrong digit twice; 1: two wrong digits
    got = _handed_in(tmp_path, IDS, _ways_of((confused + shift[:, None]) % 5))
    assert got["accuracy"] == 0.0
    assert got["repeated_errors"] == pytest.approx(0.5)


def test_shuffled_rows_are_fine(tmp_path: Path):
    order = np.array([2, 0, 3, 1])
    assert _handed_in(tmp_path, IDS[order], WAY[order])["accuracy"] == 1.0


REFUSED = {
    "an episode short": (IDS[1:], WAY[1:]),
    "an episode twice": (np.r_[IDS[:-1], IDS[0]], WAY),
    "an unknown episode": (np.r_[IDS[:-1], 1000], WAY),
    "ids of the wrong length": (IDS[1:], WAY),
    "a query short": (IDS, WAY[:, 1:]),
    "probabilities": (IDS, WAY * 0.5),
    "a way of 5": (IDS, WAY + 1),
    "a way of -1": (IDS, WAY - 1),
    "NaN": (IDS, np.where(WAY == 1, np.nan, 0.0)),
    "objects": (IDS, WAY.astype(object)),
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
            assert f"\n{TARGETS[change.path]}".count(f"\n{block.search}\n") == 1
    edited = apply_edit(idea.edit, TARGETS)
    assert edited["fewshot.py"] != TARGETS["fewshot.py"]
    assert syntax_error(edited) is None


def test_the_catalogue_has_every_kind_of_idea():
    assert len(IDEAS) >= 12
    assert {idea.effect for idea in IDEAS} == {"good", "neutral", "harmful", "shallow", "crash"}
    assert len({idea.category for idea in IDEAS}) >= 6


def test_the_grader_expects_what_prepare_writes():
    assert grade.WAYS == prepare.WAYS
    assert grade.QUERIES == prepare.WAYS * prepare.QUERIES


def test_references_are_those_of_this_test():
    assert sorted(p.name for p in (TASK / "reference").iterdir()) == sorted(REFERENCES)


MAPS = (6, 3, 3)
"""Shape of the made-up maps below."""


@pytest.fixture
def episodes(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The repository's `episodes`, importable under its own name as in a step."""
    module = FILES.load("repo/episodes.py")
    monkeypatch.setitem(sys.modules, "episodes", module)
    return module


def _accuracy(path: str, episodes: ModuleType) -> float:
    """Mean accuracy of a target file on twenty made-up episodes in which position matters."""
    method = FILES.load(path)
    rng = np.random.default_rng(0)
    centres = rng.gamma(1.0, 1.0, (10, *MAPS))

    def draw(label: np.ndarray) -> np.ndarray:
        return np.maximum(centres[label] + rng.normal(0.0, 0.9, (len(label), *MAPS)), 0.0)

    label = np.arange(200) % 5
    base = episodes.Base(draw(label + 5), label, label < 4)
    learned = method.learn_base(base, np.random.default_rng(0))
    right = []
    for _ in range(20):
        digit, way = rng.permutation(5), rng.permutation(np.arange(75) % 5)
        support, query = draw(digit)[:, None], draw(digit[way])
        answer = method.classify(support, query, learned, np.random.default_rng(0))
        assert answer.shape == way.shape
        right.append(np.mean(answer == way))
    return float(np.mean(right))


def test_the_baseline_is_above_chance_and_deterministic(episodes: ModuleType):
    first, second = (_accuracy("repo/fewshot.py", episodes) for _ in range(2))
    assert first == second
    assert 0.4 < first < 0.9


@pytest.mark.parametrize("method", REFERENCES)
def test_a_reference_is_better_than_the_baseline(method: str, episodes: ModuleType):
    baseline = _accuracy("repo/fewshot.py", episodes)
    assert _accuracy(f"reference/{method}/fewshot.py", episodes) > baseline + 0.02


def test_an_episode_is_read_as_prepared(data: Path, episodes: ModuleType, tmp_path: Path):
    (tmp_path / "train").symlink_to(data / "train")
    (tmp_path / "eval").symlink_to(data / "val")
    inputs = _inputs(data, "val")
    read = list(episodes.load_episodes(tmp_path))
    assert [episode.id for episode in read] == inputs["id"].tolist()
    last, shown = read[-1], inputs["features"][1]
    assert np.array_equal(last.support[:, 0], shown[inputs["support"][-1]])
    assert np.array_equal(last.query, shown[inputs["query"][-1]])
    assert [len(base.maps) for base in episodes.load_base(tmp_path)] == [5 * PER_DIGIT] * 2
