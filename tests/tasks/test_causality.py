"""The IHDP task: what prepare promises, what grade computes and refuses, ideas, references."""

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import yaml

from fml_hydra.data import Source, fetch
from fml_hydra.edits import apply_edit
from fml_hydra.errors import DataError, InvalidOutput
from fml_hydra.hashing import tree_hash
from fml_hydra.ideas import load_ideas
from fml_hydra.resources import cache_dir, conf_dir

TASK = Path(__file__).parents[2] / "tasks" / "causality"
TARGETS = ("dragonnet.py", "training.py")
BINARY = ["sex", "twin", "b.marr", "mom.lths", "mom.hs", "mom.scoll", "cig", "first", "booze"]
BINARY += ["drugs", "work.dur", "prenatal", *(f"site{i}" for i in range(1, 9))]
BINARY += ["momwhite", "momblack", "momhisp"]


def _load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"causality_{name}", TASK / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


prepare = _load("prepare")
grade = _load("grade")


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A made-up file in the raw file's format: 600 units, treated first; needs no network."""
    rng = np.random.default_rng(0)
    treat = np.repeat([1, 0], [200, 400])
    continuous = rng.normal(50, 10, size=(600, len(prepare.CONTINUOUS)))
    binary = rng.integers(0, 2, size=(600, len(BINARY)))
    path = tmp_path_factory.mktemp("raw") / "sim.csv"
    header = ",".join(["treat", *prepare.CONTINUOUS, *BINARY])
    table = np.column_stack([treat, continuous, binary])
    np.savetxt(path, table, fmt="%.10g", delimiter=",", header=header, comments="")
    return path


