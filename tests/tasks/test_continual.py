"""The continual-learning task: prepare, what passes between contexts, grade, ideas."""

import hashlib
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from task_files import TaskFiles, arrays, tree_hash

from fml_hydra.edits import apply_edit
from fml_hydra.errors import InvalidOutput
from fml_hydra.ideas import Effect, Idea, load_ideas

ROOT = Path(__file__).parents[2]
FILES = TaskFiles("continual")
TASK = FILES.folder
SPEC = FILES.spec


grade = FILES.load("grade.py")
feed = FILES.load("repo/feed.py")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return FILES.prepare(tmp_path_factory.mktemp("prepared"))


def _contexts(prepared: Path) -> list[dict[str, np.ndarray]]:
    return [arrays(prepared / "train" / f"context_{number}.npz") for number in range(5)]


# ---------------------------------------------------------------- prepare


def test_prepared_bytes_do_not_depend_on_the_run(prepared: Path, tmp_path: Path) -> None:
    hashes = tree_hash(prepared)
    assert len(hashes) == 9
    assert tree_hash(FILES.prepare(tmp_path)) == hashes


def test_a_context_has_its_own_two_digits_only(prepared: Path) -> None:
    for number, context in enumerate(_contexts(prepared)):
        assert sorted(context) == ["images", "labels"]
        own = {2 * number: 300, 2 * number + 1: 300}
        assert dict(zip(*np.unique(context["labels"], return_counts=True), strict=True)) == own


def test_evaluation_inputs_have_no_labels_and_match_the_answers(prepared: Path) -> None:
    seen: set[int] = set()
    for part in ("val", "test"):
        assert [p.name for p in (prepared / part).iterdir()] == ["inputs.npz"]
        inputs = arrays(prepared / part / "inputs.npz")
        answers = arrays(prepared / "answers" / part / "answers.npz")
        assert sorted(inputs) == ["id", "images"]
        np.testing.assert_array_equal(inputs["id"], answers["id"])
        assert np.bincount(answers["label"]).tolist() == [100] * 10
        assert not seen & set(inputs["id"].tolist())
        seen |= set(inputs["id"].tolist())


def test_no_image_is_in_two_parts(prepared: Path) -> None:
    parts = {"train": np.concatenate([c["images"] for c in _contexts(prepared)])}
    for part in ("val", "test"):
        parts[part] = arrays(prepared / part / "inputs.npz")["images"]
    bytes_of = {name: {i.tobytes() for i in images} for name, images in parts.items()}
    assert {k: len(v) for k, v in bytes_of.items()} == {"train": 3000, "val": 1000, "test": 1000}
    assert len(set().union(*bytes_of.values())) == 5000


# ---------------------------------------------------------------- what passes between contexts


class Stream:
    """The repository and an OUT folder; `feed` runs the protected script as the task does."""

    def __init__(self, data: Path, root: Path) -> None:
        self.data, self.repo, self.out, self.home = data, root / "repo", root / "out", root / "home"
        self.repo.mkdir()
        self.out.mkdir()
        self.home.mkdir()
        for path in (TASK / "repo").iterdir():
            if path.is_file():
                (self.repo / path.name).write_bytes(path.read_bytes())

    def feed(self, context: int) -> str:
        """Run feed.py; its complaint, or nothing."""
        words = ["--data", str(self.data), "--out", str(self.out), "--context", str(context)]
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

    def save(self, **state: np.ndarray) -> None:
        """What a learner would leave."""
        for replicate in range(feed.REPLICATES):
            np.savez(self.out / f"state_{replicate}.npz", **state)


def test_commands_alternate_and_no_learner_sees_the_stream() -> None:
    words = [(c["run"].split(), c.get("data", [])) for c in SPEC["commands"]]
    for number in range(5):
        (feeding, given), (learning, seen) = words[2 * number : 2 * number + 2]
        assert (feeding[1:3], given) == (["-I", "feed.py"], ["train"])
        assert (learning[1], seen) == ("learn.py", [])
        assert feeding[-1] == learning[-1] == str(number)
    assert (words[10][0][1:3], words[10][0][-1]) == (["-I", "feed.py"], "5")
    assert [w[0][1] for w in words[11:]] == ["predict.py"]
    assert words[11][1] == ["eval"]
    assert SPEC["protected"] == ["feed.py", "learn.py", "predict.py", "README.md"]


@pytest.fixture
def stream(prepared: Path, tmp_path: Path) -> Stream:
    stream = Stream(prepared, tmp_path)
    assert stream.feed(0) == ""
    stream.save(w=np.ones((784, 20), dtype=np.float32))
    return stream


