"""The privacy task: prepare, how models are kept apart, the attacks of grade, ideas, references."""

import hashlib
import subprocess
import sys
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from task_files import TaskFiles, arrays

from fml_hydra.edits import apply_edit, syntax_error
from fml_hydra.errors import InvalidOutput
from fml_hydra.hashing import tree_hash
from fml_hydra.ideas import Effect, Idea, load_ideas

FILES = TaskFiles("privacy")
TASK = FILES.folder
TARGETS = {"model.py": (TASK / "repo/model.py").read_text()}
IDEAS = load_ideas(TASK / "ideas", list(TARGETS))
SPEC = FILES.spec
Arrays = dict[str, np.ndarray]


grade = FILES.load("grade.py")
dealing = FILES.load("prepare.py")
feed = FILES.load("repo/feed.py")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return FILES.prepare(tmp_path_factory.mktemp("prepared"))


def _pool(prepared: Path, part: str) -> Path:
    queries = (prepared / part / "inputs.npz").read_bytes()
    return prepared / "train" / hashlib.sha256(queries).hexdigest()[:16]


def _sets(prepared: Path, part: str) -> list[Arrays]:
    return [arrays(_pool(prepared, part) / f"members_{k}.npz") for k in range(4)]


# ---------------------------------------------------------------- prepare


def test_prepared_bytes_do_not_depend_on_the_run(prepared: Path, tmp_path: Path):
    assert tree_hash(FILES.prepare(tmp_path)) == tree_hash(prepared)


@pytest.mark.parametrize("part", ["val", "test"])
def test_sets_come_in_pairs_that_are_independent(prepared: Path, part: str):
    sets = _sets(prepared, part)
    images = [{image.tobytes() for image in one["images"]} for one in sets]
    for one in sets:
        assert np.bincount(one["labels"]).tolist() == [100] * 10
    common = [[len(a & b) for b in images] for a in images]
    half = [500, 500]
    assert common == [[1000, 0, *half], [0, 1000, *half], [*half, 1000, 0], [*half, 0, 1000]]


def test_val_and_test_share_no_image(prepared: Path):
    parts = [
        {image.tobytes() for one in _sets(prepared, part) for image in one["images"]}
        for part in ("val", "test")
    ]
    assert [len(part) for part in parts] == [2000, 2000]
    assert not parts[0] & parts[1]
    assert len({p.name for p in (prepared / "train").iterdir()}) == 2


@pytest.mark.parametrize("part", ["val", "test"])
def test_queries_tell_neither_labels_nor_members(prepared: Path, part: str):
    assert [path.name for path in (prepared / part).iterdir()] == ["inputs.npz"]
    inputs, answers = (
        arrays(prepared / part / "inputs.npz"),
        arrays(prepared / "answers" / part / "answers.npz"),
    )
    assert sorted(inputs) == ["id", "images"]
    assert np.array_equal(inputs["id"], answers["id"])
    assert len(np.unique(inputs["id"])) == 12500
    hidden = [answers["label"], answers["shift"], answers["image"], *answers["member"].T]
    for order in (np.arange(12500), inputs["id"]):
        for column in hidden:
            assert abs(np.corrcoef(order, column)[0, 1]) < 0.03  # three standard errors
    training = {image.tobytes() for one in _sets(prepared, part) for image in one["images"]}
    assert not training & {image.tobytes() for image in inputs["images"]}


@pytest.mark.parametrize("part", ["val", "test"])
def test_answers_say_which_images_were_members(prepared: Path, part: str):
    inputs = arrays(prepared / part / "inputs.npz")["images"]
    answers = arrays(prepared / "answers" / part / "answers.npz")
    plain = answers["shift"] == 0
    assert answers["member"][plain].sum(axis=0).tolist() == [1000] * 4
    for number, one in enumerate(_sets(prepared, part)):
        members = plain & answers["member"][:, number]
        asked, known = inputs[members].astype(np.int16), one["images"].astype(np.int16)
        for query, label in list(zip(asked, answers["label"][members], strict=True))[:20]:
            distance = np.abs(known - query).max(axis=(1, 2))
            assert distance.min() <= dealing.NOISE
            assert one["labels"][distance.argmin()] == label


