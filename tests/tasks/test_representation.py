"""The representation task: prepare, probe, what encode.py refuses, ideas, references."""

import sys
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch
from task_files import TaskFiles, arrays, tree_hash

from fml_hydra.edits import apply_edit
from fml_hydra.errors import InvalidOutput
from fml_hydra.ideas import Effect, Idea, load_ideas

ROOT = Path(__file__).parents[2]
FILES = TaskFiles("representation")
TASK = FILES.folder
SPEC = FILES.spec


grade = FILES.load("grade.py")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return FILES.prepare(tmp_path_factory.mktemp("prepared"))


# ---------------------------------------------------------------- prepare


def test_prepared_bytes_do_not_depend_on_the_run(prepared: Path, tmp_path: Path) -> None:
    hashes = tree_hash(prepared)
    assert len(hashes) == 5
    assert tree_hash(FILES.prepare(tmp_path)) == hashes


def test_no_command_is_given_a_label(prepared: Path) -> None:
    assert [p.name for p in (prepared / "train").iterdir()] == ["images.npz"]
    assert sorted(arrays(prepared / "train/images.npz")) == ["images"]
    for part in ("val", "test"):
        assert [p.name for p in (prepared / part).iterdir()] == ["inputs.npz"]
        assert sorted(arrays(prepared / part / "inputs.npz")) == ["id", "images"]
    assert [command["data"] for command in SPEC["commands"]] == [["train"], ["eval"]]


def test_no_image_is_in_two_parts(prepared: Path) -> None:
    parts = [arrays(prepared / "train/images.npz")["images"]]
    parts += [arrays(prepared / part / "inputs.npz")["images"] for part in ("val", "test")]
    assert [len(images) for images in parts] == [4000, 500, 500]
    assert len({image.tobytes() for images in parts for image in images}) == 5000


def test_each_draw_labels_twenty_of_fifty_images_of_each_digit(prepared: Path) -> None:
    seen: set[int] = set()
    for part in ("val", "test"):
        inputs = arrays(prepared / part / "inputs.npz")
        answers = arrays(prepared / "answers" / part / "answers.npz")
        np.testing.assert_array_equal(inputs["id"], answers["id"])
        assert np.bincount(answers["label"]).tolist() == [50] * 10
        assert answers["probe"].shape == (30, 500)
        for known in answers["probe"]:
            assert np.bincount(answers["label"][known]).tolist() == [20] * 10
        assert len({known.tobytes() for known in answers["probe"]}) == 30
        assert not seen & set(inputs["id"].tolist())
        seen |= set(inputs["id"].tolist())


# ---------------------------------------------------------------- grade

LABEL = np.repeat(np.arange(10), 4)
DRAWS = np.stack([np.arange(40) % 4 < 2, np.arange(40) % 4 > 1])


def _grade(folder: Path, **handed: np.ndarray) -> dict[str, float]:
    np.savez(folder / "answers.npz", id=100 + np.arange(40), label=LABEL, probe=DRAWS)
    arrays = {"id": 100 + np.arange(40), "untrained": np.zeros((40, 3)), **handed}
    np.savez(folder / "features.npz", **arrays)
    return grade.grade(folder, folder)


def test_perfect_features_and_none_at_all(tmp_path: Path) -> None:
    got = _grade(tmp_path, features=np.eye(10)[LABEL])
    # all scores are equal without features, so the first class is the answer
    want = {"accuracy": 1.0, "untrained_accuracy": 0.1, "learned_gain": 0.9}
    assert got == pytest.approx(want)


def test_only_unlabelled_rows_count_and_draws_are_averaged() -> None:
    features = np.eye(10)[LABEL]
    features[0] = features[4]  # a nought that looks like a one
    label = LABEL[:8]
    only = np.array([[True, True, True, False] * 2, [False, True, True, True] * 2])
    # labelled in the first draw, where the other two still win; missed in the second
    assert grade.probe_accuracy(features[:8], label, only) == pytest.approx((1.0 + 0.5) / 2)


def test_probe_is_ridge_regression_on_standardised_features() -> None:
    rng = np.random.default_rng(0)
    known, unknown = rng.normal(3.0, 2.0, (30, 4)), rng.normal(3.0, 2.0, (200, 4))
    label = np.arange(30) % 10
    mean, deviation = known.mean(axis=0), known.std(axis=0)
    a, b = (
        np.column_stack([(x - mean) / deviation / np.sqrt(4), np.ones(len(x))])
        for x in (known, unknown)
    )
    weights = np.linalg.solve(a.T @ a + grade.RIDGE * np.eye(5), a.T @ np.eye(10)[label])
    np.testing.assert_array_equal(grade.probe(known, label, unknown), (b @ weights).argmax(axis=1))


