"""From any repository's outputs to metrics by name."""

import json
import math
from pathlib import Path

import pytest

from fml_hydra.errors import InvalidOutput, MissingOutput
from fml_hydra.postprocess import RULES, grade
from fml_hydra.terms import Result

NESTED = '{"cifar10": {"means": {"acc": 0.5}}, "folds": [{"f1": 1}, {"f1": "2e-1"}], "a.b": 3}'
PRINTED = (
    'epoch 1\n{"acc": 0.1}\nnot { json\n{"acc": 0.4, "loss": 2}\n[1]\n{"other": 1}\n{"acc": 0.3}\n'
)
LOG = "epoch, acc ,loss\n1,0.2,3\n2,0.6,2\n3,0.4,\n"
TEXT = "Test accuracy: 0.25 (best)\nTest accuracy: 0.75 (best)\nTest accuracy: 0.5 (best)\n"


def read(folder: Path, text: str, where: str, form: str, **more: str) -> float:
    (folder / "0").write_text(text)
    rule = {"metrics": {"m": where}, "format": form, "take": "last", "delimiter": ",", **more}
    (folder / RULES).write_text(json.dumps([{**rule, "kept": "0", "name": "log"}]))
    return grade(folder, folder)["m"]


@pytest.mark.parametrize(
    ("text", "where", "form", "more", "value"),
    [
        (NESTED, "cifar10.means.acc", "json", {}, 0.5),
        (NESTED, "folds[-1].f1", "json", {}, 0.2),
        (NESTED, "folds[0].f1", "json", {}, 1.0),
        (NESTED, "a.b", "json", {}, 3.0),
        ("[[1, 2], [3, 4]]", "[1][0]", "json", {}, 3.0),
        ('{"c": {"tpr@0.1%": 4, "tpr@0": {"1%": 5}}}', "c.tpr@0.1%", "json", {}, 4.0),
        ('{"p": 1e-70}', "p", "json", {"scale": "-log10"}, 70.0),
        ('[{"p": 1}, {"p": 0.01}]', "[1].p", "json", {"scale": "-log10"}, 2.0),
        (PRINTED, "acc", "json_lines", {}, 0.3),
        (PRINTED, "acc", "json_lines", {"take": "max"}, 0.4),
        (PRINTED, "acc", "json_lines", {"take": "first"}, 0.1),
        (PRINTED, "loss", "json_lines", {}, 2.0),
        (LOG.replace(" ", ""), "acc", "csv", {}, 0.4),
        (LOG.replace(" ", ""), "acc", "csv", {"take": "max"}, 0.6),
        (LOG.replace(" ", ""), "acc", "csv", {"take": "mean"}, 0.4),
        (LOG.replace(" ", ""), "loss", "csv", {}, 2.0),  # an empty cell is none
        ("a;b\n1;2\n", "b", "csv", {"delimiter": ";"}, 2.0),
        (TEXT, r"^Test accuracy: ([0-9.]+)", "regex", {}, 0.5),
        (TEXT, r"^Test accuracy: ([0-9.]+)", "regex", {"take": "min"}, 0.25),
    ],
)
def test_values_by_hand(
    tmp_path: Path, text: str, where: str, form: str, more: dict[str, str], value: float
) -> None:
    assert read(tmp_path, text, where, form, **more) == pytest.approx(value)


def test_what_has_no_logarithm_is_invalid(tmp_path: Path) -> None:
    with pytest.raises(InvalidOutput, match="log: p is 0, which has no logarithm"):
        read(tmp_path, '{"p": 0}', "p", "json", scale="-log10")


@pytest.mark.parametrize(
    ("text", "where", "form"),
    [
        (NESTED, "cifar10.means.f1", "json"),
        (NESTED, "folds[2].f1", "json"),
        (NESTED, "folds.f1", "json"),
        (PRINTED, "f1", "json_lines"),
        ("", "acc", "json_lines"),
        (LOG, "f1", "csv"),
        ("", "acc", "csv"),
        (TEXT, r"f1: ([0-9.]+)", "regex"),
    ],
)
def test_what_is_not_there_is_missing_and_named(
    tmp_path: Path, text: str, where: str, form: str
) -> None:
    with pytest.raises(MissingOutput) as caught:
        read(tmp_path, text, where, form)
    assert str(caught.value) == f"log: nothing found for {where!r} ({form})"


@pytest.mark.parametrize(
    ("text", "where", "form", "reason"),
    [
        ("{", "acc", "json", "log: not JSON"),
        ("[" * 100_000, "acc", "json", "log: not JSON"),
        ('{"acc": true}', "acc", "json", "is not a number but bool"),
        ('{"acc": null}', "acc", "json", "is not a number but NoneType"),
        ('{"acc": [1]}', "acc", "json", "is not a number but list"),
        ('{"acc": "high"}', "acc", "json", "is not a number but 'high'"),
        (f'{{"acc": 1{"0" * 400}}}', "acc", "json", "is not a number but"),
        ("acc\nhigh\n", "acc", "csv", "is not a number but 'high'"),
    ],
)
def test_what_is_no_number_is_invalid(
    tmp_path: Path, text: str, where: str, form: str, reason: str
) -> None:
    with pytest.raises(InvalidOutput) as caught:
        read(tmp_path, text, where, form)
    assert reason in str(caught.value)
    assert not isinstance(caught.value, MissingOutput)


def test_not_a_number_and_infinity_are_left_to_the_harness(tmp_path: Path) -> None:
    assert math.isnan(read(tmp_path, '{"acc": NaN}', "acc", "json"))
    assert read(tmp_path, "acc: inf", "acc: (.*)", "regex") == math.inf


@pytest.mark.parametrize(
    ("metrics", "reason"),
    [
        ({}, "names no metrics"),
        ({"a": "([0-9]+"}, "is no regular expression"),
        ({"a": "[0-9]+"}, "must have one group in parentheses, it has 0"),
        ({"a": "(a)(b)"}, "it has 2"),
    ],
)
def test_rules_that_cannot_work_are_told(metrics: dict[str, str], reason: str) -> None:
    assert reason in Result(metrics, "regex").wrong()
    assert Result({"a": "[0-9]+"}, "csv").wrong() == ""