def test_each_image_is_asked_about_in_every_shift(prepared: Path):
    answers = arrays(prepared / "answers/val/answers.npz")
    inputs = arrays(prepared / "val/inputs.npz")["images"].astype(np.int16)
    place = {
        (i, s): row
        for row, (i, s) in enumerate(zip(answers["image"], answers["shift"], strict=True))
    }
    assert len(place) == 2500 * 5
    for image in range(0, 2500, 100):
        for shift, pixels in enumerate(dealing.SHIFTS):
            moved = np.roll(inputs[place[image, 0]], pixels, axis=(0, 1))
            assert np.abs(moved - inputs[place[image, shift]]).max() <= 2 * dealing.NOISE


# ---------------------------------------------------------------- models are kept apart


def test_no_model_is_given_the_training_part():
    words = [(c["run"].split(), c.get("data", [])) for c in SPEC["commands"]]
    expected = []
    for number in range(4):
        expected += [
            (f"-I feed.py --data {{data}} --out {{out}} --set {number}", ["train", "eval"]),
            (f"train.py --out {{out}} --seed {{seed}} --set {number}", []),
            (f"-I feed.py --data {{data}} --out {{out}} --set {number} --check", ["train", "eval"]),
            ("predict.py --data {data} --out {out}", ["eval"]),
        ]
    expected.append(("-I feed.py --data {data} --out {out} --set 4", ["train", "eval"]))
    assert [(" ".join(run[1:]), data) for run, data in words] == expected
    assert set(SPEC["protected"]) >= {"feed.py", "train.py", "predict.py"}


STATE = {"w": np.ones((196, 20), dtype=np.float32)}


