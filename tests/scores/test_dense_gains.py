"""Scores that credit actions not taken: by hand, in expectation, beyond float64, and what they
cure."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import piwo
from piwo.logs import Batch
from piwo.scores import BaselineRelative, DoublyRobustLS, Score

PART = st.floats(0.0, 1.0)


def batch(mu: list[float], action: int, reward: float) -> Batch:
    vector = np.array([mu])
    return Batch(
        0, np.array([action], np.int32), np.array([reward]), vector[:, action], propensities=vector
    )


def bets(score: Score, rows: Batch) -> np.ndarray:
    """Y_t(a), from the gains."""
    return np.expm1(score.number * score.dense_gains(rows).table) / score.number


def test_doubly_robust_gains_by_hand() -> None:
    # k = 2: b = min(.6, 2 (.5, .1, .4)) = (.6, .2, .6); logged action 1: (1 - .2)/.1 + .2 + 2 =
    # 10.2
    found = bets(DoublyRobustLS(0.3, q=0.6, k=2.0), batch([0.5, 0.1, 0.4], 1, 1.0))
    assert found == pytest.approx(np.array([[2.6, 10.2, 2.6]]), rel=1e-12)


def test_gains_over_the_logger_by_hand() -> None:
    # logged action 1, R = .5: .9 * .5/.1 + .1 = 4.6; others 1 - .5 + mu
    found = bets(BaselineRelative(0.3), batch([0.5, 0.1, 0.4], 1, 0.5))
    assert found == pytest.approx(np.array([[1.0, 4.6, 0.9]]), rel=1e-12)


@given(
    raw=st.tuples(PART, PART, PART),
    chance=st.tuples(PART, PART, PART),
    q=st.floats(0, 2),
    k=st.floats(0.01, 9),
)
def test_the_bets_have_the_mean_that_bounds_rest_on(
    raw: tuple, chance: tuple, q: float, k: float
) -> None:
    """E Y(a) = r(a) + k, or r(a) - v(mu) + 1; exactly, over all six outcomes of one row."""
    weights = np.array(raw) + 1e-3
    mu = (weights / weights.sum()).tolist()
    doubly, relative = np.zeros(3), np.zeros(3)
    for action, won in itertools.product(range(3), (0, 1)):
        share = mu[action] * (chance[action] if won else 1 - chance[action])
        doubly += share * bets(DoublyRobustLS(0.5, q, k), batch(mu, action, won))[0]
        relative += share * bets(BaselineRelative(0.5), batch(mu, action, won))[0]
    assert doubly == pytest.approx(np.array(chance) + k, rel=1e-9)
    assert relative == pytest.approx(np.array(chance) - np.dot(mu, chance) + 1, rel=1e-9)


@given(
    mu=st.floats(1e-300, 1.0),
    reward=PART,
    q=st.floats(0, 5),
    k=st.floats(1e-3, 50),
    action=st.integers(0, 1),
)
def test_no_bet_is_below_zero(mu: float, reward: float, q: float, k: float, action: int) -> None:
    rows = (
        batch([mu, 1 - mu], action, reward)
        if action == 0 or mu < 1
        else batch([1.0, 0.0], 0, reward)
    )
    for score in (DoublyRobustLS(0.5, q, k), BaselineRelative(0.5)):
        gains = score.dense_gains(rows).table
        assert np.isfinite(gains).all()
        assert (gains >= 0).all()


def test_propensities_beyond_float64() -> None:
    """log mu = -1000: Y = R/mu + ..., and log(1 + lam Y) = log lam + 1000."""
    rows = Batch(
        0,
        np.zeros(1, np.int32),
        np.ones(1),
        np.zeros(1),
        np.array([-1000.0]),
        propensities=np.array([[0.0, 1.0]]),
    )
    for score in (DoublyRobustLS(0.5, 0.5, 4.0), BaselineRelative(0.5)):
        assert score.dense_gains(rows).table[0, 0] * 0.5 == pytest.approx(
            np.log(0.5) + 1000, rel=1e-12
        )


def test_what_they_need_and_do_not_take() -> None:
    short = Batch(0, np.zeros(1, np.int32), np.ones(1), np.ones(1))
    for score in (DoublyRobustLS(0.5, 0.5), BaselineRelative(0.5)):
        with pytest.raises(piwo.UsageError, match="full propensity vector"):
            score.dense_gains(short)
    with pytest.raises(piwo.UsageError, match="q is -1"):
        DoublyRobustLS(q=-1.0)
    with pytest.raises(piwo.UsageError, match="k is 0"):
        DoublyRobustLS(k=0)
    with pytest.raises(piwo.UsageError, match="q of DR-LS is 'auto'"):
        DoublyRobustLS(q="auto")
    log = piwo.Log.from_arrays(
        context=[[0.0], [1.0]] * 9,
        action=[0, 1] * 9,
        reward=[1.0] * 18,
        propensities=[[0.5, 0.5]] * 18,
        actions=[0, 1],
    )
    with pytest.raises(piwo.UsageError, match="DR-LS credits every action of a row"):
        piwo.oracles.Classifier().solve(log, DoublyRobustLS(0.5, 0.5))
    open_end = piwo.Log.from_arrays(
        context=[[0.0]],
        action=[0],
        reward=[3.0],
        propensities=[[0.5, 0.5]],
        actions=[0, 1],
        reward_range=(0, np.inf),
    )
    with pytest.raises(piwo.UsageError, match="baseline-relative needs rewards with an upper end"):
        piwo.PIWO(BaselineRelative(), piwo.oracles.Ridge()).fit(open_end)


def test_a_learner_chooses_q_and_k_by_certificate() -> None:
    log = costs(2000)
    learner = piwo.PIWO(DoublyRobustLS(0.1, q=(0.5, 0.9), k=[1, 4]), piwo.oracles.Ridge()).fit(log)
    assert list(learner.path_) == [
        (0.1, 0.5, 1.0),
        (0.1, 0.5, 4.0),
        (0.1, 0.9, 1.0),
        (0.1, 0.9, 4.0),
    ]
    assert learner.rule_ == "lam as given; chosen by certificate among 4 settings of DR-LS"
    assert learner.certificate_.candidates <= 4
    assert learner.certificate_.value_lower == max(
        p.certificate.value_lower for p in learner.path_.values()
    )
    with pytest.raises(piwo.UsageError, match="chosen from by certificate"):
        piwo.PIWO(DoublyRobustLS(0.1, q=(0.5, 0.9)), piwo.oracles.Ridge(), certificate=None).fit(
            log
        )


def costs(n: int, seed: int = 0) -> piwo.Log:
    """Costs of 0 to 2 in a declared range of 0 to 20; the best action depends on x, the logger
    prefers a poor one."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    mu = np.tile([0.7, 0.15, 0.15], (n, 1))
    action = (rng.random((n, 1)) > mu.cumsum(axis=1)).sum(axis=1)
    mean = np.column_stack([np.full(n, 1.2), 1.0 - 0.8 * np.sign(x), 1.0 + 0.8 * np.sign(x)])
    cost = np.clip(mean[np.arange(n), action] + 0.1 * rng.normal(size=n), 0, 2)
    return piwo.Log.from_arrays(
        context=np.column_stack([x, np.sign(x)]), action=action, reward=-cost, propensities=mu,
        actions=range(3), reward_range=(-20, 0),
    )  # fmt: skip


def test_costs_over_a_wide_range_do_not_make_the_learner_imitate_the_logger() -> None:
    """On the unit scale all rewards are about .95, and without a guess what is logged most
    collects most."""
    log = costs(20_000)
    contexts = np.column_stack([np.linspace(-2, 2, 400), np.sign(np.linspace(-2, 2, 400))])
    best = np.where(contexts[:, 0] > 0, 1, 2)

    def right(score: Score) -> float:
        found = piwo.PIWO(score, piwo.oracles.Ridge(), certificate=None).fit(log).policy_
        return float((found.choose(contexts) == best).mean())

    assert right(piwo.IX()) < 0.5
    assert right(piwo.LSLinear()) < 0.5
    assert right(DoublyRobustLS(q=0.9)) > 0.99