def test_one_context_is_there_at_a_time(stream: Stream, prepared: Path) -> None:
    for number, context in enumerate(_contexts(prepared)):
        if number:
            assert stream.feed(number) == ""
        given = arrays(stream.out / "context.npz")
        np.testing.assert_array_equal(given["images"], context["images"])
        np.testing.assert_array_equal(given["labels"], context["labels"])
    assert stream.feed(5) == ""
    states = [f"state_{replicate}.npz" for replicate in range(feed.REPLICATES)]
    assert sorted(p.name for p in stream.out.iterdir()) == ["seal", *states]


def _file_beside_the_state(stream: Stream) -> None:
    (stream.out / "more.npy").write_bytes(b"x")


def _link_as_state(stream: Stream) -> None:
    path = stream.out / "state_1.npz"
    path.rename(stream.repo.parent / "elsewhere.npz")
    path.symlink_to(stream.repo.parent / "elsewhere.npz")


def _file_at_home(stream: Stream) -> None:
    (stream.home / ".memory").write_bytes(b"x")


def _file_in_the_repository(stream: Stream) -> None:
    (stream.repo / "numpy.py").write_text("raise SystemExit('not numpy')")


def _learner_that_rewrites_itself(stream: Stream) -> None:
    path = stream.repo / "learner.py"
    path.write_text(path.read_text() + "MEMORY = [0]\n")


def _forged_seal(stream: Stream) -> None:
    _learner_that_rewrites_itself(stream)
    (stream.out / "seal").write_text(hashlib.sha256(b"").hexdigest())


def _state_of_more_than_a_mebibyte(stream: Stream) -> None:
    stream.save(w=np.zeros(2**18, dtype=np.float32))


@pytest.mark.parametrize(
    ("cheat", "complaint"),
    [
        (_file_beside_the_state, "found more.npy"),
        (_link_as_state, "found state_1.npz"),
        (_file_at_home, "found .memory"),
        (_file_in_the_repository, "files of the repository changed"),
        (_learner_that_rewrites_itself, "files of the repository changed"),
        (_forged_seal, "files of the repository changed"),
        (_state_of_more_than_a_mebibyte, "1048576 are allowed"),
    ],
)
def test_nothing_but_the_state_is_carried_on(
    stream: Stream, cheat: Callable[[Stream], None], complaint: str
) -> None:
    cheat(stream)
    assert complaint in stream.feed(1)
    assert not (stream.out / "context.npz").exists()


def _as_they_are(images: np.ndarray) -> np.ndarray:
    return images


def _columns_centred_and_scaled(images: np.ndarray) -> np.ndarray:
    return (images.reshape(len(images), -1).T / 255.0 - 0.13).astype(np.float32)


def _halved_with_channel(images: np.ndarray) -> np.ndarray:
    return images.reshape(-1, 1, 14, 2, 14, 2).mean(axis=(3, 5), dtype=np.float32) / 255.0


@pytest.mark.parametrize("form", [_as_they_are, _columns_centred_and_scaled, _halved_with_channel])
def test_stored_examples_are_found(
    stream: Stream, prepared: Path, form: Callable[[np.ndarray], np.ndarray]
) -> None:
    images = _contexts(prepared)[0]["images"]
    assert feed.stored_examples([form(images[:50])], images) >= 50
    stream.save(memory=form(images[:50]))
    assert "training images; examples must not be stored" in stream.feed(1)


def test_class_statistics_and_noise_are_not_examples(stream: Stream, prepared: Path) -> None:
    context = _contexts(prepared)[0]
    x = context["images"].reshape(600, -1) / 255.0
    means = np.stack([x[context["labels"] == digit].mean(axis=0) for digit in (0, 1)])
    noise = np.random.default_rng(0).standard_normal((100, 784))
    _, _, axes = np.linalg.svd(x - x.mean(axis=0), full_matrices=False)
    assert feed.stored_examples([means, noise, axes[:40]], context["images"]) == 0
    stream.save(means=means.astype(np.float32), axes=axes[:40].astype(np.float32))
    assert stream.feed(1) == ""


# ---------------------------------------------------------------- grade

LABEL = np.arange(10)


def _grade(folder: Path, **handed: np.ndarray) -> dict[str, float]:
    np.savez(folder / "answers.npz", id=100 + np.arange(10), label=LABEL)
    np.savez(folder / "predictions.npz", **handed)
    return grade.grade(folder, folder)


def _scores(predicted: np.ndarray) -> np.ndarray:
    return np.stack([np.eye(10)[predicted]] * 3)


@pytest.mark.parametrize(
    ("predicted", "average", "earlier", "told"),
    [
        (LABEL, 1.0, 1.0, 1.0),
        # everything is 8 or 9, in the right order: forgotten but for the last context
        (np.array([8, 9] * 5), 0.2, 0.0, 0.6),
        (LABEL[::-1], 0.0, 0.0, 0.4),
        (np.array([0, 1, 2, 2, 9, 9, 9, 9, 9, 9]), 0.4, 0.375, 0.6),
    ],
)
def test_accuracies_by_hand(
    tmp_path: Path, predicted: np.ndarray, average: float, earlier: float, told: float
) -> None:
    # where neither digit of the context scores, the lower one counts: right for one of the two
    got = _grade(tmp_path, id=100 + np.arange(10), scores=_scores(predicted))
    want = {"average_accuracy": average, "earlier_accuracy": earlier, "told_context_accuracy": told}
    assert got == pytest.approx(want)


