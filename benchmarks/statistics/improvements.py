"""Improvement over the logging policy: what measuring both values on the same rows is worth.

Three actions; the policy always takes the best one (a full shift), or does so in a tenth of the
rows and else as the logger does (a small shift). Naive: a lower bound minus an upper one, each at
delta/2. Joint: w R + 1 - R, from the logged propensities alone. Paired: with all propensities, rows
where both policies agree cost nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from piwo import bounds
from piwo.reductions import PolicySums
from piwo.reductions.pair_sums import PairSums
from piwo.scores import IW
from piwo.simulate import Bandit

__all__ = ["REPS", "rows"]

REPS = 2000
DELTA = 0.05
MU, CHANCE = np.array([0.6, 0.3, 0.1]), (0.4, 0.6, 0.8)

Floats = npt.NDArray[np.float64]


def lowers(bandit: Bandit, n: int, logs: int) -> dict[str, Floats]:
    """Return the lower bounds on the improvement in many logs, (logs,), by method.

    >>> lowers(Bandit("coin", (float(np.log(0.5)),) * 2, (1.0, 0.0), (0.5, 0.1)), 100, 3)[
    ...     "joint"
    ... ].shape
    (3,)
    """
    counts = bandit.counts(n, logs, random_state=n)
    batch = next(bandit.log_of(np.arange(len(bandit.cells.chance))).each_batch())
    logger = replace(bandit, pi=tuple(bandit.mu / bandit.mu.sum()))
    rows_of = [batch.take(np.array([i])) for i in range(len(batch))]
    sums = {
        one: [
            PolicySums(one.policy, IW()).update(PolicySums(one.policy, IW()).empty(), x).bets
            for x in rows_of
        ]
        for one in (bandit, logger)
    }
    pair = PairSums(bandit.policy, logger.policy, full=True)
    paired = np.stack([pair.update(pair.empty(), x).bets for x in rows_of])
    each, half = bounds.log_inv_delta(DELTA), bounds.log_inv_delta(DELTA, statements=2)

    def lower(cells: Any, penalty: float, prior: Floats | None = None) -> Floats:
        return bounds.lower_many(counts @ np.stack(cells), n, penalty, prior=prior)

    own, other = sums[bandit], sums[logger]
    return {
        "naive": lower([x.value for x in own], half) - (1 - lower([x.loss for x in other], half)),
        "joint": lower([x.improvement for x in own], each, bounds.improvement_bets(n, each)) - 1,
        "paired": lower(paired, each) - 1,
    }


def rows(reps: int) -> list[Mapping[str, Any]]:
    """Return mean lower bounds and how often they exceed the truth."""
    made: list[Mapping[str, Any]] = []
    for shift, share in (("small", 0.1), ("full", 1.0)):
        pi = (1 - share) * MU + share * np.array([0.0, 0.0, 1.0])
        bandit = Bandit(
            shift, tuple(float(x) for x in np.log(MU)), tuple(float(x) for x in pi), CHANCE
        )
        truth = bandit.value - bandit.logging_value
        for n in (1000, 10_000):
            found = lowers(bandit, n, reps)
            made.append(
                {
                    "shift": shift,
                    "n": n,
                    "truth": truth,
                    **{name: float(low.mean()) for name, low in found.items()},
                    "above the truth": max(float((low > truth).mean()) for low in found.values()),
                }
            )
    return made
