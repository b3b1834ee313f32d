"""Mutations: which constants count as knobs, and what they may become."""

import ast

from hypothesis import given
from hypothesis import strategies as st

from fml_hydra.llm.program.mutate import mutations

CODE = '''"""Docstring with 0.5 and 3 epochs."""

CONFIG = {"lr": 1e-3, "layers": 1, "drop": 0.4, "seed": 7, "é": "ß", "width": 64}
AXIS = 0
table = [2.5, 0]


def act(name="relu", big=True):
    """Another 0.25."""
    if name == "relu" or name == "tanh":
        return f"{name:>10} {3.5}", table[2], -1
    return 2.0**3 if len(name) == 12 else -0.75


@dataclass(frozen=True, order=False)
class Net:
    momentum: float = 0.9

    def fit(self, x, *, p=0.5, dim=2):
        return act(big=False), x.sum(axis=1), self.loss(x > 0.1, 128) + 1e-8
'''


def new_values(code: str, path: str = "m.py") -> dict[tuple[str, str], list[str]]:
    """(name, old value) -> new values."""
    found: dict[tuple[str, str], list[str]] = {}
    for m in mutations({path: code}):
        found.setdefault((m.label.rsplit("_", 1)[0].removeprefix("mutate_"), m.old), []).append(
            m.new
        )
    return found


def test_the_knobs_of_a_file():
    assert set(new_values(CODE)) == {
        *(("lr", "1e-3"), ("layers", "1"), ("drop", "0.4"), ("width", "64"), ("table", "2.5")),
        *(("name", '"relu"'), ("big", "True"), ("act", "2.0"), ("act", "0.75")),
        *(("momentum", "0.9"), ("p", "0.5"), ("big", "False"), ("loss", "0.1"), ("loss", "128")),
    }


def test_what_they_may_become():
    new = new_values(CODE)
    assert new["lr", "1e-3"] == ["0.002", "0.0005", "0.003", "0.000333", "0.01", "0.0001"]
    assert new["layers", "1"] == ["2", "3", "10"]
    assert new["width", "64"] == ["128", "32", "192", "21", "6"]
    assert all(0 < float(value) < 1 for value in new["drop", "0.4"] + new["p", "0.5"])
    assert {"0.95", "0.8", "0.99"} < set(new["momentum", "0.9"])
    assert all(0 < float(value) < 1 for value in new["momentum", "0.9"])
    assert new["name", '"relu"'] == ["'tanh'"]
    assert (new["big", "True"], new["big", "False"]) == (["False"], ["True"])


def test_choices_of_a_table():
    code = 'ACTS = {"relu": f, "gelu": g}\n\ndef f(act="relu", b="relu"):\n    return ACTS[act]\n'
    assert new_values(code) == {("act", '"relu"'): ["'gelu'"]}


def test_yaml_and_json():
    yaml = "lr: 0.1  # rate\nepochs: 20\nseed: 3\nuse: true\nname: v1.5\nversion: 2\nratio: -0.5\n"
    assert set(new_values(yaml, "c.yaml")) == {
        ("lr", "0.1"),
        ("epochs", "20"),
        ("use", "true"),
        ("ratio", "0.5"),
    }
    json = '{\n  "lr": 0.1,\n  "use": false\n}\n'
    assert new_values(json, "c.json")["use", "false"] == ["true"]


def test_applying_changes_one_place_and_labels_are_unique():
    files = {"m.py": CODE, "c.yaml": "lr: 0.1\n"}
    found = mutations(files)
    assert len({m.label for m in found}) == len(found)
    for m in found:
        after = m.applied(files)
        assert [path for path in files if after[path] != files[path]] == [m.path]
        assert after[m.path].split("\n")[m.line - 1] != files[m.path].split("\n")[m.line - 1]
        assert files[m.path].split("\n")[m.line - 1].strip() == m.quote
        ast.parse(after["m.py"])


def test_files_that_cannot_be_read_have_no_mutations():
    assert mutations({"a.py": "x = (1.5", "b.py": "x = 1.5\0", "c.py": "-" * 5_000 + "2.5"}) == ()


@given(st.one_of(st.floats(), st.integers()), st.sampled_from(["lr", "p", "dropout", "épsilon"]))
def test_numbers_stay_numbers_of_their_kind(value, name):
    for m in mutations({"m.py": f"{name} = {value!r}\n"}):
        old, new = ast.literal_eval(m.old), ast.literal_eval(m.new)
        assert type(new) is type(old)
        assert new != old
        assert new > 0
        assert not isinstance(new, int) or new >= 1
        assert not (name in ("p", "dropout") and old <= 1) or new <= 1


@given(st.text(), st.sampled_from(["m.py", "m.yaml"]))
def test_any_text_can_be_asked_for_mutations(text, path):
    for m in mutations({path: text}):
        assert text[m.start : m.start + len(m.old)] == m.old