def test_contexts_count_the_same_whatever_their_size() -> None:
    label = np.array([0, 0, 0, 1, 2, 4, 6, 8])
    scores = np.eye(10)[np.array([0, 0, 0, 0, 9, 9, 9, 9])]
    assert grade.score(scores, label)["average_accuracy"] == pytest.approx(0.75 / 5)


def test_replicates_are_averaged_and_rows_may_be_shuffled(tmp_path: Path) -> None:
    scores = np.stack([np.eye(10), np.eye(10), np.eye(10)[::-1]])
    order = np.random.default_rng(0).permutation(10)
    got = _grade(tmp_path, id=100 + order, scores=scores[:, order])
    assert got["average_accuracy"] == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("ids", "scores"),
    [
        (100 + np.arange(9), _scores(LABEL)[:, :9]),
        (np.arange(10), _scores(LABEL)),
        (100 + np.arange(10) // 2, _scores(LABEL)),
        (100 + np.arange(10), _scores(LABEL)[:2]),
        (100 + np.arange(10), _scores(LABEL)[:, :, :9]),
        (100 + np.arange(10), _scores(LABEL) * np.nan),
        (100 + np.arange(10), _scores(LABEL).astype(object)),
        (100 + np.arange(10), _scores(LABEL).astype(complex)),
    ],
    ids=["short", "unknown", "duplicate", "replicates", "classes", "nan", "object", "complex"],
)
def test_malformed_scores_are_refused(tmp_path: Path, ids: np.ndarray, scores: np.ndarray) -> None:
    with pytest.raises(InvalidOutput):
        _grade(tmp_path, id=ids, scores=scores)


# ---------------------------------------------------------------- learner, ideas and references

TARGETS = {"learner.py": (TASK / "repo/learner.py").read_text()}
IDEAS = load_ideas(TASK / "ideas", list(TARGETS))
REFERENCES = ("best", "streaming_lda", "masking")


def test_gradients_of_the_network_are_those_of_its_loss() -> None:
    learner = FILES.load("repo/learner.py")
    rng = np.random.default_rng(0)
    weights = {n: w.astype(np.float64) for n, w in learner.init_weights(rng).items()}
    x, labels = rng.random((6, 784)), np.array([0, 1, 2, 3, 0, 1])
    active = np.arange(10) < 4

    def loss() -> float:
        z = np.where(active, learner.forward(weights, x)[0], -np.inf)
        p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
        return float(-np.log(p[np.arange(6), labels]).mean())

    logits, hidden = learner.forward(weights, x)
    gradient = learner.backward(weights, hidden, learner.loss_gradient(logits, labels, active))
    for name, w in weights.items():
        place = np.unravel_index(np.abs(gradient[name]).argmax(), w.shape)
        w[place] += 1e-6
        above = loss()
        w[place] -= 2e-6
        slope = (above - loss()) / 2e-6
        w[place] += 1e-6
        assert gradient[name][place] == pytest.approx(slope, rel=1e-4)


@pytest.mark.parametrize("folder", ["repo", *(f"reference/{name}" for name in REFERENCES)])
def test_state_is_plain_small_and_repeatable(prepared: Path, folder: str) -> None:
    learner = FILES.load(f"{folder}/learner.py")
    context = {name: array[:60] for name, array in _contexts(prepared)[0].items()}

    def once() -> dict[str, np.ndarray]:
        rng = np.random.default_rng(1)
        return learner.learn(learner.initial_state(rng), context["images"], context["labels"], rng)

    first, second = once(), once()
    assert sum(np.asarray(a).size * 4 for a in first.values()) < feed.STATE_BYTES
    for name, value in first.items():
        assert value.dtype.kind in "fiub"
        np.testing.assert_array_equal(value, second[name])
    assert learner.predict(first, context["images"]).shape == (60, 10)


def test_the_catalogue_is_large_and_varied() -> None:
    assert len(IDEAS) >= 12
    assert {idea.effect for idea in IDEAS} == set(get_args(Effect))


@pytest.mark.parametrize("idea", IDEAS, ids=lambda idea: idea.id)
def test_idea_matches_once_and_stays_python(idea: Idea) -> None:
    searches = FILES.searches(idea)
    assert searches
    for search in searches:
        assert ("\n" + TARGETS["learner.py"]).count("\n" + search) == 1
    edited = apply_edit(idea.edit, TARGETS)
    assert edited != TARGETS
    compile(edited["learner.py"], idea.id, "exec")
