"""Which kind of change lies between two texts, and how it is told, rule by rule."""

import pytest

from fml_hydra.analysis.behaviour.classify import classify
from fml_hydra.analysis.behaviour.reach import Repository
from fml_hydra.analysis.behaviour.source import units_of

BASE = '''\
"""A classifier."""

import torch
from torch import nn

CONFIG = {"rate": 0.1, "width": 64}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(8, CONFIG["width"])

    def forward(self, x):
        return self.body(x).relu()


def augment(x):
    return x


def criterion(logits, y):
    return ((logits - y) ** 2).mean()


def learning_rate(epoch):
    return CONFIG["rate"]


def fit(x, y, rng):
    net = Net()
    for epoch in range(10):
        loss = criterion(net(augment(x)), y)
        update(net, loss, learning_rate(epoch))
    return net


def update(net, loss, rate):
    loss.backward()
    for weight in net.parameters():
        weight.data -= rate * weight.grad
'''
RUN = {"run.py": units_of("import model\n\nmodel.fit(1, 2, 3)\n")}
REPOSITORY = Repository(RUN, ("{python} run.py --seed {seed}",))
FIT = "loss = criterion(net(augment(x)), y)"
STEP = "weight.data -= rate * weight.grad"


def found(*edits: tuple[str, str], base: str = BASE):
    text = base
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    return classify({"model.py": base}, {"model.py": text}, REPOSITORY)


@pytest.mark.parametrize(
    ("edits", "kind", "changes"),
    [
        ([('"rate": 0.1', '"rate": 0.5')], "parameter", "constants 1 (rate)"),
        ([('"rate": 0.1', '"rate": 3 * 1e-2, "decay": 0.1')], "parameter", "rate, decay"),
        ([("range(10)", "range(20)")], "parameter", "constants 1 (in fit)"),
        ([('return CONFIG["rate"]', 'return CONFIG["rate"] / (1 + epoch)')], "parameter", ""),
        ([("nn.Linear(8, CONFIG", "nn.Conv1d(8, CONFIG")], "structural", "network"),
        ([("self.body(x).relu()", "torch.tanh(self.body(x))")], "structural", "network"),
        (
            [
                ("    net = Net()\n", "    w = rng.normal(size=(8, 8))\n    net = Net()\n"),
                ("net(augment(x)), y)", "net(augment(x) @ w), y)"),
            ],
            "structural",
            "network",
        ),
        ([("    return x\n", "    return torch.flip(x, [1])\n")], "data", "data pipeline"),
        ([(FIT, f"x = x + 0.1 * torch.randn(x.shape)\n        {FIT}")], "data", "data pipeline"),
        ([(FIT, f"x = x[y > 0]\n        {FIT}")], "data", "data pipeline"),
        ([("** 2).mean()", "** 2).max()")], "objective", "loss"),
        ([(FIT, f"{FIT} + net.penalty()")], "objective", "loss"),
        ([(STEP, f"{STEP}.sign()")], "algorithmic", "statements 1"),
        (
            [(STEP, f"if rate > 0:\n            {STEP}\n            weight.data.clamp_(-1, 1)")],
            "algorithmic",
            "control flow",
        ),
        ([('"""A classifier."""', '"""Text."""  # comment')], "refactoring", "comments"),
        ([("def fit(x, y, rng):", "def fit(x: object, y, rng) -> Net:")], "refactoring", "annot"),
        ([("import torch\n", "import torch\nimport math\n")], "refactoring", "imports"),
        ([("criterion", "objective_of")], "refactoring", "renames"),
        ([("loss = crit", "value = crit"), ("(net, loss, l", "(net, value, l")], "refactoring", ""),
    ],
)
def test_the_kind_and_the_words(edits: list[tuple[str, str]], kind: str, changes: str):
    finding = found(*edits)
    assert finding.kind == kind
    assert changes in finding.changes
    assert finding.unreached == ()


