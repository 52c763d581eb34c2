"""Scores against numbers worked by hand, and against their definitions row by row."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from piwo import bounds
from piwo.errors import UsageError
from piwo.logs import Batch
from piwo.scores import (
    IW,
    IX,
    LS,
    Clip,
    ExponentialSmoothing,
    Freezing,
    FreezingLinear,
    GlobalClip,
    GlobalClipLinear,
    Harmonic,
    IXReward,
    LogClip,
    LogClipLinear,
    LSLinear,
    PseudoLoss,
    Score,
    Shrinkage,
    Switch,
)
from piwo.scores.ratio import log1p_ratio, over, over_propensity

MU = np.array([0.5, 0.1, 0.02, 0.8, 0.3, 0.05])
PI = np.array([1.0, 0.0, 0.5, 0.25, 1.0, 1.0])
REWARD = np.array([1.0, 0.4, 0.8, 0.0, 0.5, 1.0])

GOLDEN = {
    IW(): 7.2777777778,
    IX(0.1): 2.1527777778,
    Clip(0.1): 2.9444444444,
    LS(0.2): 3.2025251116,
    LSLinear(0.2): 2.7768370918,
    IXReward(0.1): 2.2936507937,
    GlobalClip(0.2): 1.3314814815,
    GlobalClipLinear(0.2): 1.1231481481,
    LogClip(0.2): 1.6753738918,
    LogClipLinear(0.2): 1.3865625666,
    Freezing(0.2): 0.5201285909,
    FreezingLinear(0.2): 0.5201285909,
    Harmonic(0.1): 2.6580729725,
    ExponentialSmoothing(0.7): 2.8521190257,
    Shrinkage(10.0): 0.5034684368,
    Switch(5.0): 0.6111111111,
}
AT_BET_02 = [
    IX(0.1),
    IXReward(0.1),
    *(
        kind(0.2)
        for kind in (
            LS,
            LSLinear,
            GlobalClip,
            GlobalClipLinear,
            LogClip,
            LogClipLinear,
            Freezing,
            FreezingLinear,
        )
    ),
]
"""The pessimistic scores, at one bet size; all others are not."""
CURVED = (LS, GlobalClip, LogClip, Freezing, Harmonic, Shrinkage, Switch)
PESSIMISTIC = [score.at_gamma(gamma) for score in AT_BET_02 for gamma in (1e-9, 0.1, 3.5)]

PARTS = st.just(0.0) | st.floats(1e-100, 1.0)
"""Numbers whose products do not underflow: below 1e-308 float64 keeps fewer digits than are
compared here."""


def batch(mu: np.ndarray, reward: np.ndarray, log_mu: np.ndarray | None = None) -> Batch:
    return Batch(0, np.zeros(len(mu), np.int32), reward, mu, log_mu)


def one(mu: float, reward: float, log_mu: float | None = None) -> Batch:
    return batch(np.array([mu]), np.array([reward]), None if log_mu is None else np.array([log_mu]))


@pytest.mark.parametrize("score", GOLDEN, ids=repr)
def test_golden_values(score: Score) -> None:
    rho = score.rho(batch(MU, REWARD), PI)
    assert rho.mean() == pytest.approx(GOLDEN[score], abs=1e-9)
    assert rho[[1, 3]].tolist() == [0.0, 0.0]


def test_golden_value_of_the_self_normalized_estimate() -> None:
    rows = batch(MU, REWARD)
    assert IW().rho(rows, PI).sum() / over_propensity(PI, rows).sum() == pytest.approx(
        0.8621966269, abs=1e-9
    )


def test_golden_value_of_losses_under_ix() -> None:
    assert IX(0.1).rho(batch(MU, REWARD).losses(), PI).mean() == pytest.approx(
        0.3935185185, abs=1e-9
    )


@pytest.mark.parametrize("score", [*GOLDEN, PseudoLoss(0.5)], ids=repr)
def test_what_a_score_says_of_itself(score: Score) -> None:
    rows = batch(MU, REWARD)
    assert score.pessimistic is (score in AT_BET_02)
    assert score.bet == (0.2 if score in AT_BET_02 else None)
    assert score.linear is not isinstance(score, CURVED)
    if score.linear:
        assert np.allclose(PI * score.gains(rows), score.rho(rows, PI), rtol=1e-14)
        half = score.rho(rows, 0.5 * PI)
        assert np.allclose(2 * half, score.rho(rows, PI), rtol=1e-14)
    else:
        with pytest.raises(UsageError, match=r"learn with \w+Linear"):
            score.gains(rows)
    assert score.value == (None if score.parameter is None else getattr(score, score.parameter))


@given(
    mu=st.floats(1e-300, 1.0), pi=PARTS, reward=PARTS,
    score=st.sampled_from(PESSIMISTIC),
)  # fmt: skip
def test_a_pessimistic_score_is_at_most_the_logarithm_of_its_bet(
    mu: float, pi: float, reward: float, score: Score
) -> None:
    rho = float(score.rho(one(mu, reward), np.array([pi]))[0])
    assert score.bet is not None
    y = pi * reward / mu
    top = math.log1p(score.bet * y) / score.bet
    assert 0 <= rho <= top * (1 + 1e-12)


@given(mu=st.floats(1e-6, 1.0), pi=PARTS, reward=PARTS, lam=st.floats(1e-6, 5.0))
def test_the_order_of_the_pessimistic_scores(
    mu: float, pi: float, reward: float, lam: float
) -> None:
    rows, p = one(mu, reward), np.array([pi])
    chains: list[list[Score]] = [
        [IX(lam / 2), IXReward(lam / 2), LSLinear(lam), LS(lam)],
        [Freezing(lam), LogClip(lam), LS(lam)],
        [GlobalClip(lam), LS(lam)],
        [FreezingLinear(lam), LogClipLinear(lam), LSLinear(lam)],
        [GlobalClipLinear(lam), LSLinear(lam)],
    ]
    for chain in chains:
        found = [float(score.rho(rows, p)[0]) for score in chain]
        assert all(a <= b * (1 + 1e-12) for a, b in pairwise(found))


@pytest.mark.parametrize(
    "score", [Clip(), ExponentialSmoothing(), Harmonic(), Shrinkage(), Switch()], ids=repr
)
def test_other_scores_exceed_the_logarithm_of_any_bet(score: Score) -> None:
    """Somewhere among these rows, whatever the bet, so no lower bound of ours may use them."""
    mu = np.geomspace(1e-6, 1.0, 200)
    rows = batch(mu, np.ones(200))
    credit = score.at_gamma(0.01).rho(rows, np.ones(200))
    for lam in (1e-2, 0.02, 0.1, 1.0):
        assert (credit > np.log1p(lam / mu) / lam).any()


def test_a_parameter_that_cannot_exceed_one() -> None:
    for kind in (ExponentialSmoothing, Harmonic):
        with pytest.raises(UsageError, match="above 0 and at most 1"):
            kind(1.5)


@pytest.mark.parametrize("score", [score for score in GOLDEN if score.parameter], ids=repr)
def test_gamma_and_back(score: Score) -> None:
    for gamma in (1e-3, 0.3, 2.0):
        assert score.at_gamma(gamma).gamma_equivalent == pytest.approx(gamma, rel=1e-9)


@pytest.mark.parametrize("score", [score.at_gamma(0.004) for score in AT_BET_02], ids=repr)
def test_lower_bounds_of_pessimistic_scores_hold(score: Score) -> None:
    """Three of four actions are rare and one of them pays: the mean of few, large credits."""
    mu, pi = np.array([0.97, 0.01, 0.01, 0.01]), np.array([0.1, 0.3, 0.3, 0.3])
    chance, n, logs, delta = np.array([0.2, 0.9, 0.5, 0.1]), 4000, 4000, 0.1
    actions = np.arange(4)
    won = score.rho(Batch(0, actions, np.ones(4), mu), pi)
    counts = np.random.default_rng(5).multinomial(n, mu, size=logs)
    wins = np.random.default_rng(6).binomial(counts, chance)
    assert score.bet is not None
    lower = np.array(
        [bounds.score_lower(v, n, score.bet, -math.log(delta)) for v in wins @ won / n]
    )
    value = float(pi @ chance)
    assert (lower > value).mean() <= delta
    assert lower.max() > 0.1  # it says something


@given(mu=st.floats(1e-6, 1.0), pi=PARTS, reward=PARTS, gamma=st.floats(1e-6, 5.0))
def test_smoothing_dominates_implicit_exploration(
    mu: float, pi: float, reward: float, gamma: float
) -> None:
    rows, p = one(mu, reward), np.array([pi])
    ix, linear, smooth, iw = (
        s.rho(rows, p)[0] for s in (IX(gamma), LSLinear(2 * gamma), LS(2 * gamma), IW())
    )
    assert ix <= linear * (1 + 1e-12)
    assert linear <= smooth * (1 + 1e-12)
    assert smooth <= iw * (1 + 1e-12)


@pytest.mark.parametrize("score", [*GOLDEN, *PESSIMISTIC, PseudoLoss(0.1)], ids=repr)
def test_a_row_without_reward_or_probability_never_divides(score: Score) -> None:
    nothing = batch(np.zeros(2), np.array([0.0, 1.0]), np.array([-1000.0, -1000.0]))
    with np.errstate(divide="raise", invalid="raise", over="raise"):
        assert score.rho(nothing, np.array([1.0, 0.0])).tolist() == [0.0, 0.0]


def test_scores_of_propensities_that_underflow() -> None:
    rows = one(0.0, 0.5, -1000.0)
    pi = np.array([1.0])
    with np.errstate(divide="raise", invalid="raise", over="raise"):
        assert IX(0.1).rho(rows, pi)[0] == pytest.approx(5.0)
        assert Clip(0.1).rho(rows, pi)[0] == pytest.approx(5.0)
        # log(1 + 0.2 * 0.5 * e^1000) = 1000 + log(0.1)
        assert LS(0.2).rho(rows, pi)[0] == pytest.approx((1000 + math.log(0.1)) / 0.2, rel=1e-14)
        assert LSLinear(0.2).rho(rows, 0.5 * pi)[0] == pytest.approx(
            (1000 + math.log(0.1)) / 0.4, rel=1e-14
        )
        assert IW().rho(rows, pi)[0] == np.inf
    # a subnormal propensity has few digits; its logarithm has all of them
    assert IW().rho(one(5e-324, 1e-300, -744.9), pi)[0] == pytest.approx(
        math.exp(math.log(1e-300) + 744.9), rel=1e-12
    )
    assert LS(1.0).rho(one(5e-324, 1.0), pi)[0] == pytest.approx(-math.log(5e-324), rel=1e-12)


def test_quotients_beyond_float64_pass_without_a_warning() -> None:
    rows, pi = one(1e-308, 1.0), np.ones(1)
    assert LS(100.0).rho(rows, pi)[0] == pytest.approx(
        (308 * math.log(10) + math.log(100)) / 100, rel=1e-12
    )
    assert IW().rho(one(5e-324, 1.0), pi)[0] == np.inf


def test_ratio_of_nothing_is_nothing() -> None:
    with np.errstate(divide="raise", invalid="raise", over="raise"):
        assert over(np.array([0.0, 0.0, 3.0]), np.array([0.0, 2.0, 2.0])).tolist() == [
            0.0,
            0.0,
            1.5,
        ]
        assert over(np.zeros(0), np.zeros(0)).tolist() == []
        assert log1p_ratio(np.ones(1), np.zeros(1), one(0.0, 1.0, -1e6)).tolist() == [[0.0]]


def test_pseudo_loss_gains_by_hand() -> None:
    rows = Batch(
        0, np.array([1, 0], np.int32), np.array([0.5, 1.0]), np.array([0.25, 0.5]),
        propensities=np.array([[0.25, 0.25, 0.5], [0.5, 0.4, 0.1]]),
    )  # fmt: skip
    # row 0: -beta (4, 4, 2) and 0.5/0.25 = 2 at action 1; row 1: -beta (2, 2.5, 10) and 1/0.5 = 2
    # at action 0
    score = PseudoLoss(0.1)
    gains = score.dense_weight * score.dense_gains(rows).table
    gains[[0, 1], rows.action] += score.gains(rows)
    assert np.allclose(gains, [[-0.4, 1.6, -0.2], [1.8, -0.25, -1.0]], rtol=1e-14)
    assert PseudoLoss(0.0).dense_weight == 0
    assert score.gains(rows).tolist() == [2.0, 2.0]


def test_pseudo_loss_needs_every_action_everywhere() -> None:
    with pytest.raises(UsageError, match="full propensity vector"):
        PseudoLoss(0.1).dense_gains(one(0.5, 1.0))
    rows = Batch(
        7, np.zeros(1, np.int32), np.ones(1), np.ones(1), propensities=np.array([[1.0, 0.0]])
    )
    with pytest.raises(UsageError, match="row 7 gives action code 1 probability 0"):
        PseudoLoss(0.1).dense_gains(rows)


@pytest.mark.parametrize("make", [type(score) for score in GOLDEN if score.parameter])
@pytest.mark.parametrize("value", [0, -0.1, np.nan, np.inf, "0.1", None, True])
def test_a_parameter_is_a_finite_number_above_zero(make: type[Score], value: object) -> None:
    with pytest.raises(UsageError, match="expected a finite number above 0"):
        make(value)  # type: ignore[call-arg]


def test_clip_is_not_pessimistic() -> None:
    """The bound of IX, used with clipping, would be broken by rows just above the threshold."""
    gamma = 0.1
    rho = Clip(gamma).rho(one(gamma, 1.0), np.ones(1))[0]
    assert rho > math.log1p(2 * gamma / gamma) / (2 * gamma)
