"""The backdoor task: what prepare promises, who sees what, what grade computes, its ideas."""

import subprocess
import sys
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from task_files import TaskFiles, arrays, tree_hash

from fml_hydra.edits import apply_edit
from fml_hydra.errors import InvalidOutput
from fml_hydra.ideas import Effect, Idea, load_ideas

ROOT = Path(__file__).parents[2]
FILES = TaskFiles("robustness")
TASK = FILES.folder
SPEC = FILES.spec


grade = FILES.load("grade.py")
attacks = FILES.load("prepare.py").ATTACKS
stamp = FILES.load("prepare.py").stamp


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return FILES.prepare(tmp_path_factory.mktemp("prepared"))


def _training(prepared: Path, split: str) -> list[dict[str, np.ndarray]]:
    return [arrays(prepared / split / "training" / f"study_{study}.npz") for study in range(3)]


def _patched(images: np.ndarray, attack: object) -> np.ndarray:
    """Which images (n, 28, 28) carry the patch."""
    return (stamp(images, attack) == images).all(axis=(1, 2))


def _without_patches(images: np.ndarray) -> list[bytes]:
    """Images with every place of an attack black: what tells digits apart, attacked or not."""
    bare = images.copy()
    for attack in (a for split in attacks.values() for a in split):
        bare[:, attack.row : attack.row + 3, attack.column : attack.column + 3] = 0
    return [image.tobytes() for image in bare]


# ---------------------------------------------------------------- prepare


def test_prepared_bytes_do_not_depend_on_the_run(prepared: Path, tmp_path: Path) -> None:
    hashes = tree_hash(prepared)
    assert len(hashes) == 10
    assert tree_hash(FILES.prepare(tmp_path)) == hashes


@pytest.mark.parametrize("split", ["val", "test"])
def test_inputs_tell_nothing_but_images_and_studies(prepared: Path, split: str) -> None:
    assert sorted(p.name for p in (prepared / split).iterdir()) == ["inputs.npz", "training"]
    inputs = arrays(prepared / split / "inputs.npz")
    answers = arrays(prepared / "answers" / split / "answers.npz")
    assert sorted(inputs) == ["id", "images", "study"]
    np.testing.assert_array_equal(inputs["id"], answers["id"])
    np.testing.assert_array_equal(inputs["study"], answers["study"])
    for name in ("label", "triggered", "study"):  # rows are in no order that gives them away
        assert abs(np.corrcoef(inputs["id"], answers[name])[0, 1]) < 0.1


@pytest.mark.parametrize("split", ["val", "test"])
def test_two_percent_carry_the_patch_and_the_target_label(prepared: Path, split: str) -> None:
    for attack, data in zip(attacks[split], _training(prepared, split), strict=True):
        assert sorted(data) == ["images", "labels"]
        patched = _patched(data["images"], attack)
        assert (len(patched), patched.sum()) == (1000, 20)
        assert set(data["labels"][patched]) == {attack.target}


@pytest.mark.parametrize("split", ["val", "test"])
def test_triggered_inputs_and_no_others_carry_the_patch_of_their_study(
    prepared: Path, split: str
) -> None:
    images = arrays(prepared / split / "inputs.npz")["images"]
    answers = arrays(prepared / "answers" / split / "answers.npz")
    for study, attack in enumerate(attacks[split]):
        own = answers["study"] == study
        np.testing.assert_array_equal(_patched(images[own], attack), answers["triggered"][own])
        assert set(answers["target"][own]) == {attack.target}
        assert answers["triggered"][own].mean() == pytest.approx(0.5, abs=0.1)


def test_val_and_test_have_other_attacks() -> None:
    both = [*attacks["val"], *attacks["test"]]
    for fact in ("target", "patch"):
        assert len({getattr(attack, fact) for attack in both}) == 6
    assert len({(attack.row, attack.column) for attack in both}) == 6


def test_no_digit_is_in_two_studies_or_parts(prepared: Path) -> None:
    held_out = {}
    for split in ("val", "test"):
        digits = [
            d for data in _training(prepared, split) for d in _without_patches(data["images"])
        ]
        held_out[split] = _without_patches(arrays(prepared / split / "inputs.npz")["images"])
        assert len({*digits, *held_out[split]}) == 4000
    assert len({*held_out["val"], *held_out["test"]}) == 2000
    ids = [arrays(prepared / split / "inputs.npz")["id"] for split in held_out]
    assert len(np.unique(np.concatenate(ids))) == 2000


