"""Grade the scores that were given after the last context: accuracy on all five contexts.

Trusted; runs outside the sandbox and never imports the candidate's code. Not for deciding whether
examples were stored: repo/feed.py looks at what is handed from context to context.
"""

from pathlib import Path

import numpy as np

from fml_hydra.outputs import Spec, align, load_npz

CONTEXTS = ((0, 1), (2, 3), (4, 5), (6, 7), (8, 9))
"""Digits of each context, as in prepare.py."""
CLASSES = 10

_ID = Spec(shape=(None,), kind="i")
_LABEL = Spec(shape=(None,), kind="i", low=0, high=CLASSES - 1)
_SCORES = Spec(shape=(None, CLASSES), kind="f")


def grade(outputs: Path, answers: Path) -> dict[str, float]:
    """Metrics of the final model; `average_accuracy` is the primary one (higher is better).

    Reads outputs/predictions.npz: `id` (n,), `scores` (n, 10), and answers/answers.npz: `id`,
    `label` (n,). Raises InvalidOutput for anything else.
    """
    truth = load_npz(answers / "answers.npz", id=_ID, label=_LABEL)
    handed_in = load_npz(outputs / "predictions.npz", id=_ID, scores=_SCORES)
    rows = align(handed_in["id"], truth["id"], "predictions.npz")
    return score(handed_in["scores"][rows], truth["label"])


def score(scores: np.ndarray, label: np.ndarray) -> dict[str, float]:
    """Metrics of scores (n, 10) given labels (n,); each context has rows.

    Of equal scores the highest class counts as predicted... see `_predicted`.
    """
    raise NotImplementedError
