"""Improvement over the logging policy: what measuring both values on the same rows is worth.

Three actions; the policy always takes the best one (a full shift), or does so in a tenth of the
rows and else as the logger does (a small shift). Naive: a lower bound minus an upper one, each at
delta/2. Joint: w R + 1 - R, from the logged propensities alone. Paired: with all propensities, rows
where both policies agree cost nothing.

The upper bound on the gain is then tried on bandits that hurt it: losses that are seldom seen and
carry large weights, a policy that differs from the logger in rare rows, and a logging policy whose
value is near an end of the range. As `evaluate` gives it for the mixture, at delta: the smaller of
the upper end less what the logger earns at least ("apart"), and of the bound from the same rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from piwo import bounds
from piwo.reductions import PolicySums
from piwo.reductions.bets import BETS
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


HURTFUL = {
    "rare losses": ((0.98, 0.02), (0.0, 1.0), (0.5, 0.9)),
    "rare weights": ((0.999, 0.001), (0.99, 0.01), (0.3, 0.7)),
    "worse": ((0.9, 0.1), (0.0, 1.0), (0.6, 0.2)),
    "logger near 1": ((0.5, 0.5), (0.1, 0.9), (1.0, 0.97)),
    "logger near 0": ((0.5, 0.5), (0.1, 0.9), (0.0, 0.03)),
}
"""Name -> probabilities of the logger and of the policy, and of a reward, by action."""


def uppers(bandit: Bandit, n: int, logs: int) -> dict[str, Floats]:
    """Return the upper bounds on the improvement in many logs, (logs,), by method.

    >>> uppers(Bandit("coin", (float(np.log(0.5)),) * 2, (1.0, 0.0), (0.5, 0.1)), 100, 3)[
    ...     "smaller"
    ... ].shape
    (3,)
    """
    counts = bandit.counts(n, logs, random_state=n)
    batch = next(bandit.log_of(np.arange(len(bandit.cells.chance))).each_batch())
    one = PolicySums(bandit.policy, IW())
    states = [one.update(one.empty(), batch.take(np.array([i]))) for i in range(len(batch))]
    half = bounds.log_inv_delta(DELTA, statements=2)
    # the upper end has delta/2, each of the two other bounds delta/4
    quarter = bounds.log_inv_delta(DELTA, statements=4)

    def lower(sums: Any, penalty: float, prior: Floats | None = None) -> Floats:
        return bounds.lower_many(sums, n, penalty, prior=prior)

    def summed(name: str) -> Floats:
        return np.asarray(counts @ np.stack([getattr(x.bets, name) for x in states]))

    end = np.minimum(1.0, 1.0 - lower(summed("loss"), half))
    earned = counts @ np.array([x.moments.reward for x in states])
    apart = end - lower(earned[:, None] * np.log1p(BETS), quarter)
    # log(1 + lambda Z) is at least this, see `bounds.improvement_upper`
    sums = np.maximum(0.0, summed("weight") + n * np.log1p(BETS) - summed("improvement"))
    paired = 1.0 - lower(sums, quarter, bounds.improvement_bets(n, quarter))
    return {"apart": apart, "same rows": paired, "smaller": np.minimum(apart, paired)}


def _hurtful(reps: int) -> list[Mapping[str, Any]]:
    """Return mean upper bounds and how often they are below the truth."""
    made: list[Mapping[str, Any]] = []
    for name, (mu, pi, chance) in HURTFUL.items():
        bandit = Bandit(name, tuple(float(x) for x in np.log(mu)), pi, chance)
        truth = bandit.value - bandit.logging_value
        for n in (100, 1000):
            found = uppers(bandit, n, reps)
            made.append(
                {
                    "shift": f"at most: {name}",
                    "n": n,
                    "truth": truth,
                    **{kind: float(most.mean()) for kind, most in found.items()},
                    "below the truth": float((found["smaller"] < truth).mean()),
                }
            )
    return made


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
    return made + _hurtful(reps)
