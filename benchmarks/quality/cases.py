"""Which logs there are: two halves, each with its data sets and seeds; rewards, loggers, sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

__all__ = ["HALVES", "Case", "Half", "Shape", "plan"]

REWARDS = ("sharp", "paper", "weak", "rare", "noise", "costs")
LOGGERS = (
    "softmax 0.5",
    "softmax 5",
    "softmax 50",
    "softmax 500",
    "reversed",
    "uniform",
    "greedy .1",
)
SIZES = (300, 1000, 3000, 10_000)
LARGE = (100_000, 1_000_000)


class Shape(NamedTuple):
    """Of a data set: its rows to learn from, and its classes, which are the actions."""

    rows: int
    actions: int


@dataclass(frozen=True)
class Half:
    """Data sets, the first seed, kinds of rewards, and which rows a log has."""

    sets: Mapping[str, Shape]
    first_seed: int
    rewards: Sequence[str] = ()
    """Kinds of rewards; empty: all."""
    own_size: bool = False
    """Whether a log has all rows of the data set to learn from, each once."""


_UNLIMITED = 1_000_000
HALVES = {
    "choose": Half(
        {
            "digits": Shape(898, 10),
            "penbased": Shape(5496, 10),
            "satimage": Shape(3217, 6),
            "segment": Shape(1155, 7),
            "vowel": Shape(495, 11),
            "clusters-5": Shape(_UNLIMITED, 5),
            "network-50": Shape(_UNLIMITED, 50),
            "clusters-200": Shape(_UNLIMITED, 200),
        },
        0,
    ),
    "confirm": Half(
        {
            "cancer": Shape(284, 2),
            "letter": Shape(10_000, 26),
            "bng-letter": Shape(500_000, 26),
            "network-12": Shape(_UNLIMITED, 12),
            "clusters-8": Shape(_UNLIMITED, 8),
            "clusters-26": Shape(_UNLIMITED, 26),
        },
        5000,
    ),
    "comparable choose": Half(
        {
            "digits": Shape(1257, 10),
            "penbased": Shape(7694, 10),
            "satimage": Shape(4504, 6),
            "segment": Shape(1617, 7),
            "clusters-5": Shape(2000, 5),
        },
        0,
        ("sharp", "paper"),
        own_size=True,
    ),
    "comparable confirm": Half(
        {
            "cancer": Shape(398, 2),
            "blobs-2": Shape(400, 2),
            "blobs-3": Shape(400, 3),
            "blobs-4": Shape(800, 4),
            "blobs-6": Shape(2000, 6),
            "blobs-12": Shape(3000, 12),
            "blobs-20": Shape(10_000, 20),
        },
        6000,
        ("sharp", "paper"),
        own_size=True,
    ),
}


@dataclass(frozen=True)
class Case:
    """One log."""

    half: str
    data: str
    rewards: str
    logger: str
    size: int
    seed: int

    @property
    def actions(self) -> int:
        return HALVES[self.half].sets[self.data].actions

    @property
    def own_size(self) -> bool:
        """Whether the log has all rows of the data set to learn from, each once."""
        return HALVES[self.half].own_size


def plan(
    half: str,
    sets: Sequence[str] | None = None,
    seeds: int = 1,
    *,
    full: bool = False,
    only: Sequence[int] | None = None,
) -> list[Case]:
    """Return the cases of a half, seed by seed, so that a run that was stopped is balanced.

    Args:
        half: its name.
        sets: only these data sets.
        seeds: number of seeds.
        full: all sizes in every combination; otherwise they take turns.
        only: only these sizes.

    >>> some = plan("choose", ["vowel"])
    >>> len(some), sorted({one.size for one in some})
    (42, [300, 1000])
    """
    asked = HALVES[half]
    cases = []
    for seed in range(asked.first_seed, asked.first_seed + seeds):
        for (data, shape), (i, rewards) in product(
            asked.sets.items(), enumerate(asked.rewards or REWARDS)
        ):
            if sets is not None and data not in sets:
                continue
            sizes = _sizes(shape.rows, full)
            if asked.own_size:
                sizes = [shape.rows]
            for j, logger in enumerate(LOGGERS):
                for size in sizes if full else [sizes[(i + j + seed) % len(sizes)]]:
                    if only is None or size in only:
                        cases.append(Case(half, data, rewards, logger, size, seed))
    return cases


def _sizes(rows: int, full: bool) -> list[int]:
    """Return the sizes of the logs of a data set, whose rows are drawn with replacement."""
    sizes = [size for size in SIZES if size <= 4 * rows]
    if full:
        sizes += [size for size in LARGE if size <= 2 * rows]
    return sizes
