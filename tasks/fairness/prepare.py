"""Build the COMPAS task: training rows with labels, validation and test rows without.

The rows are ProPublica's two-year file (J. Angwin et al., "Machine Bias", 2016) under their own
filter, kept for the two largest groups as AIF360 does: 5,278 people. Names, dates and the COMPAS
score itself are left out. Not for judging anything: labels of val and test go to `answers`.
"""

import csv
from pathlib import Path

import numpy as np

GROUPS = ("African-American", "Caucasian")
SHARES = {"train": 0.30, "val": 0.35, "test": 0.35}
SPLIT_SEED = 2018


def prepare(sources: dict[str, Path], out: Path) -> None:
    """Write out/train, out/val, out/test and out/answers from `sources["compas"]`, a csv file."""
    rows = read_rows(sources["compas"])
    features = np.array([feature_row(row) for row in rows])
    group = np.array([GROUPS.index(row["race"]) for row in rows])
    label = np.array([int(row["two_year_recid"]) for row in rows])
    # Ids are positions in a shuffled order: they say nothing about a row, and the order of the file
    # (in which neighbours were screened on neighbouring days) is gone.
    order = np.random.default_rng(SPLIT_SEED).permutation(len(rows))
    features, group, label = features[order], group[order], label[order]
    parts = split(group, label)
    save(out / "train/train.npz", parts["train"], features=features, group=group, label=label)
    for part in ("val", "test"):
        save(out / part / "inputs.npz", parts[part], features=features, group=group)
        save(out / "answers" / part / "answers.npz", parts[part], group=group, label=label)


def read_rows(path: Path) -> list[dict[str, str]]:
    """Rows that pass ProPublica's filter and belong to the two groups."""
    with path.open(newline="", encoding="utf-8") as file:
        return [row for row in csv.DictReader(file) if keep(row)]


def keep(row: dict[str, str]) -> bool:
    """ProPublica's filter: a charge within 30 days of the screening, a known outcome and score."""
    delay = row["days_b_screening_arrest"]
    return (
        delay != ""
        and abs(float(delay)) <= 30
        and row["is_recid"] != "-1"
        and row["c_charge_degree"] != "O"
        and row["score_text"] not in ("", "N/A")
        and row["race"] in GROUPS
    )


def feature_row(row: dict[str, str]) -> list[float]:
    """The seven features of a person, in the order of `config.FEATURES` in the repository."""
    counts = ("age", "priors_count", "juv_fel_count", "juv_misd_count", "juv_other_count")
    flags = (row["c_charge_degree"] == "F", row["sex"] == "Male")
    return [float(row[name]) for name in counts] + [float(flag) for flag in flags]


def split(group: np.ndarray, label: np.ndarray) -> dict[str, np.ndarray]:
    """Disjoint row ids of each part, ascending; every part has the same mix of group and label."""
    chosen: dict[str, list[np.ndarray]] = {part: [] for part in SHARES}
    for cell in range(4):
        ids = np.flatnonzero(2 * group + label == cell)
        bounds = np.cumsum([round(share * len(ids)) for share in list(SHARES.values())[:-1]])
        for part, piece in zip(SHARES, np.split(ids, bounds), strict=True):
            chosen[part].append(piece)
    return {part: np.sort(np.concatenate(pieces)) for part, pieces in chosen.items()}


def save(path: Path, ids: np.ndarray, **columns: np.ndarray) -> None:
    """Write the rows `ids` of the columns, and the ids, as plain arrays."""
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path, id=ids, **{name: column[ids] for name, column in columns.items()})