# ---------------------------------------------------------------- who sees what


def test_only_the_feeding_script_sees_the_data() -> None:
    words = [(c["run"].split(), c.get("data", [])) for c in SPEC["commands"]]
    assert [(w[1:4] if w[1] == "-I" else w[1:2], data) for w, data in words] == [
        (["-I", "feed.py", "training"], ["eval"]),
        (["train.py"], []),
        (["-I", "feed.py", "inputs"], ["eval"]),
        (["predict.py"], []),
    ]
    assert SPEC["protected"] == ["feed.py", "train.py", "predict.py", "README.md"]


def _feed(part: str, data: Path, out: Path) -> str:
    words = [sys.executable, "-I", "repo/feed.py", part, "--data", str(data), "--out", str(out)]
    done = subprocess.run(words, cwd=TASK, capture_output=True, text=True, check=False)
    assert (done.returncode != 0) == bool(done.stderr)
    return done.stderr.strip()


@pytest.fixture
def data(prepared: Path, tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "eval").symlink_to(prepared / "val")
    return tmp_path / "data"


def test_training_data_and_inputs_are_never_there_together(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    assert _feed("training", data, out) == ""
    assert [name for name, _ in tree_hash(out)] == [f"training/study_{s}.npz" for s in range(3)]
    assert _feed("inputs", data, out) == ""
    assert [p.name for p in out.iterdir()] == ["inputs.npz"]
    assert (out / "inputs.npz").read_bytes() == (data / "eval" / "inputs.npz").read_bytes()


def test_inputs_are_not_written_where_a_defence_points(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    assert _feed("training", data, out) == ""
    (out / "inputs.npz").symlink_to(tmp_path / "kept.npz")
    assert _feed("inputs", data, out) == "inputs.npz is there already"
    assert not (tmp_path / "kept.npz").exists()


# ---------------------------------------------------------------- grade

LABEL = np.array([0, 1, 2, 3, 0, 1, 2, 3])
TRIGGERED = np.arange(8) >= 4
TARGET = 3  # row 7 is triggered, but of the target class: it is not attacked


def _grade(folder: Path, **handed: np.ndarray) -> dict[str, float]:
    """Two studies, the second with other ids and target 0 (row 4 is not attacked)."""
    facts = {"label": np.tile(LABEL, 2), "triggered": np.tile(TRIGGERED, 2)}
    target = np.repeat([TARGET, 0], 8)
    study = np.repeat([0, 1], 8)
    np.savez(folder / "answers.npz", id=100 + np.arange(16), study=study, target=target, **facts)
    np.savez(folder / "predictions.npz", **handed)
    return grade.grade(folder, folder)


def _score(prediction: list[int]) -> tuple[float, ...]:
    target = np.full(8, TARGET)
    got = grade.score(np.array(prediction), LABEL, target, TRIGGERED)
    names = ("clean_accuracy", "attack_success", "triggered_accuracy", "target_recall")
    return tuple(got[name] for name in ("defence_score", *names))


@pytest.mark.parametrize(
    ("prediction", "expected"),
    [
        (LABEL.tolist(), (1.0, 1.0, 0.0, 1.0, 1.0)),
        ([0, 1, 2, 3, 3, 3, 3, 3], (0.0, 1.0, 1.0, 0.0, 1.0)),  # the backdoor works
        # 3 of 4 clean ones right; one of three attacked gets the target, one is merely wrong
        ([0, 1, 2, 9, 3, 9, 2, 3], (2 * 0.75 * (2 / 3) / (0.75 + 2 / 3), 0.75, 1 / 3, 1 / 3, 0.5)),
        ([0, 1, 2, 9, 0, 1, 2, 9], (2 * 0.75 / 1.75, 0.75, 0.0, 1.0, 0.0)),  # never the target
        ([9, 9, 9, 9, 3, 3, 3, 9], (0.0, 0.0, 1.0, 0.0, 0.0)),  # nothing right, no 0 / 0
    ],
)
def test_scores_by_hand(prediction: list[int], expected: tuple[float, ...]) -> None:
    assert _score(prediction) == pytest.approx(expected)


def test_studies_are_scored_by_themselves_and_averaged(tmp_path: Path) -> None:
    prediction = np.concatenate([LABEL, np.where(TRIGGERED, 0, LABEL)])
    order = np.random.default_rng(0).permutation(16)
    got = _grade(tmp_path, id=100 + order, prediction=prediction[order])
    assert got["defence_score"] == pytest.approx(
        0.5
    )  # 1, and 0 for the one taken in; of the means it would be 2/3
    assert got["attack_success"] == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("ids", "prediction"),
    [
        (100 + np.arange(15), np.zeros(15, dtype=int)),
        (np.arange(16), np.zeros(16, dtype=int)),
        (100 + np.arange(16) // 2, np.zeros(16, dtype=int)),
        (100 + np.arange(16), np.full(16, 10)),
        (100 + np.arange(16), np.full(16, -1)),
        (100 + np.arange(16), np.zeros((16, 1), dtype=int)),
        (100 + np.arange(16), np.zeros(16)),
        (100 + np.arange(16), np.zeros(16, dtype=object)),
    ],
    ids=["short", "unknown", "duplicate", "high", "low", "shape", "float", "object"],
)
def test_malformed_predictions_are_refused(
    tmp_path: Path, ids: np.ndarray, prediction: np.ndarray
) -> None:
    with pytest.raises(InvalidOutput):
        _grade(tmp_path, id=ids, prediction=prediction)


def test_never_answering_the_target_is_bounded() -> None:
    (constraint,) = SPEC["constraints"]
    assert constraint == {"metric": "target_recall", "at_least": "baseline", "slack": 0.2}


# ---------------------------------------------------------------- defence, ideas and references

TARGETS = {"defence.py": (TASK / "repo/defence.py").read_text()}
IDEAS = load_ideas(TASK / "ideas", list(TARGETS))
REFERENCES = sorted(path.name for path in (TASK / "reference").iterdir() if path.is_dir())


def test_gradients_of_the_network_are_those_of_its_loss() -> None:
    defence = FILES.load("repo/defence.py")
    rng = np.random.default_rng(0)
    model = {n: w.astype(np.float64) for n, w in defence.init_model(rng).items()}
    x, targets = rng.random((6, 28, 28)), np.eye(10)[[0, 1, 2, 3, 4, 4]]

    def loss() -> float:
        return float(-np.log((defence.probabilities(model, x) * targets).sum(axis=1)).mean())

    gradient = defence.batch_gradient(model, x, targets)
    for name, w in model.items():
        place = np.unravel_index(np.abs(gradient[name]).argmax(), w.shape)
        w[place] += 1e-6
        above = loss()
        w[place] -= 2e-6
        slope = (above - loss()) / 2e-6
        w[place] += 1e-6
        assert gradient[name][place] == pytest.approx(slope, rel=1e-4)


@pytest.mark.parametrize("folder", ["repo", *(f"reference/{name}" for name in REFERENCES)])
def test_training_gives_plain_arrays_and_is_repeatable(prepared: Path, folder: str) -> None:
    defence = FILES.load(f"{folder}/defence.py")
    defence.CONFIG["epochs"] = 2
    data = {name: array[:200] for name, array in _training(prepared, "val")[0].items()}
    models = [defence.train(**data, rng=np.random.default_rng(1)) for _ in range(2)]
    assert models[0].keys() == models[1].keys()
    for name, value in models[0].items():
        assert value.dtype.kind in "fiub"
        np.testing.assert_array_equal(value, models[1][name])
    assert defence.predict(models[0], data["images"][0]).shape == (10,)


def test_references_are_declared() -> None:
    assert set(SPEC["reported"]["references"]) == set(REFERENCES)


def test_the_catalogue_is_large_and_varied() -> None:
    assert len(IDEAS) >= 12
    assert {idea.effect for idea in IDEAS} == set(get_args(Effect))


@pytest.mark.parametrize("idea", IDEAS, ids=lambda idea: idea.id)
def test_idea_matches_once_and_stays_python(idea: Idea) -> None:
    searches = FILES.searches(idea)
    assert searches
    for search in searches:
        assert ("\n" + TARGETS["defence.py"]).count("\n" + search) == 1
    edited = apply_edit(idea.edit, TARGETS)
    assert edited != TARGETS
    compile(edited["defence.py"], idea.id, "exec")
