"""The pooled mixture bound: worked by hand, against the plain bound, and at its limits."""

import math

import numpy as np
import pytest

from piwo import bounds
from piwo.errors import UsageError
from piwo.reductions import BETS, bet_sums


def test_one_quantity_without_a_shift_is_the_plain_bound() -> None:
    y = np.random.default_rng(0).gamma(0.3, 3.0, 500)
    sums = bet_sums(y)
    assert bounds.pooled_lower(sums[None], [0], [1], 500, 3.0) == pytest.approx(
        bounds.lower(sums, 500, 3.0), rel=1e-12
    )


def test_one_bet_by_hand() -> None:
    """One row and log(1/delta) > 32 n: one bet, lambda = 32; 1 + 32 Y = e^40 (1 + 32 (v + k)) / 2
    with p = 1/2."""
    target, shift = 2.0, 3.0
    y = (2.0 * math.exp(40.0) * (1.0 + 32.0 * (target + shift)) - 1.0) / 32.0
    assert bounds.grid_size(1, 40.0) == 1
    found = bounds.pooled_lower(bet_sums([y])[None], [shift], [0.5], 1, 40.0)
    assert found == pytest.approx(target, rel=1e-9)


def test_against_a_naive_search() -> None:
    rng = np.random.default_rng(1)
    phi = np.stack(
        [rng.gamma(0.5, 1.0, 400), 0.5 + rng.normal(0, 0.1, 400), rng.uniform(0, 1, 400)]
    )
    shifts, weights, n, penalty = np.array([0.0, 1.0, 4.0]), np.array([0.5, 0.3, 0.2]), 400, 4.0
    sums = np.stack([bet_sums(row) for row in phi + shifts[:, None]])
    size = bounds.grid_size(n, penalty)

    def log_wealth(v: float) -> float:
        logs = sums[:, :size] - n * np.log(1 + BETS[:size] * (v + shifts[:, None]))
        return float(np.logaddexp.reduce((logs + np.log(weights / size)[:, None]).ravel()))

    grid = np.linspace(0, 0.6, 6001)
    last = max(v for v in grid if log_wealth(v) >= penalty)
    assert bounds.pooled_lower(sums, shifts, weights, n, penalty) == pytest.approx(last, abs=1.1e-4)


def test_nothing_to_say_is_zero_and_never_more_than_a_union_bound_loses() -> None:
    rng = np.random.default_rng(2)
    y = rng.uniform(0, 1, 300)
    sums = np.stack([bet_sums(np.zeros(300)), bet_sums(y + 1)])
    assert bounds.pooled_lower(sums[:1], [0], [1], 300, 3.0) == 0.0
    alone = bounds.pooled_lower(sums[1:], [1], [1], 300, 3.0 + math.log(2))
    assert alone <= bounds.pooled_lower(sums, [0, 1], [0.5, 0.5], 300, 3.0) < y.mean()


def test_weights_beyond_all_measure() -> None:
    sums = np.logaddexp(0.0, np.log(BETS) + 800.0)[None]  # one Y of e^800
    assert 1e300 < bounds.pooled_lower(sums, [16.0], [1.0], 1, 3.0) <= np.finfo(float).max


@pytest.mark.parametrize(
    ("shifts", "weights"),
    [([0.0], [1.0]), ([-1.0, 0.0], [0.5, 0.5]), ([0.0, 1.0], [0.9, 0.2]), ([0.0, 1.0], [1.0, 0.0])],
)
def test_what_is_no_pool_is_refused(shifts: list[float], weights: list[float]) -> None:
    with pytest.raises(UsageError, match=r"expected"):
        bounds.pooled_lower(np.zeros((2, 48)), shifts, weights, 10, 3.0)
