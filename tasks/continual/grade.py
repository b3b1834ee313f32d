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
REPLICATES = 3
"""Learners whose scores one evaluation hands in; the same number as in repo/learn.py."""

_ID = Spec(shape=(None,), kind="i")
_LABEL = Spec(shape=(None,), kind="i", low=0, high=CLASSES - 1)


def grade(outputs: Path, answers: Path) -> dict[str, float]:
    """Means over replicates, after the last context; `average_accuracy` is the primary one, up.

    Reads outputs/predictions.npz: `id` (n,), `scores` (replicates, n, 10), and answers/answers.npz:
    `id`, `label` (n,). Raises InvalidOutput for anything else.
    """
    truth = load_npz(answers / "answers.npz", id=_ID, label=_LABEL)
    spec = Spec(shape=(REPLICATES, len(truth["id"]), CLASSES), kind="f")
    handed_in = load_npz(outputs / "predictions.npz", id=_ID, scores=spec)
    rows = align(handed_in["id"], truth["id"], "predictions.npz")
    replicates = [score(scores[rows], truth["label"]) for scores in handed_in["scores"]]
    return {name: float(np.mean([one[name] for one in replicates])) for name in replicates[0]}


def score(scores: np.ndarray, label: np.ndarray) -> dict[str, float]:
    """Metrics of one replicate: scores (n, 10), labels (n,); every context must have rows.

    average_accuracy: share of rows whose highest score is the right one of ten, in each context;
    the mean over contexts. earlier_accuracy: the mean over all contexts but the last.
    told_context_accuracy: as the first, but only the two digits of a row's own context compete; its
    lead over the first is what cannot be told apart across contexts, not lost within them.
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
