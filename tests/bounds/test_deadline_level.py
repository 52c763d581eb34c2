"""Do deadline bounds hold as often as they say? Seeded simulation of bandits built to hurt them.

Tolerance: at most delta plus three standard errors of the measured rate.
"""

import math

import numpy as np
import pytest
from scipy import stats

from benchmarks.statistics.deadline import (
    HURTING,
    LEARNING,
    SORTED_IN_TIME,
    Cell,
    Sums,
    level,
    level_learning,
    rising_logger,
    spread,
)
from piwo.reductions.bets import BETS, bet_sums

pytestmark = pytest.mark.statistics

LOGS = 2000
DELTA = 0.1


def allowed(delta, logs):
    return delta + 3 * math.sqrt(delta * (1 - delta) / logs)


SIZES = ((5, LOGS), (60, LOGS), (600, LOGS), (5000, LOGS // 10))
CELLS = [
    pytest.param(cell, n, logs, id=f"{cell.name}, {n}") for n, logs in SIZES for cell in HURTING
]


@pytest.mark.parametrize(("cell", "n", "logs"), CELLS)
def test_bandits_built_to_hurt_do_not(cell, n, logs):
    found = level(cell, n, logs, DELTA)
    assert found.lower <= allowed(DELTA, logs)
    assert found.upper <= allowed(DELTA, logs)
    assert found.bound <= allowed(DELTA, logs)
    assert found.two_sided <= allowed(DELTA, logs)


@pytest.mark.parametrize("cell", HURTING[::3], ids=lambda cell: cell.name)
def test_at_a_small_delta(cell):
    found = level(cell, 300, LOGS, 0.01)
    assert max(found.lower, found.upper, found.two_sided) <= allowed(0.01, LOGS)


@pytest.mark.parametrize("learner", LEARNING, ids=lambda learner: learner.name)
@pytest.mark.parametrize("losses", [False, True], ids=["value", "loss"])
def test_a_logger_that_knows_the_wealth_cannot_make_it_lie(learner, losses):
    logs = LOGS // 4
    assert level_learning(learner, 320, logs, DELTA, losses=losses) <= allowed(DELTA, logs)


# --- sorted files


def sorted_level(n, chance, delta, *, best_first):
    """The level in sorted files of Y = 0 or 1/chance; exact: the number of the latter says all."""
    often = np.arange(n + 1)
    law = stats.binom.pmf(often, n, chance)
    often, law = often[law > 1e-5], law[law > 1e-5]
    rows = (np.arange(n) < often[:, None]) / chance
    sums = spread(np.ascontiguousarray(rows if best_first else rows[:, ::-1]))
    penalty = math.log(1 / delta)
    return law @ [sums.log_c(i, 1.0, penalty) >= penalty for i in range(len(rows))]


@pytest.mark.parametrize("n", [5, 10, 20, 40, 64, 80, 100, 128, 200, 600, 3000])
def test_a_sorted_file_holds(n):
    """Weights from near 1 to 1/chance of 20, and where few rows earn something, or nothing."""
    chances = {0.05, 0.2, 0.4, 0.5, 0.7, 0.9, *(m / n for m in (0.5, 1, 1.5, 3, 6, 12, 25))}
    chances |= {1 - m / n for m in (2, 4, 8, 16, 32)}
    for chance in sorted(x for x in chances if 0.0 < x < 1.0):
        for delta in (0.1, 0.025):
            for best_first in (True, False):
                found = sorted_level(n, chance, delta, best_first=best_first)
                assert found <= delta, (chance, delta, best_first)


def test_a_value_that_falls_at_the_end_of_the_file_holds():
    """Y = 2 with chance 1/2 in the first three quarters and 0 after: .75 on the average."""
    logs = LOGS // 4

    def draw(random, logs, n):
        r = (random.random((logs, n)) < 0.5) & (np.arange(n) < 0.75 * n)
        return np.full((logs, n), 2.0), r.astype(float)

    found = level(Cell("falls", lambda _: 0.75, draw), 3000, logs, DELTA)
    assert max(found.lower, found.bound) <= allowed(DELTA, logs)


def test_a_sorted_file_in_time_fails():
    """Rows sorted by reward are not decisions in their order: nearly every log lies."""
    logs = 200
    found = level(SORTED_IN_TIME, 1280, logs, DELTA)
    assert found.lower > 0.9
    assert found.bound > 0.9


# --- improvement over a logger that learns


def test_a_logger_whose_own_value_rises_is_not_for_deadline_bets():
    """The policy is as good as the logger on average; bets in time order stop early, in the lead.

    The mixture bets the same all along, and does not claim an improvement.
    """
    deadline, mixture = rising_logger(3000, 300, DELTA)
    assert deadline > 0.9
    assert mixture <= allowed(DELTA, 300)


def test_the_sums_are_those_of_the_bounds():
    """The simulation's own sums, against log(1 + lambda Y) added up."""
    random = np.random.default_rng(0)
    y = np.where(random.random((3, 40)) < 0.5, 0.0, random.exponential(50.0, (3, 40)))
    y[2, 3] = 1e90
    sums = Sums.of(y, np.array([10, 10, 40]))
    for i in range(3):
        assert sums.bets[i] == pytest.approx(bet_sums(y[i]), rel=1e-9, abs=1e-12)
        for b, part in enumerate((y[i, :10], y[i, 10:10], y[i, 10:])):
            assert sums.blocks[i, b] == pytest.approx(
                np.log1p(np.outer(BETS[:32:2], part)).sum(axis=1), rel=1e-9, abs=1e-12
            )
