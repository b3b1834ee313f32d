"""Values as people read them, on the page and in LaTeX."""

import math
import re

import pandas as pd
import pytest

from fml_hydra.report.formats import duration, joined, number, plural, slug, strong, texts
from fml_hydra.report.latex import escaped, latex
from fml_hydra.report.parts import Column, Table

NAN = math.nan


def shown(values, kind, **more):
    frame = pd.DataFrame({"x": values, "why": [""] * len(values)})
    return [row[0] for row in texts(Table("t", "", frame, [Column("x", "x", kind, **more)]))]


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        ("number", [0.5, 0.12345, NAN], ["0.5000", "0.1235", "N/A"]),
        ("number", [12.5, -0.25], ["12.50", "−0.25"]),
        ("number", [123456.0, 2.0], ["123,456", "2"]),
        ("number", [0.0, -0.0], ["0.00", "0.00"]),
        ("signed", [0.5, -0.5], ["+0.5000", "−0.5000"]),
        ("count", [3, 12345.0], ["3", "12,345"]),
        ("percent", [0.125, -1e-9], ["12.5%", "0.0%"]),
        ("p", [0.0121, 0.00001, 0.0], ["0.0121", "< 0.0001", "< 0.0001"]),
        ("each", [5450000.0, 24.66, 0.2254], ["5,450,000", "24.66", "0.2254"]),
        ("text", ["a", ""], ["a", ""]),
    ],
)
def test_how_values_are_written(kind, values, expected):
    assert shown(values, kind) == expected


def test_why_there_is_no_value_stands_in_its_place():
    frame = pd.DataFrame({"r": [0.5, NAN, NAN], "why": ["", "n = 2 is less than 3", ""]})
    table = Table("t", "", frame, [Column("r", "r", "signed", reason="why")])
    assert [row[0] for row in texts(table)] == ["+0.5000", "undefined: n = 2 is less than 3", "N/A"]


def test_the_best_of_a_column_is_marked_ties_included():
    frame = pd.DataFrame({"a": [1.0, 3.0, 3.0, NAN], "b": [1.0, 3.0, 3.0, NAN]})
    columns = [Column("a", "a", "number", best="high"), Column("b", "b", "number", best="low")]
    assert strong(Table("t", "", frame, columns)) == [
        [False, True],
        [True, False],
        [True, False],
        [False, False],
    ]


def test_words():
    assert (plural(1, "run"), plural(1200, "run")) == ("1 run", "1,200 runs")
    assert joined(["a", "b", "c"]) == "a, b and c"
    assert (joined(["a"]), joined([])) == ("a", "")
    assert (duration(41.2), duration(192.0), duration(18000.0)) == ("41.2 s", "3.2 min", "5.0 h")
    assert (number(-0.5), number(NAN), number(12.0)) == ("−0.5", "N/A", "12")


def test_names_of_files_stay_apart():
    assert slug("lift_2-a") == "lift_2-a"
    hostile = ["../a", "a/b", "a b", 'a"b', "a&b", "\u6f22"]
    assert len({slug(name) for name in hostile}) == len(hostile)
    assert all(re.fullmatch(r"[A-Za-z0-9_-]+", slug(name)) for name in hostile)


def test_latex_is_escaped_and_has_the_rules_of_booktabs():
    hostile = r"50% & $x_1$ #{\input{/etc/passwd}}~^<>|"
    frame = pd.DataFrame({"name": [hostile, "ai_scientist"], "x": [-1.0, 2.0]})
    columns = [Column("name", "an_agent"), Column("x", "x", "number", best="high")]
    text = latex(Table("a_table", "Cost in $ & more", frame, columns, note="100%"))
    assert r"\input" not in text
    assert r"50\% \& \$x\_1\$ \#\{\textbackslash{}input\{/etc/passwd\}\}" in text
    assert r"ai\_scientist & \textbf{2.000} \\" in text
    assert "$-$1.000" in text
    assert r"\begin{tabular}{lr}" in text
    assert [text.count(rule) for rule in (r"\toprule", r"\midrule", r"\bottomrule")] == [1, 1, 1]
    assert r"\label{tab:a-table}" in text
    assert text.count("{") == text.count("}")
    assert escaped("0.83 ± 0.27 · ρ") == r"0.83 $\pm$ 0.27 $\cdot$ $\rho$"
