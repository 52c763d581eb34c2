"""Fixed-bet, IX and LS bounds against hand-worked numbers and each other."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from piwo import bounds
from piwo.errors import UsageError

LOG20 = math.log(20.0)
MU = np.array([0.5, 0.1, 0.02, 0.8, 0.3, 0.05])
PI = np.array([1.0, 0.0, 0.5, 0.25, 1.0, 1.0])
R = np.array([1.0, 0.4, 0.8, 0.0, 0.5, 1.0])

scores, counts = st.floats(0.0, 5.0), st.integers(1, 10**6)
bets, penalties = st.floats(1e-4, 10.0), st.floats(0.01, 1e3)


def test_golden_ls():
    value = np.log1p(0.2 * PI * R / MU).mean() / 0.2
    assert value == pytest.approx(3.2025251116, abs=1e-9)
    assert bounds.ls_lower(value, 6, 0.2, LOG20) == pytest.approx(0.7583686983, abs=1e-9)


def test_golden_ix():
    value = (PI * R / (MU + 0.1)).mean()
    assert value == pytest.approx(2.1527777778, abs=1e-9)
    # 2 gamma V - log(20)/6 = 0.430556 - 0.499289 = -0.068733157;  (exp(-0.068733157) - 1)/0.2
    assert bounds.ix_lower(value, 6, 0.1, LOG20) == pytest.approx(-0.33212117, abs=1e-8)
    assert bounds.ix_linear_lower(value, 6, 0.1, LOG20) == pytest.approx(
        2.1527777778 - LOG20 / 1.2, abs=1e-9
    )


def test_one_row_keeps_its_raw_bound():
    """Case D15 of a degenerate log: the raw bound is kept, zero is what one reports."""
    raw = bounds.ix_linear_lower(1 / 0.6, 1, 0.1, LOG20)
    assert raw == pytest.approx(-13.311995, abs=5e-7)
    assert bounds.floor_at_zero(raw) == 0.0
    assert bounds.floor_at_zero(0.25) == 0.25
    # exp(0.2/0.6) / 20 = 0.06978;  (0.06978 - 1)/0.2
    exact = bounds.ix_lower(1 / 0.6, 1, 0.1, LOG20)
    assert exact == pytest.approx((math.exp(1 / 3) / 20 - 1) / 0.2, rel=1e-12)
    assert bounds.floor_at_zero(exact) == 0.0


def test_best_of_a_thousand_policies():
    """Case D14: the winner's own bound is false, the bound that pays for the thousand is not."""
    rng = np.random.default_rng(0)
    actions, rewards = rng.integers(0, 10, 500), rng.integers(0, 2, 500)
    picks = rng.integers(0, 10, (1000, 500))
    best = float(((picks == actions) * rewards / 0.12).mean(axis=1).max())
    assert best == pytest.approx(0.716667, abs=1e-6)
    assert bounds.ix_linear_lower(best, 500, 0.02, bounds.log_inv_delta(0.05)) == pytest.approx(
        0.566880, abs=1e-6
    )
    paid = bounds.log_inv_delta(0.05, log_class_size=math.log(1000))
    assert bounds.ix_linear_lower(best, 500, 0.02, paid) == pytest.approx(0.221492, abs=1e-6)
    assert bounds.ix_lower(best, 500, 0.02, paid) < 0.5


@given(scores, counts, bets, penalties)
def test_exact_inverse_is_never_below_the_linear_form(score, n, bet, penalty):
    linear, exact = (
        bounds.score_linear_lower(score, n, bet, penalty),
        bounds.score_lower(score, n, bet, penalty),
    )
    assert exact >= linear - 1e-12 * (1 + abs(linear))
    assert exact >= -1 / bet
    # log(1 + lambda v) of the exact bound is lambda times the linear one, wherever that can be
    # resolved
    if bet * linear > -20:
        assert math.log1p(bet * exact) == pytest.approx(bet * linear, rel=1e-6, abs=1e-7)


@given(scores, counts, bets, penalties, st.floats(1.01, 5.0))
def test_rises_with_score_and_rows_and_falls_with_the_penalty(score, n, bet, penalty, factor):
    for bound in (bounds.score_lower, bounds.score_linear_lower):
        middle = bound(score, n, bet, penalty)
        assert bound(score * factor, n, bet, penalty) >= middle
        assert bound(score, 2 * n, bet, penalty) >= middle
        assert bound(score, n, bet, penalty * factor) <= middle