@pytest.fixture(scope="module")
def prepared(raw: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("prepared")
    prepare.prepare({"ihdp": raw}, out)
    return out


def _arrays(path: Path) -> dict[str, np.ndarray]:
    with np.load(path) as data:
        return {name: data[name] for name in data.files}


# ---------------------------------------------------------------- prepare


def test_prepared_bytes_do_not_depend_on_the_run(raw: Path, prepared: Path, tmp_path: Path) -> None:
    prepare.prepare({"ihdp": raw}, tmp_path)
    assert tree_hash(tmp_path) == tree_hash(prepared)


def test_parts_hold_only_the_promised_arrays(prepared: Path) -> None:
    found = {
        str(path.relative_to(prepared)): sorted(_arrays(path))
        for path in prepared.rglob("*")
        if path.is_file()
    }
    assert found == {
        "train/train.npz": ["id", "t", "x", "y"],
        "val/inputs.npz": ["id", "x"],
        "test/inputs.npz": ["id", "x"],
        "answers/val/answers.npz": ["effect", "id"],
        "answers/test/answers.npz": ["effect", "id"],
    }


def test_no_unit_is_in_two_parts(prepared: Path, raw: Path) -> None:
    parts = [
        _arrays(prepared / name)
        for name in ("train/train.npz", "val/inputs.npz", "test/inputs.npz")
    ]
    ids = np.concatenate([part["id"] for part in parts])
    units = {row.tobytes() for part in parts for row in part["x"]}
    kept = len(prepare.read_covariates(raw)[0])
    assert len(ids) == len(set(ids.tolist())) == len(units) == kept
    assert [len(part["id"]) for part in parts[1:]] == [125, 125]


def test_answers_belong_to_the_inputs_of_their_split(prepared: Path) -> None:
    for split in ("val", "test"):
        answers = _arrays(prepared / "answers" / split / "answers.npz")
        np.testing.assert_array_equal(answers["id"], _arrays(prepared / split / "inputs.npz")["id"])
        assert answers["effect"].shape == (125, 5)
        assert (answers["effect"].std(axis=0) > 0).all()


def test_row_order_does_not_tell_the_treatment(prepared: Path) -> None:
    t = _arrays(prepared / "train" / "train.npz")["t"]
    assert (np.diff(t) != 0).sum() > t.sum() / 2  # sorted rows would change once


def test_treated_children_of_non_white_mothers_are_left_out(raw: Path) -> None:
    table = np.loadtxt(raw, delimiter=",", skiprows=1)
    treat, white = table[:, 0], table[:, 1 + len(prepare.CONTINUOUS) + BINARY.index("momwhite")]
    x, treated = prepare.read_covariates(raw)
    assert x.shape == (600 - int((treat * (1 - white)).sum()), 25)
    assert treated.sum() == (treat * white).sum()
    np.testing.assert_allclose(x[:, :6].mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(x[:, :6].std(axis=0, ddof=1), 1, atol=1e-5)
    assert set(np.unique(x[:, 6:])) == {0.0, 1.0}


def test_surface_has_the_stated_effect_on_the_treated_and_unit_noise() -> None:
    rng = np.random.RandomState(5)
    x, treated = rng.normal(size=(4000, 25)) * 0.5, rng.randint(0, 2, 4000)
    y, effect = prepare.draw_replicate(x, treated, rng)
    assert effect[treated == 1].mean() == pytest.approx(4.0, abs=1e-5)
    # the treated mean is linear in x, so least squares leaves the noise alone
    design = np.column_stack([np.ones(len(x)), x])[treated == 1]
    fit = np.linalg.lstsq(design, y[treated == 1], rcond=None)
    residual = y[treated == 1] - design @ fit[0]
    assert residual.std() == pytest.approx(1.0, abs=0.06)


def test_the_real_covariates(tmp_path: Path) -> None:
    task = yaml.safe_load((conf_dir() / "task" / "causality.yaml").read_text())
    try:  # no origins: only the cache is asked, so that the test never waits for a network
        path, _ = fetch("ihdp", Source(task["sources"]["ihdp"]["sha256"], ()), cache_dir())
    except DataError:
        pytest.skip("the raw file is not in the cache; `tasks prepare causality` puts it there")
    prepare.prepare({"ihdp": path}, tmp_path)
    train = _arrays(tmp_path / "train" / "train.npz")
    assert train["x"].shape == (497, 25)
    assert train["y"].shape == (497, 5)
    assert prepare.read_covariates(path)[1].sum() == 139  # Hill (2011): 139 treated of 747


# ---------------------------------------------------------------- grade

IDS = np.array([3, 7])
EFFECT = np.array([[1.0, 2.0], [3.0, -2.0]])
"""Two units, two replicates."""


def _grade(folder: Path, **handed: np.ndarray) -> dict[str, float]:
    np.savez(folder / "answers.npz", id=IDS, effect=EFFECT)
    np.savez(folder / "effects.npz", **handed)
    return grade.grade(folder, folder)


def test_errors_by_hand(tmp_path: Path) -> None:
    # errors by replicate: (3, -4) and (1, 0)
    handed = EFFECT + np.array([[3.0, 1.0], [-4.0, 0.0]])
    assert _grade(tmp_path, id=IDS, effect=handed) == pytest.approx(
        {"mae": 8 / 4, "pehe": (12.5**0.5 + 0.5**0.5) / 2, "ate_error": (0.5 + 0.5) / 2}
    )


def test_the_truth_has_no_error_in_any_row_order(tmp_path: Path) -> None:
    got = _grade(tmp_path, id=IDS[::-1], effect=EFFECT[::-1])
    assert got == {"mae": 0.0, "pehe": 0.0, "ate_error": 0.0}


@pytest.mark.parametrize(
    ("ids", "effect", "reason"),
    [
        (IDS[:1], EFFECT[:1], "shape"),
        (np.array([3, 3]), EFFECT, "duplicated"),
        (np.array([3, 8]), EFFECT, "missing"),
        (IDS, EFFECT[:, :1], "shape"),
        (IDS, EFFECT[:, 0], "shape"),
        (IDS, np.where(EFFECT > 2, np.nan, EFFECT), "NaN"),
        (IDS, np.where(EFFECT > 2, np.inf, EFFECT), "infinite"),
        (IDS, EFFECT + 1e300, "above"),
        (IDS, EFFECT * -1e7, "below"),
        (IDS, EFFECT.astype(object), "plain arrays"),
        (IDS.astype(float), EFFECT, "kind"),
    ],
    ids=["short", "twice", "unknown", "few", "flat", "nan", "inf", "high", "low", "object", "kind"],
)
def test_malformed_effects_are_refused(
    tmp_path: Path, ids: np.ndarray, effect: np.ndarray, reason: str
) -> None:
    with pytest.raises(InvalidOutput, match=reason):
        _grade(tmp_path, id=ids, effect=effect)


def test_missing_effects_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "answers.npz", id=IDS, effect=EFFECT)
    with pytest.raises(InvalidOutput):
        grade.grade(tmp_path, tmp_path)


# ---------------------------------------------------------------- ideas and references

PRISTINE = {name: (TASK / "repo" / name).read_text() for name in TARGETS}
IDEAS = load_ideas(TASK / "ideas", TARGETS)


def test_the_catalogue_is_large_and_varied() -> None:
    assert len(IDEAS) >= 12
    assert {idea.effect for idea in IDEAS} == {"good", "neutral", "harmful", "shallow", "crash"}
    wanted = {"algorithmic", "structural", "parameter", "data"}
    assert wanted <= {idea.category for idea in IDEAS if idea.effect == "good"}


@pytest.mark.parametrize("idea", IDEAS, ids=lambda idea: idea.id)
def test_idea_applies_and_stays_python(idea) -> None:
    edited = apply_edit(idea.edit, PRISTINE)
    assert edited != PRISTINE
    for name, source in edited.items():
        compile(source, name, "exec")


@pytest.mark.parametrize("idea", IDEAS, ids=lambda idea: idea.id)
def test_searches_match_whole_lines_once(idea) -> None:
    text = (TASK / "ideas" / f"{idea.id}.md").read_text()
    for part in text.split("### FILE: ")[1:]:
        name, _, blocks = part.partition("\n")
        for block in blocks.split("<<<<<<< SEARCH\n")[1:]:
            search = block.split("=======\n")[0]
            assert f"\n{PRISTINE[name]}".count(f"\n{search}") == 1


def test_references_are_whole_target_files_that_differ() -> None:
    methods = sorted((TASK / "reference").iterdir())
    assert len(methods) >= 2
    assert methods[0].name == "best"
    for method in methods:
        files = {name: (method / name).read_text() for name in TARGETS}
        assert files != PRISTINE
        assert "def estimate_effects(" in files["training.py"]
        for name, source in files.items():
            compile(source, name, "exec")
