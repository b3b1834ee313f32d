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


def grade(outputs: Path, answers: Path) -> dict[str, float]:
    """Metrics of the model after the last context; `average_accuracy` is the primary one, up.

    Reads outputs/predictions.npz: `id` (n,), `scores` (n, 10), and answers/answers.npz: `id`,
    `label` (n,). Raises InvalidOutput for anything else.
    """
    truth = load_npz(answers / "answers.npz", id=_ID, label=_LABEL)
    spec = Spec(shape=(len(truth["id"]), CLASSES), kind="f")
    handed_in = load_npz(outputs / "predictions.npz", id=_ID, scores=spec)
    rows = align(handed_in["id"], truth["id"], "predictions.npz")
    return score(handed_in["scores"][rows], truth["label"])


def score(scores: np.ndarray, label: np.ndarray) -> dict[str, float]:
    """Metrics of scores (n, 10) given labels (n,); every context must have rows.

    average_accuracy: share of rows whose highest score is the right one of ten, in each context, and
    the mean over contexts; earlier_accuracy: the mean over all contexts but the last;
    told_context_accuracy: the same as the first, but only the two digits of the row's own context
    compete. The gap to it is what the model cannot tell apart across contexts, not forgetting within
    them.
    """
    accuracy, told = [], []
    for context in CONTEXTS:
        own = np.isin(label, context)
        digits = np.array(context)
        accuracy.append(np.mean(scores[own].argmax(axis=1) == label[own]))
        told.append(np.mean(digits[scores[own][:, digits].argmax(axis=1)] == label[own]))
    return {
        "average_accuracy": float(np.mean(accuracy)),
        "earlier_accuracy": float(np.mean(accuracy[:-1])),
        "told_context_accuracy": float(np.mean(told)),
    }