class Stand:
    """The repository and an OUT folder; `feed` runs the protected script as the task does."""

    def __init__(self, prepared: Path, root: Path) -> None:
        self.prepared = prepared
        self.repo, self.out, self.home, self.data = (
            root / name for name in ("repo", "out", "home", "data")
        )
        for folder in (self.repo, self.out, self.home, self.data):
            folder.mkdir()
        (self.data / "train").symlink_to(prepared / "train")
        (self.data / "eval").symlink_to(prepared / "val")
        for path in (TASK / "repo").iterdir():
            if path.is_file():
                (self.repo / path.name).write_bytes(path.read_bytes())

    def feed(self, number: int, *more: str) -> str:
        """Run feed.py; its complaint, or nothing."""
        words = ["--data", str(self.data), "--out", str(self.out), "--set", str(number), *more]
        done = subprocess.run(
            [sys.executable, "-I", "feed.py", *words],
            cwd=self.repo,
            env={"HOME": str(self.home), "TMPDIR": str(self.home), "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode != 0) == bool(done.stderr)
        return done.stderr.strip()

    def trained(self, number: int, **state: np.ndarray) -> str:
        """Begin with a set, leave a state, let it be checked."""
        assert self.feed(number) == ""
        np.savez(self.out / "state.npz", **(state or STATE))
        return self.feed(number, "--check")

    def asked(self, number: int) -> None:
        """Leave answers as predict.py does; each model has its own number in them."""
        logits = np.full((6, 10), number, dtype=np.float32)
        np.savez(self.out / "answers.npz", id=np.arange(6), logits=logits)

    def files(self) -> set[str]:
        return {path.name for path in self.out.iterdir()}


@pytest.fixture
def stand(prepared: Path, tmp_path: Path) -> Stand:
    return Stand(prepared, tmp_path)


def test_a_model_has_its_own_set_then_its_own_state_then_nothing(stand: Stand):
    sets = _sets(stand.prepared, "val")
    for number in range(4):
        assert stand.feed(number) == ""
        given = arrays(stand.out / "members.npz")
        assert np.array_equal(given["images"], sets[number]["images"])
        assert np.array_equal(given["labels"], sets[number]["labels"])
        readable = {n for n in stand.files() if n.endswith(".npz")}
        assert readable == {"members.npz"}
        np.savez(stand.out / "state.npz", **STATE)
        assert stand.feed(number, "--check") == ""
        assert {n for n in stand.files() if n.endswith(".npz")} == {"state.npz"}
        stand.asked(number)
    assert stand.feed(4) == ""
    predictions = arrays(stand.out / "predictions.npz")
    assert predictions["logits"].shape == (4, 6, 10)
    assert predictions["logits"][:, 0, 0].tolist() == [0, 1, 2, 3]


def test_the_sets_follow_the_queries(stand: Stand):
    (stand.data / "eval").unlink()
    (stand.data / "eval").symlink_to(stand.prepared / "test")
    assert stand.feed(0) == ""
    given = arrays(stand.out / "members.npz")["images"]
    assert np.array_equal(given, _sets(stand.prepared, "test")[0]["images"])


def test_locked_answers_cannot_be_read_or_exchanged(stand: Stand):
    for number in range(2):
        assert stand.trained(number) == ""
        stand.asked(number)
    content = (stand.out / "answers.npz").read_bytes()
    assert stand.feed(2) == ""
    locked = stand.out / "answers_1"
    assert content[:16] not in locked.read_bytes()
    assert locked.read_bytes() != (stand.out / "answers_0").read_bytes()
    key = feed.pool_key(_pool(stand.prepared, "val"))
    assert feed.unlock(locked, key) == content
    locked.write_bytes((stand.out / "answers_0").read_bytes())
    with pytest.raises(SystemExit, match="answers_1 was changed"):
        feed.unlock(locked, key)
    with pytest.raises(SystemExit, match="answers_0 was changed"):
        feed.unlock(stand.out / "answers_0", b"another key")


@pytest.mark.parametrize("place", ["out", "home"])
def test_a_file_left_behind_ends_the_evaluation(stand: Stand, place: str):
    assert stand.feed(0) == ""
    np.savez(stand.out / "state.npz", **STATE)
    (getattr(stand, place) / "notes").write_text("members")
    assert "notes" in stand.feed(0, "--check")


def test_a_file_left_while_answering_ends_the_evaluation(stand: Stand):
    assert stand.trained(0) == ""
    stand.asked(0)
    (stand.out / "notes").write_text("queries")
    assert "notes" in stand.feed(1)


@pytest.mark.parametrize("name", ["model.py", "argparse.py"])
def test_a_change_to_the_repository_ends_the_evaluation(stand: Stand, name: str):
    assert stand.feed(0) == ""
    np.savez(stand.out / "state.npz", **STATE)
    (stand.repo / name).write_text("MEMBERS = ...")
    assert "files of the repository changed" in stand.feed(0, "--check")


def test_a_large_state_ends_the_evaluation(stand: Stand):
    assert "are allowed" in stand.trained(0, w=np.zeros(270_000, dtype=np.float32))


def _stored(arrays: list[np.ndarray], prepared: Path) -> int:
    count: int = feed.stored_examples(arrays, _sets(prepared, "val")[0]["images"])
    return count


def test_copies_of_training_images_are_found(prepared: Path):
    images = _sets(prepared, "val")[0]["images"][:100]
    halved = images.reshape(-1, 14, 2, 14, 2).mean(axis=(2, 4))
    assert _stored([images], prepared) == 100
    assert _stored([images.reshape(100, 784).T / 255.0 - 0.5], prepared) == 100
    assert _stored([halved], prepared) == 100
    other = _sets(prepared, "val")[1]["images"]
    assert _stored([other, np.ones((3, 5)), np.arange(784)], prepared) <= feed.CHANCE


def test_a_state_with_training_images_ends_the_evaluation(stand: Stand):
    images = _sets(stand.prepared, "val")[0]["images"][:100]
    assert stand.trained(0, w=images.reshape(100, 784)) == ""
    for number in range(1, 4):
        stand.asked(number - 1)
        assert stand.trained(number) == ""
    stand.asked(3)
    assert "the state holds 100 training images" in stand.feed(4)
    assert "predictions.npz" not in stand.files()


# ---------------------------------------------------------------- grade


def test_auc_counts_ties_half():
    assert grade.auc(np.array([2.0, 3.0]), np.array([0.0, 1.0])) == 1.0
    assert grade.auc(np.array([0.0]), np.array([1.0])) == 0.0
    assert grade.auc(np.array([1.0, 1.0]), np.array([1.0, 0.0])) == 0.75


def test_likelihood_of_the_true_label():
    logits = np.log(np.array([[[[0.2] + [0.0889] * 9]]]))
    probability = grade.likelihood(logits, np.array([0]))
    assert probability.shape == (1, 1, 1)
    assert probability[0, 0, 0] == pytest.approx(0.2 / (0.2 + 9 * 0.0889))
    sure = np.zeros((1, 1, 1, 10))
    sure[..., 1] = 1e6
    assert grade.likelihood(sure, np.array([0]))[0, 0, 0] == 1e-12


def test_dominated_is_the_share_of_the_population_that_is_not_larger():
    got = grade.dominated(np.array([0.5, 1.0, 9.0]), np.array([4.0, 1.0, 2.0, 3.0]))
    assert got.tolist() == [0.0, 0.25, 1.0]


def test_references_are_the_other_pair():
    assert [grade.references(k) for k in range(4)] == [[2, 3], [2, 3], [0, 1], [0, 1]]


@pytest.fixture
def world() -> dict[str, np.ndarray]:
    """400 candidates, then 100 images of the population; logits that know nothing of membership."""
    rng = np.random.default_rng(0)
    label = np.concatenate([np.repeat(np.arange(10), 40), np.repeat(np.arange(10), 10)])
    member = np.zeros((4, 500), dtype=bool)
    for first, cells in ((0, [0, 1]), (2, [0, 2])):
        member[first, :400] = np.isin(np.arange(400) % 4, cells)
        member[first + 1, :400] = ~member[first, :400]
    hard = rng.standard_normal((1, 500, 1, 1))
    evidence = 2.0 * np.eye(10)[label][None, :, None] * (1 + hard)
    logits = evidence + rng.standard_normal((4, 500, 5, 10))
    return {"logits": logits, "label": label, "member": member}


def test_models_that_leak_nothing_have_small_gaps(world: dict[str, np.ndarray]):
    found = grade.judge(**world)
    assert found["auc_gap"] == max(found[name] for name in grade.ATTACKS)
    assert found["auc_gap"] < 0.09  # three standard errors of 200 against 200


def _leaking(world: dict[str, np.ndarray], strength: float) -> np.ndarray:
    """Logits with the true label's raised for members, in all shifts."""
    true = np.eye(10)[world["label"]]
    leak: np.ndarray = world["logits"] + strength * (world["member"][..., None] * true)[:, :, None]
    return leak


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_leak_is_found_in_either_direction(world: dict[str, np.ndarray], sign: float):
    found = grade.judge(**{**world, "logits": _leaking(world, 4.0 * sign)})
    assert all(found[name] > 0.12 for name in grade.ATTACKS)
    assert (found["member_accuracy"] > found["accuracy"]) == (sign > 0)


def test_opposite_leaks_of_two_models_do_not_cancel(world: dict[str, np.ndarray]):
    up, down = _leaking(world, 4.0), _leaking(world, -4.0)
    mixed = np.stack([up[0], down[1], up[2], down[3]])
    assert grade.judge(**{**world, "logits": mixed})["loss"] > 0.12


def test_hiding_the_confidences_does_not_hide_the_labels(world: dict[str, np.ndarray]):
    open_logits = _leaking(world, 4.0)
    masked = 5.0 * (open_logits == open_logits.max(axis=-1, keepdims=True))
    seen, hidden = (grade.judge(**{**world, "logits": x}) for x in (open_logits, masked))
    assert hidden["rmia"] < seen["rmia"]
    assert hidden["label_only"] == seen["label_only"]
    assert hidden["auc_gap"] >= hidden["label_only"] > 0.12
    assert hidden["accuracy"] == seen["accuracy"]


def test_references_take_out_what_is_hard_for_everybody(world: dict[str, np.ndarray]):
    found = grade.judge(**{**world, "logits": _leaking(world, 2.0)})
    assert found["rmia"] > found["loss"]


def test_utility_is_measured_on_images_not_trained_on(world: dict[str, np.ndarray]):
    sign = np.where(world["member"], -1.0, 1.0)[:, :, None, None]
    logits = np.repeat(sign * np.eye(10)[world["label"]][:, None], 5, axis=2)
    found = grade.judge(**{**world, "logits": logits})
    assert found["accuracy"] == 1.0
    assert found["member_accuracy"] == 0.0
    assert found["log_loss"] == pytest.approx(np.log(1 + 9 * np.exp(-1)))


def _handed_in(
    folder: Path, world: dict[str, np.ndarray], **change: np.ndarray
) -> dict[str, float]:
    """Write shuffled rows as prepare and feed do, then grade them."""
    outputs, answers = folder / "outputs", folder / "answers"
    outputs.mkdir()
    answers.mkdir()
    image, shift = np.repeat(np.arange(500), 5), np.tile(np.arange(5), 500)
    order = np.random.default_rng(1).permutation(2500)
    truth = {"image": image[order], "shift": shift[order], "label": world["label"][image][order]}
    member = world["member"].T[image][order]
    np.savez(answers / "answers.npz", id=7 * order, member=member, **truth)
    rows = {"id": 7 * np.arange(2500), "logits": world["logits"].reshape(4, 2500, 10)}
    np.savez(outputs / "predictions.npz", **{**rows, **change})
    found: dict[str, float] = grade.grade(outputs, answers)
    return found


def test_rows_may_come_in_any_order(tmp_path: Path, world: dict[str, np.ndarray]):
    leaking = {**world, "logits": _leaking(world, 3.0)}
    assert _handed_in(tmp_path, leaking) == grade.judge(**leaking)


REFUSED = {
    "a model short": {"logits": np.zeros((3, 2500, 10))},
    "a query short": {"logits": np.zeros((4, 2499, 10)), "id": 7 * np.arange(2499)},
    "a class short": {"logits": np.zeros((4, 2500, 9))},
    "a query twice": {"id": np.r_[0, 7 * np.arange(2499)]},
    "an unknown query": {"id": 7 * np.arange(2500) + 1},
    "NaN": {"logits": np.full((4, 2500, 10), np.nan)},
    "infinite": {"logits": np.full((4, 2500, 10), np.inf)},
    "beyond all bounds": {"logits": np.full((4, 2500, 10), 1e300)},
    "objects": {"logits": np.zeros((4, 2500, 10)).astype(object)},
    "one array more": {"member": np.zeros(4)},
}


@pytest.mark.parametrize("case", REFUSED)
def test_malformed_predictions_are_refused(tmp_path: Path, world: dict[str, np.ndarray], case: str):
    with pytest.raises(InvalidOutput):
        _handed_in(tmp_path, world, **REFUSED[case])


# ---------------------------------------------------------------- repository, ideas, references


def test_the_catalogue_has_every_kind_of_idea():
    assert len(IDEAS) >= 18
    assert {idea.effect for idea in IDEAS} == set(get_args(Effect))
    assert len({idea.category for idea in IDEAS}) >= 6


@pytest.mark.parametrize("idea", IDEAS, ids=lambda idea: idea.id)
def test_an_idea_matches_exactly_once(idea: Idea):
    searches = FILES.searches(idea)
    assert searches
    for search in searches:
        assert ("\n" + TARGETS["model.py"]).count("\n" + search) == 1
    edited = apply_edit(idea.edit, TARGETS)
    assert edited != TARGETS
    assert syntax_error(edited) is None


def test_the_grader_counts_what_the_repository_writes():
    assert feed.SETS == grade.SETS == dealing.SETS


@pytest.mark.parametrize("path", ["repo", "reference/best", "reference/relax_loss"])
def test_a_model_learns_and_is_deterministic(path: str):
    model = FILES.load(f"{path}/model.py")
    model.CONFIG["epochs"] = 15
    rng = np.random.default_rng(0)
    shapes, labels = rng.integers(0, 256, (10, 28, 28)), np.repeat(np.arange(10), 30)
    images = np.clip(shapes[labels] * rng.uniform(0.5, 1.0, (300, 1, 1)), 0, 255).astype(np.uint8)
    first, second = (model.fit(images, labels, np.random.default_rng(1)) for _ in range(2))
    logits = model.predict(first, images)
    assert logits.shape == (300, 10)
    assert np.array_equal(logits, model.predict(second, images))
    assert np.mean(logits.argmax(axis=1) == labels) > 0.4
    assert sum(np.asarray(value).nbytes for value in first.values()) < feed.STATE_BYTES