def test_constants_beside_code_do_not_count():
    finding = found(('"rate": 0.1', '"rate": 0.5'), (STEP, f"{STEP}.sign()"))
    assert (finding.kind, finding.changes) == ("algorithmic", "constants 1 (rate); statements 1")


def test_a_part_names_the_change_from_a_third_of_the_statements_on():
    data = f"x = x[y > 0]\n        {FIT}"
    two = "net.train()\n        net.zero_grad()\n        " + data
    three = "net.cpu()\n        " + two
    assert found((FIT, two)).kind == "data"
    assert found((FIT, three)).kind == "algorithmic"


def test_only_definitions_that_nothing_reaches():
    helper = "\n\ndef unused(x):\n    return other(x)\n\n\ndef other(x):\n    return 2 * x\n"
    finding = classify({"model.py": BASE}, {"model.py": BASE + helper}, REPOSITORY)
    assert (finding.kind, finding.unreached) == ("shallow", ("unused", "other"))
    assert finding.changes == "new function 2 (unused, other); unreached 2 (unused, other)"


def test_unreached_definitions_beside_a_change_that_runs():
    helper = "def unused(x):\n    return 2 * x\n\n\ndef augment(x):"
    finding = found(("def augment(x):", helper), ('"rate": 0.1', '"rate": 0.5'))
    assert (finding.kind, finding.unreached) == ("parameter", ("unused",))


def test_a_new_class_is_told_once():
    new = "class Halved(Net):\n    def forward(self, x):\n        return x / 2\n\n\ndef augment"
    finding = found(("def augment", new), ("net = Net()", "net = Halved()"))
    assert finding.kind == "structural"
    assert finding.changes.startswith("new class 1 (Halved);")


@pytest.mark.parametrize("text", ["def f(:\n", "x = (\n", "x = '\0'\n"])
def test_code_that_does_not_parse(text: str):
    finding = classify({"model.py": BASE}, {"model.py": text}, REPOSITORY)
    assert (finding.kind, finding.changes) == (None, "does not parse")


@pytest.mark.parametrize("terms", [100, 200, 300, 2000])
def test_code_that_is_nested_deeply(terms: int):
    text = BASE + "z = " + " + ".join(["CONFIG"] * terms) + "\n"
    finding = classify({"model.py": BASE}, {"model.py": text}, REPOSITORY)
    assert finding.kind in ("algorithmic", None)
    assert finding.kind or finding.changes == "does not parse"


def test_no_change():
    assert found().kind is None


def test_line_ends_are_no_change():
    finding = classify({"model.py": BASE}, {"model.py": BASE.replace("\n", "\r\n")}, REPOSITORY)
    assert finding.kind == "refactoring"


@pytest.mark.parametrize(
    ("path", "before", "after", "changes"),
    [
        ("c.yaml", "a: 1\nb: {c: 2}\n", "a: 1\nb: {c: 3, d: 4}\n", "settings 2 (b.c, b.d)"),
        ("c.json", '{"a": [1]}', '{"a": [2]}', "settings 1 (a)"),
        ("c.toml", "[a]\nb = 1\n", "[a]\nb = 2\n", "settings 1 (a.b)"),
        ("c.ini", "[a]\nb = 1\n", "[a]\nb = 2\n", "settings 1 (a.b)"),
        ("c.yaml", "a: 1\n", "a: [", "settings 1 (c.yaml)"),
    ],
)
def test_settings_files_are_compared_by_keys(path: str, before: str, after: str, changes: str):
    finding = classify({path: before}, {path: after}, REPOSITORY)
    assert (finding.kind, finding.changes) == ("parameter", changes)


def test_a_settings_file_that_is_only_written_otherwise():
    finding = classify({"c.yaml": "a: 1  # one\n"}, {"c.yaml": "{a: 1}\n"}, REPOSITORY)
    assert finding.kind == "refactoring"


def test_text_is_no_code():
    finding = classify({"run.sh": "a"}, {"run.sh": "b"}, REPOSITORY)
    assert (finding.kind, finding.changes) == (None, "texts 1 (run.sh)")
