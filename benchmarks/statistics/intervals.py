"""Widths and violation rates of value intervals, without and with control variates.

Each of seven bandits is a table of the few different rows that its logs can hold. The sums that one
such row leaves in piwo's own reductions are computed once; a log of n rows is the counts of these
rows, drawn at once, and its sums follow by a product.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from piwo import bounds
from piwo.intervals.control_variate import SHIFTS, WEIGHTS
from piwo.logs import Batch
from piwo.reductions import ControlVariates, PolicySums
from piwo.scores import IW
from piwo.simulate import Bandit

__all__ = ["CASES", "REPS", "Case", "intervals", "rows"]

REPS = 1000
ROWS = 3000
DELTA = 0.05


@dataclass(frozen=True)
class Case:
    """A bandit, and the mean widths that its intervals should have at n = 3000."""

    bandit: Bandit
    mixture: float
    """Width of the plain mixture bound."""
    control_variate: float
    """Width of the pooled one."""


def _case(name: str, mu: Any, pi: Any, chance: Any, mixture: float, control_variate: float) -> Case:
    log_mu = tuple(float(x) for x in np.log(mu))
    return Case(Bandit(name, log_mu, tuple(pi), tuple(chance)), mixture, control_variate)


CASES = (
    _case("half of the rows", (0.5, 0.5), (1, 0), (0.5, 0.5), 0.110, 0.087),
    _case("one row in twenty", (0.05, 0.95), (1, 0), (0.5, 0.5), 0.349, 0.291),
    _case("three rows in all", (0.001, 0.999), (1, 0), (0.9, 0.5), 0.920, 0.911),
    _case("clicks", (0.1, 0.9), (1, 0), (0.01, 0.01), 0.190, 0.053),
    _case("near the logger", (0.7, 0.3), (0.5, 0.5), (0.5, 0.6), 0.073, 0.066),
    _case(
        "uniform on a peaked logger",
        (0.993, 0.0035, 0.0035),
        (1 / 3,) * 3,
        (0.8,) * 3,
        0.441,
        0.411,
    ),
    _case("on-policy", (0.1,) * 10, (0.1,) * 10, (0.1,) * 10, 0.038, 0.036),
)
"""Seven bandits, from easy to hopeless."""


def intervals(
    bandit: Bandit, reps: int, n: int = ROWS, delta: float = DELTA, seed: int = 0
) -> dict[str, npt.NDArray[np.float64]]:
    """Return the lower and upper ends of each of `reps` logs, (reps, 2), by the name of the method.

    >>> found = intervals(CASES[3].bandit, reps=2)
    >>> {name: ends.shape for name, ends in found.items()}
    {'mixture': (2, 2), 'mixture-cv': (2, 2)}
    """
    cells = [(_plain(bandit, i), _varied(bandit, i)) for i in range(len(bandit.cells.chance))]
    counts = bandit.counts(n, reps, seed).astype(np.float64)
    half = math.log(2 / delta)
    ends: dict[str, list[npt.NDArray[np.float64]]] = {"mixture": [], "mixture-cv": []}
    for side in ("value", "loss"):
        pool = np.stack(
            [np.vstack([getattr(p.bets, side), getattr(v, side)]) for p, v in cells]
        )  # (cells, 13, 48)
        sums = np.einsum("rc,cqj->rqj", counts, pool)
        ends["mixture"].append(bounds.lower_many(sums[:, 0], n, half))
        ends["mixture-cv"].append(bounds.pooled_lower_many(sums, SHIFTS, WEIGHTS, n, half))
    return {
        name: np.stack([np.maximum(low, 0.0), np.minimum(1.0 - missed, 1.0)], axis=1)
        for name, (low, missed) in ends.items()
    }


def rows(reps: int = REPS) -> list[Mapping[str, Any]]:
    """Return mean width and misses a side, by bandit and method, beside the width expected."""
    made: list[Mapping[str, Any]] = []
    for case in CASES:
        expected = {"mixture": case.mixture, "mixture-cv": case.control_variate}
        for name, ends in intervals(case.bandit, reps).items():
            made.append(
                {
                    "case": case.bandit.name,
                    "n": ROWS,
                    "interval": name,
                    "width": float((ends[:, 1] - ends[:, 0]).mean()),
                    "expected width": expected[name],
                    "lower misses": float((ends[:, 0] > case.bandit.value).mean()),
                    "upper misses": float((ends[:, 1] < case.bandit.value).mean()),
                }
            )
    return made


def _plain(bandit: Bandit, cell: int) -> Any:
    reduction = PolicySums(bandit.policy, IW())
    return reduction.update(reduction.empty(), _row(bandit, cell))


def _varied(bandit: Bandit, cell: int) -> Any:
    reduction = ControlVariates(bandit.policy)
    return reduction.update(reduction.empty(), _row(bandit, cell))


def _row(bandit: Bandit, cell: int) -> Batch:
    kinds = bandit.cells
    return Batch(
        0,
        kinds.action[[cell]].astype(np.int32),
        kinds.reward[[cell]],
        np.exp(kinds.log_propensity[[cell]]),
        propensities=bandit.mu[None],
    )
