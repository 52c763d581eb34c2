"""A small simulator of slates whose value is known, for the tests of this folder."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

import piwo
from piwo.slates import SlateEvaluation

Behavior = str
SLOTS, ITEMS = 2, ("a", "b", "c")
QUALITY = {"a": 0.2, "b": 0.5, "c": 0.8}
# slot by slot: the logger and the target draw each item given that of the slot above
LOGGER = [
    {None: (0.5, 0.3, 0.2)},
    {"a": (0.2, 0.4, 0.4), "b": (0.4, 0.3, 0.3), "c": (0.6, 0.2, 0.2)},
]
TARGET = [
    {None: (0.2, 0.3, 0.5)},
    {"a": (0.6, 0.2, 0.2), "b": (0.1, 0.8, 0.1), "c": (0.1, 0.2, 0.7)},
]


def misses(found: SlateEvaluation, truth: float) -> bool:
    """Whether the interval is wrong; one whose ends cross is withheld, and one of them is wrong."""
    if found.lower is None or found.upper is None:
        assert found.no_interval is not None
        assert found.no_interval.kind == "contradicted"
        return True
    return not found.lower <= truth <= found.upper


@dataclass(frozen=True)
class SlateBandit:
    """Slates of two of three items, drawn slot by slot; rewards of 0 and 1 in each slot."""

    behavior: Behavior

    def chance(self, slate: tuple[str, ...], slot: int) -> float:
        """Chance of a reward in a slot."""
        own = QUALITY[slate[slot]] * (1.0, 0.7)[slot]
        if self.behavior == "independent":
            return own
        if self.behavior == "cascade":
            # who liked what is above has less left for this slot
            return own * (1.0 if slot == 0 else 1.2 - QUALITY[slate[0]])
        # the slot below matters, too
        other = slate[1 - slot]
        return own * (1.2 - QUALITY[other])

    @staticmethod
    def probability(policy: list[Any], slate: tuple[str, ...]) -> list[float]:
        """Probability of each item given that above it."""
        first = policy[0][None][ITEMS.index(slate[0])]
        return [first, policy[1][slate[0]][ITEMS.index(slate[1])]]

    def marginal(self, policy: list[Any], slate: tuple[str, ...]) -> list[float]:
        """Probability of each item in its slot."""
        below = sum(
            policy[0][None][i] * policy[1][item][ITEMS.index(slate[1])]
            for i, item in enumerate(ITEMS)
        )
        return [policy[0][None][ITEMS.index(slate[0])], below]

    @property
    def value(self) -> float:
        """The true value of the target."""
        total = 0.0
        for slate in product(ITEMS, repeat=SLOTS):
            each = np.prod(self.probability(TARGET, slate))
            total += each * sum(self.chance(slate, slot) for slot in range(SLOTS))
        return float(total)

    def table(self, rows: int, seed: int) -> dict[str, list[Any]]:
        """Logged rows, with the probabilities of both policies."""
        rng = np.random.default_rng(seed)
        slates = list(product(ITEMS, repeat=SLOTS))
        shown = rng.choice(
            len(slates), size=rows, p=[np.prod(self.probability(LOGGER, s)) for s in slates]
        )
        chances = np.array([[self.chance(s, slot) for slot in range(SLOTS)] for s in slates])
        rewards = (rng.random((rows, SLOTS)) < chances[shown]) * 1.0
        made: dict[str, list[Any]] = {"shown": [list(slates[i]) for i in shown]}
        made["rs"] = rewards.tolist()
        made["behavior"] = [self.behavior] * rows
        for name, policy in (("mu", LOGGER), ("pi", TARGET)):
            above = [self.probability(policy, s) for s in slates]
            alone = [self.marginal(policy, s) for s in slates]
            made[f"{name}_above"] = [above[i] for i in shown]
            made[f"{name}_alone"] = [alone[i] for i in shown]
        return made

    def log(self, rows: int, seed: int) -> piwo.slates.SlateLog:
        """A slate log."""
        return piwo.slates.read(
            self.table(rows, seed),
            slate="shown",
            rewards="rs",
            propensities="mu_above",
            marginals="mu_alone",
            user_behavior="behavior",
            slots=SLOTS,
            actions=ITEMS,
        )


TARGET_COLUMNS = piwo.slates.FromColumns(above="pi_above", marginal="pi_alone")
