"""Monitors with a horizon: false intervals at any look, and widths, with deadline bets and without.

A log grows to 2500 rows and is looked at every 50 rows. Bets are planned for 2000. "wrong" is the
share of logs with a two-sided interval at delta = .05 that misses the value at one look or more:
the value is refuted on the grid of the bounds. The others are mean widths with deadline bets over
those of the mixture with the same horizon, at six looks. In the last case rewards end after the
first three quarters of the plan: the value of a look is then the average so far, and only the
mixture promises an interval for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.statistics.deadline import REGIMES, Sums
from piwo import bounds
from piwo.bounds.deadline import DESIGN, Mixture, deadline_lower, log_wealth
from piwo.intervals.partition import planned_blocks

__all__ = ["CASES", "DELTA", "HORIZON", "REPS", "Case", "interval", "rows", "sums_at", "wrong"]

REPS = 400
HORIZON, DELTA = 2000, 0.05
LOOKS = tuple(range(50, 2501, 50))
SHOWN = (200, 500, 1000, 1500, 2000, 2500)

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Case:
    """A bandit as weights and rewards of (logs, n) rows, and the value at a look."""

    name: str
    draw: Callable[[np.random.Generator, int, int], tuple[Floats, Floats]]
    value: Callable[[int], float]
    drifts: bool = False


def _steady(place: int) -> Case:
    regime = REGIMES[place]
    mu, pi = np.array(regime.mu, float), np.array(regime.pi, float)
    reward = np.array(regime.reward)

    def draw(random: np.random.Generator, logs: int, n: int) -> tuple[Floats, Floats]:
        action = random.choice(len(mu), (logs, n), p=mu)
        w = (pi / mu)[action]  # not a propensity: of a regime's actions
        return w, (random.random((logs, n)) < reward[action]).astype(np.float64)

    return Case(regime.name, draw, lambda _: float(pi @ reward))


def _ended(random: np.random.Generator, logs: int, n: int) -> tuple[Floats, Floats]:
    used = random.random((logs, n)) < 0.5
    paid = (random.random((logs, n)) < 0.5) & (np.arange(n) < 0.75 * HORIZON)
    return np.where(used, 2.0, 0.0), paid.astype(np.float64)


CASES = (
    *(_steady(place) for place in (0, 1, 3, 5, 7, 8)),
    Case("rewards end (drift)", _ended, lambda n: 0.5 * min(1.0, 0.75 * HORIZON / n), drifts=True),
)


def sums_at(y: Floats, n: int) -> Sums:
    """Return the sums of the first rows in the blocks of the plan.

    >>> float(sums_at(np.ones((1, 100)), 70).counts.sum())
    70.0
    """
    ends = np.array((*planned_blocks(HORIZON).cuts, n))
    return Sums.of(y[:, :n], np.minimum(ends, n))


def _mixture(sums: Sums, i: int, penalty: float) -> Mixture:
    size = bounds.grid_size(HORIZON, penalty)
    even = np.full(size, 1.0 / size)
    return Mixture(sums.bets[i][None], np.zeros(1), np.ones(1), even, sums.n)


def wrong(
    case: Case, logs: int, looks: tuple[int, ...] = LOOKS, delta: float = DELTA, seed: int = 0
) -> dict[str, float]:
    """Return for both bets the share of logs with an interval that is wrong at any look.

    >>> sorted(wrong(CASES[0], 1, (500, 2000)))
    ['deadline', 'mixture']
    """
    random = np.random.default_rng([seed, len(case.name)])
    w, r = case.draw(random, logs, max(looks))
    found = {name: np.zeros(logs, np.bool_) for name in ("deadline", "mixture")}
    # delta / 2 for each side
    penalty = math.log(2 / delta)
    for n in looks:
        for y, value in ((w * r, case.value(n)), (w * (1 - r), 1 - case.value(n))):
            sums = sums_at(y, n)
            for i in np.flatnonzero(~(found["deadline"] & found["mixture"])):
                for name, refuted in _refuted(sums, int(i), value, penalty).items():
                    found[name][i] |= refuted
    return {name: float(rate.mean()) for name, rate in found.items()}


def _refuted(sums: Sums, i: int, value: float, penalty: float) -> dict[str, bool]:
    """Return whether the bound of one log is above the value, but for the last step of the grid."""
    step = 1 / (DESIGN.resolution * math.sqrt(HORIZON))
    # L > v only if the least value of the grid that is not below v is refuted
    tested = np.array([math.exp(math.ceil(math.log(value) / step - 1e-9) * step)])
    target = penalty - math.log(DESIGN.share)
    won = log_wealth(sums.of_log(i), tested, target, planned=float(HORIZON))[0]
    mixture = _mixture(sums, i, penalty)
    safe = mixture.log_wealth(tested)[0] + math.log1p(-DESIGN.share)
    both = np.logaddexp(won + math.log(DESIGN.share), safe)
    alone = mixture.log_wealth(np.array([value]))[0]
    return {"deadline": bool(both >= penalty), "mixture": bool(alone > penalty)}


def interval(sums: Sums, losses: Sums, i: int, delta: float) -> dict[str, tuple[float, float]]:
    """Return the two-sided intervals of one log, with deadline bets and by the mixture."""
    penalty, ends = math.log(2 / delta), {}
    low, missed = _mixture(sums, i, penalty), _mixture(losses, i, penalty)
    ends["mixture"] = (low.lower(penalty), 1 - missed.lower(penalty))
    planned = float(HORIZON)
    ends["deadline"] = (
        deadline_lower(sums.of_log(i), low, penalty, planned=planned),
        1 - deadline_lower(losses.of_log(i), missed, penalty, planned=planned),
    )
    return ends


def _widths(case: Case, logs: int) -> dict[str, float]:
    """Return mean widths over those of the mixture, by look."""
    w, r = case.draw(np.random.default_rng([1, len(case.name)]), logs, max(SHOWN))
    made = {}
    for n in SHOWN:
        earned, lost = sums_at(w * r, n), sums_at(w * (1 - r), n)
        width = dict.fromkeys(("deadline", "mixture"), 0.0)
        for i in range(logs):
            for name, (low, high) in interval(earned, lost, i, DELTA).items():
                width[name] += min(high, 1.0) - max(low, 0.0)
        made[f"width at {n}"] = width["deadline"] / width["mixture"]
    return made


def rows(reps: int) -> list[Mapping[str, Any]]:
    """Return rates and widths by case."""
    made: list[Mapping[str, Any]] = []
    for case in CASES:
        rates = wrong(case, reps)
        row: dict[str, Any] = {
            "case": case.name,
            "wrong, deadline": rates["deadline"],
            "wrong, mixture": rates["mixture"],
            "standard error at delta": math.sqrt(DELTA * (1 - DELTA) / reps),
        }
        if case.drifts:
            # the width of an interval that is wrong is of no interest
            made.append(row)
        else:
            made.append(row | _widths(case, max(2, reps // 5)))
    return made
