"""Comparing code: blocks, what can be reached, and what is the same though written otherwise."""

import ast

import pytest

from fml_hydra.analysis.behaviour.change import deltas
from fml_hydra.analysis.behaviour.equivalence import rewritten
from fml_hydra.analysis.behaviour.installed import installed_tasks, repository_of
from fml_hydra.analysis.behaviour.reach import Repository, reached
from fml_hydra.analysis.behaviour.source import MODULE, _parsed, units_of


def names(repository: Repository, **files: str) -> set[str]:
    units = {f"{name}.py": units_of(text) for name, text in files.items()}
    return {name for _, name in reached(repository, units, {("model.py", "fit")}) if name != MODULE}


RUN = Repository(commands=("{python} run.py --out {out}",))


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("def fit(): helper()\ndef helper(): pass\ndef idle(): pass\n", {"fit", "helper"}),
        ("def fit(): return globals()['by_text']()\ndef by_text(): pass\n", {"fit", "by_text"}),
        ("def fit(): pass\nTABLE = {'a': listed}\ndef listed(): pass\n", {"fit", "listed"}),
        ("def fit(): pass\ndef idle(): other()\ndef other(): pass\n", {"fit"}),
        (
            "class A:\n    def __init__(self): self.b()\n    def b(self): pass\n"
            "    def idle(self): pass\n    def forward(self): pass\ndef fit(): A()\n",
            {"fit", "A", "A.__init__", "A.b", "A.forward"},
        ),
        ("class A:\n    def fit(self): pass\n", set()),  # a class that nobody makes
        ("@register\ndef fit(): pass\ndef register(f): return f\n", {"fit", "register"}),
    ],
)
def test_what_is_reached(model: str, expected: set[str]):
    assert names(RUN, run="from model import fit\nfit()\n", model=model) == expected


def test_a_module_that_nothing_imports_does_not_run():
    files = {"run": "import model\nmodel.fit()\n", "model": "def fit(): helper()\n"}
    assert names(RUN, **files, other="def helper(): pass\nhelper()\n") == {"fit"}


def test_a_name_on_the_command_line_is_reached():
    repository = Repository(commands=("{python} ./run.py --algorithm Mine --note 'it",))
    found = names(repository, run="import model\n", model="class Mine: pass\nclass Other: pass\n")
    assert found == {"Mine"}


def test_a_module_may_be_started_by_its_name():
    found = names(Repository(commands=("{python} -m run",)), run="f()\ndef f(): g\n", g="g = 1\n")
    assert found == {"f"}


def test_without_entry_points_what_was_there_runs():
    model = "def fit(): helper()\ndef helper(): pass\ndef idle(): pass\n"
    assert names(Repository(), model=model) == {"fit", "helper"}


def same(old: str, new: str) -> set[str]:
    found = deltas("m.py", units_of(old), units_of(new))
    return {delta.name for delta in rewritten(found)}


OLD = "def f(x, y):\n    return g(x + y) / g(x - y).sum()\n"


@pytest.mark.parametrize(
    "new",
    [
        "def f(x, y):\n    up = g(x + y)\n    return up / g(x - y).sum()\n",
        "def f(a, b):\n    return g(a + b) / g(a - b).sum()\n",
        "def f(x, y):\n    up, down = g(x + y), g(x - y)\n    up /= down.sum()\n    return up\n",
        "def f(x, y):\n    t = {'up': g(x + y), 'down': g(x - y).sum()}\n"
        "    return t['up'] / t['down']\n",
    ],
)
def test_temporaries_do_not_matter(new: str):
    assert same(OLD, new) == {"f"}


def test_a_part_moved_into_a_function_of_its_own():
    loop = (
        "def f(xs, o):\n    for x in xs:\n        z = g(x)\n        d = h(z)\n        o.step(d)\n"
    )
    moved = "def f(xs, o):\n    for x in xs:\n        o.step(both(x))\n"
    helper = "def both(v):\n    z = g(v)\n    return h(z)\n"
    assert same(loop, moved + helper) == {"f", "both"}
    assert same(moved + helper, loop) == {"f", "both"}
    assert same(loop, moved + helper.replace("h(z)", "h(z + z)")) == set()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (OLD, "def f(x, y):\n    return g(x - y) / g(x + y).sum()\n"),
        (OLD, "def f(y, x):\n    return g(x + y) / g(x - y).sum()\n"),
        (
            "def f(p):\n    a = p.sum()\n    p[0] = 1\n    return a\n",
            "def f(p):\n    p[0] = 1\n    return p.sum()\n",
        ),
        (
            "def f(xs):\n    t = 0\n    for x in xs:\n        t = t + x\n    return t\n",
            "def f(xs):\n    for x in xs:\n        t = 0\n        t = t + x\n    return t\n",
        ),
        (
            "def f(xs):\n    a = 1\n    if xs:\n        a = 2\n    return a\n",
            "def f(xs):\n    if xs:\n        a = 1\n        a = 2\n    return a\n",
        ),
        (
            "def f(x):\n    y = 1\n    return [y := 2, y + x]\n",
            "def f(x):\n    return [y := 2, 1 + x]\n",
        ),
        (
            "def f(a):\n    b = a\n    a = 2\n    return a + b\n",
            "def f(a):\n    a = 2\n    b = a\n    return a + b\n",
        ),
    ],
)
def test_what_does_something_else_is_not_the_same(old: str, new: str):
    assert same(old, new) == set()


def test_reading_by_blocks_is_reading_the_whole():
    texts = ['"""Doc\nstring\n"""\nimport a\n\n\n@b(\n    1,\n)\ndef c():\n    """x"""\n']
    texts += [
        "if a:\n    b\nelse:\n    c\n",
        'x = """\ndef f(): pass\n"""\ny = 1\n',
        "",
        "# only\n",
    ]
    texts += ["try:\n    import a\nexcept ImportError:\n    a = None\nfinally:\n    pass\n"]
    texts += ["x = '''\n\"\"\"\n'''\ny = [\n1,\n]\n", "def f():\n    return '\\\n'\nz = 1\n"]
    texts += [text for task in installed_tasks() for text in task.baseline().values()]
    assert len(texts) > 16
    for text in texts:
        whole: dict[str, list[str]] = {MODULE: []}
        for unit in _parsed(text):
            whole.setdefault(unit.name, []).extend(unit.key)
        assert {name: list(unit.key) for name, unit in units_of(text).items()} == whole
        ast.parse(text)


def test_the_repository_of_a_task_is_found_by_its_name():
    known = repository_of("fairness")
    assert "run.py" in known.others
    assert "model.py" not in known.others
    for unknown in ("toy", "../llm/offline", "paper/nothing"):
        assert repository_of(unknown).commands == ()
    shipped = [task.name for task in installed_tasks()]
    assert [name for name in shipped if repository_of(name).commands] == shipped
