"""Train backbones on digits 5 to 9; cut few-shot episodes of digits 0 to 4 from their features.

Trusted; runs once, outside the sandbox. Not for grading. The backbones are small convolutional
networks trained as prototypical networks (Snell, Swersky and Zemel, NeurIPS 2017). Only their
features leave this file: a step then needs NumPy alone, and no images or outside digits can be
matched with them. All draws come from one fixed seed, and one thread trains, so one machine always
prepares the same bytes; other machines round differently, hence several backbones.
"""

import gzip
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

Array = NDArray[Any]

SEED = 20170315
BACKBONES = 4
EPISODES = 150
"""Episodes for each backbone, in val and in test."""
WAYS = 5
QUERIES = 15
"""Query images of each class in an episode; with one support image of each class."""
SEEN = 400
"""Images of each base digit that train the backbones; the others are base images they never saw."""
CHANNELS = (32, 64)
EPOCHS = 4
SHOTS, BATCH_PER_CLASS = 4, 16
LEARNING_RATE = 0.002


@dataclass(frozen=True)
class Digits:
    """The raw data."""

    images: Array
    """(n, 14, 14) float32 in 0..1, means of 2 x 2 pixels."""
    labels: Array
    """(n,) int64."""

    def rows(self, digit: int, rng: np.random.Generator) -> Array:
        """Row numbers of one digit, in random order."""
        return rng.permutation(np.flatnonzero(self.labels == digit))


def prepare(sources: dict[str, Path], out: Path) -> None:
    """Write train/, val/, test/ and answers/ from `sources["digits"]` (mnist_5k.csv.gz)."""
    torch.set_num_threads(1)
    rng = np.random.default_rng(SEED)
    digits = read(sources["digits"])
    base = np.stack([digits.rows(digit, rng) for digit in range(WAYS, 2 * WAYS)])
    novel = np.stack([digits.rows(digit, rng) for digit in range(WAYS)])
    features = np.stack([backbone_features(digits, base[:, :SEEN], rng) for _ in range(BACKBONES)])
    write_base(out, features, base, rng)
    half = novel.shape[1] // 2
    write_episodes(out, "val", features, novel[:, :half], 0, rng)
    write_episodes(out, "test", features, novel[:, half:], BACKBONES * EPISODES, rng)


def read(path: Path) -> Digits:
    """The table of 784 pixels and a label per row."""
    with gzip.open(path, "rt") as lines:
        table = np.loadtxt(lines, delimiter=",", dtype=np.uint8)
    pixels = table[:, :-1].reshape(-1, 14, 2, 14, 2).mean(axis=(2, 4), dtype=np.float32)
    return Digits(pixels / np.float32(255), table[:, -1].astype(np.int64))


# ---------------------------------------------------------------- backbones


def backbone_features(digits: Digits, seen: Array, rng: np.random.Generator) -> Array:
    """Features of all images, (n, channels, 3, 3) float16, from a backbone trained on rows `seen`.

    `seen` is (classes, images). Half precision loses far less than the backbones differ.
    """
    torch.manual_seed(int(rng.integers(2**31)))
    images = torch.from_numpy(digits.images)[:, None]
    network = build_network()
    optimiser = torch.optim.Adam(network.parameters(), LEARNING_RATE)
    for _ in range(EPOCHS):
        shuffled = rng.permuted(seen, axis=1)
        for start in range(0, seen.shape[1] - BATCH_PER_CLASS + 1, BATCH_PER_CLASS):
            rows = torch.from_numpy(shuffled[:, start : start + BATCH_PER_CLASS])
            loss = prototypical_loss(network(images[rows.flatten()]), len(seen))
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    network.eval()
    with torch.no_grad():
        maps = torch.cat([network(part) for part in images.split(500)])
    return maps.numpy().astype(np.float16)


def build_network() -> nn.Module:
    """Convolution blocks, (n, 1, 14, 14) -> (n, 64, 3, 3)."""
    layers: list[nn.Module] = []
    for before, after in zip((1, *CHANNELS), CHANNELS, strict=False):
        layers += [nn.Conv2d(before, after, kernel_size=3, padding=1), nn.BatchNorm2d(after)]
        layers += [nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*layers)


def prototypical_loss(maps: Tensor, classes: int) -> Tensor:
    """Loss of Snell et al., equation 2, of maps grouped by class; the first SHOTS are support."""
    vectors = maps.mean(dim=(2, 3)).view(classes, -1, maps.shape[1])
    prototypes, queries = vectors[:, :SHOTS].mean(dim=1), vectors[:, SHOTS:]
    target = torch.arange(classes).repeat_interleave(queries.shape[1])
    offsets = queries.flatten(0, 1)[:, None] - prototypes[None]
    return F.cross_entropy(-offsets.pow(2).sum(dim=2), target)


# ---------------------------------------------------------------- files


def write_base(out: Path, features: Array, base: Array, rng: np.random.Generator) -> None:
    """train/base.npz: features, labels 0..4 for digits 5..9, and which images were trained on."""
    order = rng.permutation(base.size)
    label, place = np.divmod(order, base.shape[1])
    folder = out / "train"
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(
        folder / "base.npz",
        features=features[:, base.flatten()[order]],
        label=label.astype(np.int64),
        seen=place < SEEN,
    )


def write_episodes(
    out: Path, part: str, features: Array, rows: Array, first_id: int, rng: np.random.Generator
) -> None:
    """<part>/inputs.npz and its answers. `rows` is (classes, images) of this part.

    Classes take another way (0..4) in each episode, and images stand in another order for each
    backbone, so that no number in the inputs means the same thing twice.
    """
    orders = [rng.permutation(rows.flatten()) for _ in range(BACKBONES)]
    position = np.zeros(features.shape[1], dtype=np.int64)
    inputs: dict[str, list[Array]] = {"support": [], "query": [], "backbone": []}
    answers: dict[str, list[Array]] = {"way": [], "image": [], "digit": [], "backbone": []}
    for backbone, order in enumerate(orders):
        position[order] = np.arange(len(order))
        for _ in range(EPISODES):
            digit, support, query, way = draw_episode(rows, rng)
            _append(inputs, support=position[support], query=position[query], backbone=backbone)
            _append(answers, way=way, image=query, digit=digit, backbone=backbone)
    ids = first_id + np.arange(BACKBONES * EPISODES)
    for folder in (out / part, out / "answers" / part):
        folder.mkdir(parents=True, exist_ok=True)
    maps = np.stack([features[b, order] for b, order in enumerate(orders)])
    np.savez(out / part / "inputs.npz", id=ids, features=maps, **_stacked(inputs))
    np.savez(out / "answers" / part / "answers.npz", id=ids, **_stacked(answers))


def draw_episode(rows: Array, rng: np.random.Generator) -> tuple[Array, Array, Array, Array]:
    """Digit of each way (5,), support rows (5,), query rows (75,) shuffled, true ways (75,)."""
    digit = rng.permutation(len(rows))
    drawn = np.stack([rng.choice(rows[d], QUERIES + 1, replace=False) for d in digit])
    order = rng.permutation(len(rows) * QUERIES)
    way = np.repeat(np.arange(len(rows)), QUERIES)[order]
    return digit, drawn[:, 0], drawn[:, 1:].flatten()[order], way


def _append(columns: dict[str, list[Array]], **values: Array | int) -> None:
    for name, value in values.items():
        columns[name].append(np.asarray(value, dtype=np.int64))


def _stacked(columns: dict[str, list[Array]]) -> dict[str, Array]:
    return {name: np.stack(values) for name, values in columns.items()}
