"""The mixture bound against hand-worked numbers, a naive twin, and its laws."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq

from piwo import bounds
from piwo.errors import UsageError
from piwo.reductions.bets import BETS, bet_sums

LOG20 = math.log(20.0)
# Six rows whose every estimate is known to ten digits.
MU = np.array([0.5, 0.1, 0.02, 0.8, 0.3, 0.05])
PI = np.array([1.0, 0.0, 0.5, 0.25, 1.0, 1.0])
R = np.array([1.0, 0.4, 0.8, 0.0, 0.5, 1.0])
SIX = PI * R / MU

ys = st.lists(st.floats(0.0, 1e6, allow_subnormal=False), min_size=1, max_size=30).map(np.array)
penalties = st.floats(0.01, 50.0)


def naive_wealth(y, v, bets):
    """Average wealth of fair bets on mean v, by multiplication."""
    return np.mean([math.prod((1 + bet * value) / (1 + bet * v) for value in y) for bet in bets])


def naive_lower(y, delta, bets):
    """Root of the average wealth by another method, without logarithms or a bracket of its own."""
    y = [float(value) for value in y]
    if naive_wealth(y, 0.0, bets) <= 1 / delta:
        return 0.0
    return brentq(
        lambda v: naive_wealth(y, v, bets) - 1 / delta, 0.0, max(y), xtol=1e-15, rtol=1e-14
    )


def test_golden_value():
    sums = bet_sums(np.tile(SIX, 100))
    assert bounds.grid_size(600, LOG20) == 14
    assert bounds.lower(sums, 600, LOG20) == pytest.approx(6.11626306, abs=1e-8)
    assert bounds.lower(sums, 600, LOG20, prior=np.full(14, 1 / 14)) == bounds.lower(
        sums, 600, LOG20
    )


def test_one_bet_by_hand():
    # (1 + 32)/(1 + 32 v) = 2  =>  v = (33/2 - 1)/32
    assert bounds.lower(bet_sums([1.0]), 1, math.log(2), prior=[1.0]) == pytest.approx(
        0.484375, rel=1e-12
    )


def test_two_bets_by_hand():
    # (33/(1 + 32 v) + 17/(1 + 16 v))/2 = 2  =>  2048 v^2 - 880 v - 46 = 0
    by_hand = (880 + math.sqrt(880**2 + 4 * 2048 * 46)) / 4096
    assert bounds.lower(bet_sums([1.0]), 1, math.log(2), prior=[0.5, 0.5]) == pytest.approx(
        by_hand, rel=1e-12
    )


@pytest.mark.parametrize(
    ("horizon", "penalty", "size"),
    [
        (0, 3.0, 1),
        (1, 32.0, 1),
        (1, 16.0, 2),
        (2, 16.0, 3),
        (600, LOG20, 14),
        (1, 1e4, 1),
        (10**18, 1e-3, 48),
    ],
)
def test_grid_size_by_hand(horizon, penalty, size):
    assert bounds.grid_size(horizon, penalty) == size


@pytest.mark.parametrize("delta", [0.5, 0.05, 1e-6])
@pytest.mark.parametrize("seed", range(5))
def test_naive_twin(seed, delta):
    y = np.random.default_rng(seed).pareto(1.5, 25) * (seed + 1)
    size = bounds.grid_size(25, -math.log(delta))
    assert bounds.lower(bet_sums(y), 25, -math.log(delta)) == pytest.approx(
        naive_lower(y, delta, BETS[:size]), rel=1e-10, abs=1e-13
    )
    universal = bounds.lower(bet_sums(y), 25, -math.log(delta), horizon="universal")
    assert universal == pytest.approx(naive_lower(y, delta, BETS), rel=1e-10, abs=1e-13)


@given(ys, penalties)
@settings(deadline=None)
def test_bound_is_where_the_evidence_reaches_the_level(y, penalty):
    """The bound refutes what is below it and nothing that is above it."""
    sums = bet_sums(y)
    low = bounds.lower(sums, y.size, penalty, horizon="universal")
    assert 0.0 <= low <= y.mean() * (1 + 1e-9)
    assert bounds.log_e_value(sums, y.size, low * (1 + 1e-9) + 1e-300) <= penalty + 1e-9
    if low > 0.0:
        assert bounds.log_e_value(sums, y.size, low * (1 - 1e-9)) >= penalty - 1e-9


@given(ys, penalties, st.floats(1.001, 10.0))
@settings(deadline=None)
def test_rises_with_delta_and_with_rows(y, penalty, factor):
    sums = bet_sums(y)
    low = bounds.lower(sums, y.size, penalty, horizon="universal")
    assert bounds.lower(sums, y.size, penalty * factor, horizon="universal") <= low
    # the same log three times over says the same with more weight
    assert bounds.lower(3 * sums, 3 * y.size, penalty, horizon="universal") >= low * (1 - 1e-12)


@given(ys, st.floats(0.0, 1e3), penalties)
@settings(deadline=None)
def test_rises_with_every_value_and_falls_with_every_zero(y, extra, penalty):
    sums, more = bet_sums(y), bet_sums(y + np.eye(y.size)[0] * extra)
    low = bounds.lower(sums, y.size, penalty, horizon="universal")
    assert bounds.lower(more, y.size, penalty, horizon="universal") >= low * (1 - 1e-12)
    assert bounds.lower(sums, y.size + 1, penalty, horizon="universal") <= low


@given(ys, penalties)
@settings(deadline=None)
def test_beats_the_best_single_bet_with_a_union_bound(y, penalty):
    sums, size = bet_sums(y), 48
    exponents = np.maximum(sums - penalty - math.log(size), 0.0) / y.size
    union = float((np.expm1(np.minimum(exponents, 700.0)) / BETS).max())
    assert bounds.lower(sums, y.size, penalty, horizon="universal") >= union * (1 - 1e-10)


def test_strictly_beats_the_union_bound_on_real_numbers():
    sums = bet_sums(np.tile(SIX, 100))
    union = float((np.expm1((sums[:14] - LOG20 - math.log(14)) / 600) / BETS[:14]).max())
    assert bounds.lower(sums, 600, LOG20) > union + 0.04


@given(ys, penalties, st.integers(1, 10))
@settings(deadline=None)
def test_scales_with_the_unit_when_the_grid_does(y, penalty, octaves):
    """Values twice as large under bets half as large are the same game."""
    weights = np.full(30, 1 / 30)
    shifted = np.concatenate([np.zeros(octaves), weights])
    low = bounds.lower(bet_sums(y), y.size, penalty, prior=weights)
    scaled = bounds.lower(bet_sums(y * 2.0**octaves), y.size, penalty, prior=shifted)
    assert scaled == pytest.approx(2.0**octaves * low, rel=1e-9, abs=1e-12)


def test_many_is_one_at_a_time():
    rng = np.random.default_rng(0)
    rows = rng.exponential(size=(7, 40)) * 10.0 ** np.arange(-4, 3)[:, None]
    rows[2] = 0.0
    sums = np.stack([bet_sums(row) for row in rows])
    together = bounds.lower_many(sums, 40, 2.0)
    assert together.tolist() == [bounds.lower(row, 40, 2.0) for row in sums]
    assert together[2] == 0.0
    assert np.all(together[4:] > 0.0)
    assert bounds.lower_many(np.zeros((0, 48)), 40, 2.0).shape == (0,)


def test_nothing_seen_says_nothing():
    assert bounds.lower(np.zeros(48), 0, 3.0) == 0.0
    assert bounds.lower(np.zeros(48), 10_000, 3.0) == 0.0
    assert bounds.log_e_value(np.zeros(48), 0, 0.5) == pytest.approx(0.0, abs=1e-12)


def test_one_row():
    # e-value at 0 is the mean of 1 + lambda y over two bets: 1 + 24 y > 20 only from y = 19/24 on
    assert bounds.lower(bet_sums([0.791]), 1, LOG20, prior=[0.5, 0.5]) == 0.0
    assert bounds.lower(bet_sums([0.792]), 1, LOG20, prior=[0.5, 0.5]) > 0.0


@pytest.mark.parametrize("penalty", [1e4, 1e5])
def test_class_so_large_that_delta_underflows(penalty):
    """Here delta/|Pi| is zero in floating point; a constant must still be found, and not
    overshot."""
    n = 1_000_000
    sums = n * np.log1p(BETS)
    low = bounds.lower(sums, n, penalty)
    # at one bet: 1 - (1 + 1/lambda)(1 - exp(-penalty/n)) or so; the best of them is 32
    single = math.expm1(math.log1p(32.0) - (penalty + math.log(48)) / n) / 32.0
    assert single <= low < 1.0
    assert bounds.lower(10 * np.log1p(BETS), 10, penalty) == 0.0


def test_values_beyond_floating_point():
    """Propensities below 1e-308 give bet sums through logarithms and a mean that cannot be
    written down."""
    log_y = 1000.0
    sums = 3 * np.logaddexp(0.0, np.log(BETS) + log_y)
    assert bounds.lower(sums, 3, LOG20) == pytest.approx(np.finfo(float).max)
    # three such rows in a thousand, by the smallest bet alone:
    # 3 (1000 + log lambda) = 1000 log(1 + lambda v) + log 20 + log 48
    by_hand = math.expm1((3 * (1000 + math.log(BETS[-1])) - LOG20 - math.log(48)) / 1000) / BETS[-1]
    low = bounds.lower(sums, 1000, LOG20, horizon="universal")
    assert by_hand * (1 - 1e-12) <= low < 1.1 * by_hand
    assert bounds.log_e_value(sums, 1000, low) == pytest.approx(LOG20, abs=1e-6)
    largest = 3 * np.logaddexp(0.0, np.log(BETS) + math.log(1e308))
    assert bounds.lower(largest, 3, LOG20) == pytest.approx(1e308 / 20 ** (1 / 3), rel=1e-2)


def test_upper_end_changes_nothing_when_it_is_the_mean():
    sums = bet_sums(np.tile(SIX, 100))
    low = bounds.lower(sums, 600, LOG20)
    assert bounds.lower(sums, 600, LOG20, upper_end=SIX.mean()) == pytest.approx(low, rel=1e-13)
    assert bounds.lower(sums, 600, LOG20, upper_end=2.0) == pytest.approx(2.0)
    assert bounds.lower(sums, 600, LOG20, upper_end=0.0) == 0.0


def test_horizon_fixes_the_grid():
    sums = bet_sums(np.tile(SIX, 100))
    declared = bounds.lower(sums, 600, LOG20, horizon=10**6)
    size = bounds.grid_size(10**6, LOG20)
    assert declared == bounds.lower(sums, 600, LOG20, prior=np.full(size, 1 / size))
    assert (
        bounds.lower(sums, 600, LOG20, horizon="universal")
        < declared
        < bounds.lower(sums, 600, LOG20)
    )


def test_e_value_by_hand():
    y, null = np.array([3.0, 0.5]), 0.7
    assert bounds.log_e_value(bet_sums(y), 2, null) == pytest.approx(
        math.log(naive_wealth(y, null, BETS)), rel=1e-12
    )
    assert bounds.log_e_value(bet_sums(y), 2, 0.0) == pytest.approx(
        math.log(naive_wealth(y, 0.0, BETS)), rel=1e-12
    )


@pytest.mark.parametrize(
    ("sums", "n", "penalty", "options", "said"),
    [
        (np.zeros(47), 5, 3.0, {}, r"shape \(1, 47\)"),
        (np.zeros((2, 48)), 5, 3.0, {}, "lower_many"),
        (np.full(48, np.nan), 5, 3.0, {}, "not finite"),
        (np.full(48, np.inf), 5, 3.0, {}, "not finite"),
        (np.full(48, -1.0), 5, 3.0, {}, "below 0"),
        (np.ones(48), 0, 3.0, {}, "n is 0"),
        (np.ones(48), -1, 3.0, {}, "n is -1"),
        (np.ones(48), 5, 0.0, {}, "log_inv_delta is 0.0"),
        (np.ones(48), 5, math.inf, {}, "log_inv_delta is inf"),
        (np.ones(48), 5, math.nan, {}, "log_inv_delta is nan"),
        (np.ones(48), 5, 3.0, {"horizon": -3}, "horizon is -3"),
        (np.ones(48), 5, 3.0, {"horizon": 5, "prior": [1.0]}, "expected one"),
        (np.ones(48), 5, 3.0, {"prior": [0.7, 0.7]}, "prior sums to 1.4"),
        (np.ones(48), 5, 3.0, {"prior": [1.5, -0.5]}, "expected weights >= 0"),
        (np.ones(48), 5, 3.0, {"prior": np.ones(49) / 49}, r"prior has shape \(49,\)"),
        (np.ones(48), 5, 3.0, {"upper_end": math.nan}, "upper_end is nan"),
    ],
)
def test_what_cannot_be_used_is_refused(sums, n, penalty, options, said):
    with pytest.raises(UsageError, match=said):
        bounds.lower(sums, n, penalty, **options)


def test_wrong_types_are_refused():
    with pytest.raises(UsageError, match=r"n is 2\.5"):
        bounds.lower(np.ones(48), 2.5, 3.0)
    with pytest.raises(UsageError, match="horizon is 'forever'"):
        bounds.lower(np.ones(48), 5, 3.0, horizon="forever")
