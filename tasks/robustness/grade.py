"""Grade a defence: is it right about clean digits, and does the trigger fail to move it?

Trusted; runs in a fresh interpreter that never imports the candidate's code. Not for deciding how
much accuracy on the target class may be lost: that constraint is in the task's YAML.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fml_hydra.outputs import Spec, align, load_npz

CLASSES = 10

_INTEGERS = Spec((None,), "i")
_CLASSES = Spec((None,), "i", low=0, high=CLASSES - 1)

Array = NDArray[Any]


def grade(outputs: Path, answers: Path) -> dict[str, float]:
    """Metrics as shares in 0..1 from `predictions.npz`: `id` (n,) and `prediction` (n,) of 0 to 9.

    `defence_score` (primary, higher is better), the others as in `score`; every study is scored by
    itself, then the mean is taken. Raises InvalidOutput for anything malformed.
    """
    truth = load_npz(
        answers / "answers.npz",
        id=_INTEGERS,
        study=_INTEGERS,
        label=_CLASSES,
        target=_CLASSES,
        triggered=Spec((None,), "b"),
    )
    handed_in = load_npz(outputs / "predictions.npz", id=_INTEGERS, prediction=_CLASSES)
    prediction = handed_in["prediction"][align(handed_in["id"], truth["id"], "predictions.npz")]
    studies = []
    for study in np.unique(truth["study"]):
        own = truth["study"] == study
        facts = {name: truth[name][own] for name in ("label", "target", "triggered")}
        studies.append(score(prediction[own], **facts))
    return {name: float(np.mean([one[name] for one in studies])) for name in studies[0]}


def score(prediction: Array, label: Array, target: Array, triggered: Array) -> dict[str, float]:
    """Metrics of one study; all arrays are (n,).

    clean_accuracy: share of right answers without trigger. attack_success: share of the target
    class among the answers to triggered images of other classes. defence_score: harmonic mean of
    clean_accuracy and 1 - attack_success. triggered_accuracy: share of right answers among those
    same triggered images. target_recall: share of right answers among the images of the target
    class, with or without trigger; a classifier that never answers that class has 0.
    """
    right = prediction == label
    attacked = triggered & (label != target)
    clean = right[~triggered].mean()
    resisted = (prediction[attacked] != target[attacked]).mean()
    return {
        "defence_score": 2 * clean * resisted / max(clean + resisted, 1e-12),
        "clean_accuracy": clean,
        "attack_success": 1 - resisted,
        "triggered_accuracy": right[attacked].mean(),
        "target_recall": right[label == target].mean(),
    }
