"""Attack the models: how well can members be told from non-members by what the models answer?

Trusted; runs outside the sandbox and never imports the candidate's code. Not for training models.

Four models were trained by one procedure on sets of members that come in pairs: the second of a
pair is trained on what the first is not. Each model in turn is the target, and the two of the other
pair are its references; every image is a member of exactly one of the references, whether the
target knows it or not.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fml_hydra.outputs import Spec, align, load_npz

SETS = 4
CLASSES = 10
ATTACKS = ("rmia", "rmia_shifted", "loss", "label_only")
GAMMA = 1.0
"""A population image counts as beaten if the target's likelihood ratio is this times larger."""

Array = NDArray[Any]


def grade(outputs: Path, answers: Path) -> dict[str, float]:
    """`auc_gap` (primary, down) is the largest of the `ATTACKS`' gaps, all of which are reported.

    An attack's gap is |AUC - 0.5| of members against non-members, a mean over the targets. The
    strongest counts: hiding the confidences from one attack does not help against the others.
    `accuracy` and `log_loss` are on the images that a model was not trained on, `member_accuracy`
    on the others; means over models. Reads outputs/predictions.npz: `id` (n,), `logits`
    (SETS, n, 10). Raises InvalidOutput for anything malformed.
    """
    column = Spec((None,), "i")
    truth = load_npz(
        answers / "answers.npz",
        **{name: column for name in ("id", "image", "shift", "label")},
        member=Spec((None, SETS), "b"),
    )
    spec = Spec((SETS, len(truth["id"]), CLASSES), "f", low=-1e6, high=1e6)
    handed_in = load_npz(outputs / "predictions.npz", id=column, logits=spec)
    logits = handed_in["logits"][:, align(handed_in["id"], truth["id"], "predictions.npz")]
    first = truth["shift"] == 0
    by_image = np.lexsort((truth["shift"], truth["image"])).reshape(first.sum(), -1)
    label, member = truth["label"][by_image[:, 0]], truth["member"][by_image[:, 0]].T
    return judge(logits[:, by_image], label, member)


def judge(logits: Array, label: Array, member: Array) -> dict[str, float]:
    """All metrics from logits (SETS, n, shifts, 10), labels (n,) and memberships (SETS, n)."""
    probability = likelihood(logits, label)
    correct = (logits.argmax(axis=-1) == label[:, None]).astype(float)
    candidate = member.any(axis=0)
    gaps: dict[str, list[float]] = {name: [] for name in ATTACKS}
    for target in range(SETS):
        scores = attack(target, probability, correct, population=~candidate)
        for name, score in scores.items():
            members = score[member[target]]
            others = score[candidate & ~member[target]]
            gaps[name].append(abs(auc(members, others) - 0.5))
    found = {name: float(np.mean(values)) for name, values in gaps.items()}
    plain, surprise = correct[:, :, 0], -np.log(probability[:, :, 0])
    return {
        "auc_gap": max(found.values()),
        "accuracy": mean_where(plain, ~member),
        "log_loss": mean_where(surprise, ~member),
        "member_accuracy": mean_where(plain, member),
        **found,
    }


def mean_where(values: Array, chosen: Array) -> float:
    """Mean over models of the mean of each one's chosen images; both (SETS, n)."""
    return float(np.mean([v[c].mean() for v, c in zip(values, chosen, strict=True)]))


def references(target: int) -> list[int]:
    """The two models of the next pair."""
    first = 2 * (target // 2 + 1) % SETS
    return [first, first + 1]


def attack(target: int, probability: Array, correct: Array, population: Array) -> dict[str, Array]:
    """Scores (n,) of each attack on one model, larger for what looks like a member.

    `probability` of the true label and `correct`: (SETS, n, shifts); `population`: (n,) bool.
    rmia: the image's likelihood ratio of target to references, compared with those of the
    population (S. Zarifzadeh, P. Liu and R. Shokri, ICML 2024). rmia_shifted: its mean over the
    image and shifted copies. loss: the probability alone (S. Yeom et al., CSF 2018). label_only:
    how many of the copies are labelled right, less what the references do (C. Choquette-Choo et
    al., ICML 2021); no confidences are needed.
    """
    others = references(target)
    ratio = probability[target] / probability[others].mean(axis=0)
    beaten = np.column_stack([dominated(r, r[population]) for r in ratio.T])
    return {
        "rmia": beaten[:, 0],
        "rmia_shifted": beaten.mean(axis=1),
        "loss": probability[target, :, 0],
        "label_only": (correct[target] - correct[others].mean(axis=0)).mean(axis=1),
    }


def dominated(ratio: Array, population: Array) -> Array:
    """Share of the population (m,) whose ratio is GAMMA times smaller or less, for each of (n,)."""
    return np.searchsorted(np.sort(population), ratio / GAMMA, side="right") / len(population)


def likelihood(logits: Array, label: Array) -> Array:
    """Probability of the true label, (SETS, n, shifts), at least 1e-12."""
    z = logits - logits.max(axis=-1, keepdims=True)
    true = np.take_along_axis(z, label[None, :, None, None], axis=-1)[..., 0]
    return np.maximum(np.exp(true) / np.exp(z).sum(axis=-1), 1e-12)


def auc(positive: Array, negative: Array) -> float:
    """Probability that a positive score exceeds a negative one, ties counted half."""
    ordered = np.sort(negative)
    below = np.searchsorted(ordered, positive, side="left")
    not_above = np.searchsorted(ordered, positive, side="right")
    return float((below + not_above).mean() / (2 * len(negative)))