@given(scores, counts, bets, penalties, st.integers(-20, 20))
def test_scales_with_the_unit(score, n, bet, penalty, octaves):
    scale = 2.0**octaves
    scaled = bounds.score_lower(score * scale, n, bet / scale, penalty)
    assert scaled == pytest.approx(scale * bounds.score_lower(score, n, bet, penalty), rel=1e-12)


@given(scores, counts, bets, penalties)
def test_ix_is_the_bet_twice_gamma(score, n, gamma, penalty):
    assert bounds.ix_lower(score, n, gamma, penalty) == bounds.score_lower(
        score, n, 2 * gamma, penalty
    )
    assert bounds.ls_lower(score, n, gamma, penalty) == bounds.score_lower(score, n, gamma, penalty)


def test_extreme_penalties_and_scores():
    assert bounds.ix_lower(0.5, 1000, 0.05, 1e4) == pytest.approx(
        math.expm1(0.05 - 10.0) / 0.1, rel=1e-12
    )
    assert bounds.score_lower(1.0, 10, 0.1, 1e6) == -10.0
    assert bounds.score_lower(1e5, 10, 0.1, 1.0) == np.finfo(float).max
    assert bounds.score_lower(0.5, 10**9, 1e-9, 1e-9) == pytest.approx(0.5, rel=1e-6)


def test_upper_deviation_by_hand():
    # 3/(2 * .05 * 1000) + 2 * .05 * 2 = .03 + .2;   .05 * 2 + sqrt(2 * 2 * 3/1000)
    assert bounds.ix_upper_deviation(2.0, 1000, 0.05, 3.0) == pytest.approx(0.23)
    assert bounds.ix_upper_deviation_sqrt(2.0, 1000, 0.05, 3.0) == pytest.approx(
        0.1 + math.sqrt(0.012)
    )
    assert bounds.ix_upper_deviation(0.0, 1000, 0.05, 3.0) == pytest.approx(0.03)
    assert bounds.ix_upper_deviation_sqrt(0.0, 1000, 0.05, 3.0) == 0.0
    assert bounds.ix_upper_deviation(math.inf, 1000, 0.05, 3.0) == math.inf


@given(st.floats(0.0, 100.0), counts, bets, penalties)
def test_free_parameter_never_hurts(coverage, n, gamma, penalty):
    linear = bounds.ix_upper_deviation(coverage, n, gamma, penalty)
    assert bounds.ix_upper_deviation_sqrt(coverage, n, gamma, penalty) <= linear * (1 + 1e-12)


def test_interval_is_its_two_sides_and_pays_for_all_of_them():
    one = bounds.ix_interval([0.5], [0.4], [0.05], 1000, 3.0)
    assert one.lower == bounds.ix_lower(0.5, 1000, 0.05, 3.0 + math.log(2))
    assert one.upper == 1 - bounds.ix_lower(0.4, 1000, 0.05, 3.0 + math.log(2))
    assert one == bounds.ls_interval([0.5], [0.4], [0.1], 1000, 3.0)
    best = bounds.score_interval([0.5, 0.3, 0.49], [0.1, 0.41, 0.4], [0.1, 1.0, 0.2], 1000, 3.0)
    share = 3.0 + math.log(6)
    assert best.lower == bounds.score_lower(0.49, 1000, 0.2, share)
    assert best.upper == 1 - bounds.score_lower(0.41, 1000, 1.0, share)
    assert best.guarantee == "finite-sample"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((math.nan, 10, 0.1, 3.0), "mean score is nan"),
        ((0.5, 0, 0.1, 3.0), "n is 0"),
        ((0.5, 10, 0.0, 3.0), "gamma is 0.0"),
        ((0.5, 10, -0.1, 3.0), "gamma is -0.1"),
        ((0.5, 10, 0.1, 0.0), "log_inv_delta is 0.0"),
    ],
)
def test_what_cannot_be_used_is_refused(arguments, said):
    for bound in (bounds.ix_lower, bounds.ix_linear_lower):
        with pytest.raises(UsageError, match=said):
            bound(*arguments)


def test_more_refusals():
    with pytest.raises(UsageError, match="coverage is -1"):
        bounds.ix_upper_deviation(-1.0, 10, 0.1, 3.0)
    with pytest.raises(UsageError, match="gamma is 0"):
        bounds.ix_upper_deviation_sqrt(1.0, 10, 0.0, 3.0)
    with pytest.raises(UsageError, match="expected equally many numbers"):
        bounds.score_interval([0.5], [0.4, 0.3], [0.1], 10, 3.0)
    with pytest.raises(UsageError, match="at least one"):
        bounds.ix_interval([], [], [], 10, 3.0)
