"""Acting with slate policies: what is shown, and with which probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from piwo.logs.batch import Floats
from piwo.policies.sampling import draw_rows
from piwo.slates.rows import Codes

__all__ = ["Decided", "SlateDecisions", "draw_ranking", "draw_slots"]


@dataclass(frozen=True)
class SlateDecisions:
    """The slates that a policy shows, and their probabilities. Log all, to learn from later.

    >>> SlateDecisions([["a", "b"]], [[0.5, 1.0]], [[0.5, 0.5]]).slates
    [['a', 'b']]
    """

    slates: list[list[Any]]
    """The labels of each slate, the first slot first."""
    propensities: list[list[float]]
    """The probability of each shown action given the context and the actions above it."""
    marginals: list[list[float]]
    """The probability of each shown action in its slot given the context, whatever is above."""

    def __len__(self) -> int:
        return len(self.slates)


@dataclass(frozen=True)
class Decided:
    """What a policy shows in n contexts, as codes of its own actions."""

    codes: Codes
    """(n, L)."""
    above: Floats
    """(n, L)."""
    marginal: Floats
    """(n, L)."""


def draw_ranking(n: int, slots: int, items: int, rng: np.random.Generator) -> Codes:
    """Return n uniform ordered choices of L of m items, (n, L).

    >>> sorted(draw_ranking(1, 3, 3, np.random.default_rng(0))[0].tolist())
    [0, 1, 2]
    """
    order = rng.random((n, items)).argsort(axis=1)
    return np.asarray(order[:, :slots], np.int32)


def draw_slots(table: Floats, n: int, rng: np.random.Generator) -> Codes:
    """Return n slates whose slots are drawn independently, (n, L).

    Args:
        table: (L, K) the distribution of each slot.
        n: how many.
        rng: advances.
    """
    drawn = np.empty((n, len(table)), np.int32)
    for slot, one in enumerate(table):
        drawn[:, slot] = draw_rows(np.broadcast_to(one, (n, len(one))), rng)
    return drawn