def test_scale_offset_constants_and_order_carry_nothing(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(40, 5)) + 3.0 * np.eye(10)[LABEL][:, :5]
    changed = np.column_stack([features * [1e-2, 1.0, 1e2, -2.0, 5.0] + 7.0, np.full(40, 3.0)])
    order = rng.permutation(40)
    first = _grade(tmp_path, features=features)
    second = _grade(tmp_path, id=100 + order, features=changed[order])
    assert 0.2 < first["accuracy"] < 1.0
    assert second["accuracy"] == pytest.approx(first["accuracy"])


@pytest.mark.parametrize(
    "handed",
    [
        {"features": np.zeros((39, 3)), "id": 100 + np.arange(39)},
        {"features": np.zeros((40, 3)), "id": np.arange(40)},
        {"features": np.zeros((40, 257))},
        {"features": np.zeros((40, 3)), "untrained": np.zeros((40, 257))},
        {"features": np.zeros((40, 0))},
        {"features": np.zeros(40)},
        {"features": np.full((40, 3), np.nan)},
        {"features": np.full((40, 3), 1e300)},
        {"features": np.zeros((40, 3), dtype=complex)},
        {"features": np.zeros((40, 3)), "label": LABEL},
    ],
    ids=[
        "short",
        "unknown",
        "wide",
        "wide untrained",
        "empty",
        "flat",
        "nan",
        "huge",
        "complex",
        "extra",
    ],
)
def test_malformed_features_are_refused(tmp_path: Path, handed: dict[str, np.ndarray]) -> None:
    with pytest.raises(InvalidOutput):
        _grade(tmp_path, **handed)


# ---------------------------------------------------------------- repository


@pytest.fixture
def repository(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its modules can be imported, and are forgotten afterwards."""
    monkeypatch.syspath_prepend(str(TASK / "repo"))
    for name in ("augment", "images", "model", "optimizer"):
        monkeypatch.delitem(sys.modules, name, raising=False)


@pytest.mark.usefixtures("repository")
def test_a_few_steps_learn_and_are_repeatable() -> None:
    images = torch.rand((64, 1, 14, 14), generator=torch.Generator().manual_seed(0))

    def once() -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
        torch.manual_seed(1)
        method = FILES.load("repo/model.py").Method()
        before = {k: v.clone() for k, v in method.encoder.state_dict().items()}
        for step in range(2):
            assert np.isfinite(method.update(images, step / 2))
        return before, method.encoder.state_dict()

    (before, after), (_, again) = once(), once()
    assert all(torch.equal(after[name], again[name]) for name in after)
    assert not torch.equal(before["0.0.weight"], after["0.0.weight"])


@pytest.mark.usefixtures("repository")
def test_encoding_refuses_what_depends_on_other_images_or_is_too_long() -> None:
    encode = FILES.load("repo/encode.py").encode
    images = torch.rand((100, 1, 14, 14), generator=torch.Generator().manual_seed(0))
    flat = torch.nn.Flatten()
    assert encode(flat, images).shape == (100, 196)
    with pytest.raises(SystemExit, match="depend on the images"):
        encode(torch.nn.Sequential(flat, torch.nn.BatchNorm1d(196)).train(), images)
    with pytest.raises(SystemExit, match="at most 256"):
        encode(torch.nn.Sequential(torch.nn.Upsample(scale_factor=2), flat), images)
    with pytest.raises(SystemExit, match="finite"):
        encode(lambda batch: flat(batch) / 0, images)


# ---------------------------------------------------------------- ideas and references

TARGETS = {name: (TASK / "repo" / name).read_text() for name in SPEC["targets"]}
IDEAS = load_ideas(TASK / "ideas", list(TARGETS))


def test_references_are_whole_target_files() -> None:
    for name in SPEC["reported"]["references"]:
        files = list((TASK / "reference" / name).iterdir())
        assert files
        assert {path.name for path in files} <= set(TARGETS)


def test_the_catalogue_is_large_and_varied() -> None:
    assert len(IDEAS) >= 12
    assert {idea.effect for idea in IDEAS} == set(get_args(Effect))


@pytest.mark.parametrize("idea", IDEAS, ids=lambda idea: idea.id)
def test_idea_matches_once_and_stays_python(idea: Idea) -> None:
    searches = FILES.searches(idea)
    assert searches
    for search in searches:
        assert sum(("\n" + whole).count("\n" + search) for whole in TARGETS.values()) == 1
    edited = apply_edit(idea.edit, TARGETS)
    assert edited != TARGETS
    for name, whole in edited.items():
        compile(whole, f"{idea.id}/{name}", "exec")
