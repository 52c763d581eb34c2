"""Grids of other scores than linear LS and IX, and rewards predicted by a model that the learner
fits itself."""

import math

import numpy as np
import pytest

import piwo
from benchmarks.statistics.dr_ls import Small
from piwo import UsageError, bounds, scores
from piwo.estimators import forward_model
from piwo.oracles import Exhaustive, Ridge
from piwo.policies import Constant, Deterministic, Tabular
from piwo.policies.sameness import same_policy

pytestmark = pytest.mark.statistics

FORWARD = piwo.DoublyRobustLS(q="forward")
ADMISSIBLE = (
    piwo.LSLinear(),
    piwo.IX(),
    scores.IXReward(),
    scores.GlobalClipLinear(),
    scores.LogClipLinear(),
    scores.FreezingLinear(),
    FORWARD,
    piwo.BaselineRelative(),
)


def make_log(n=1200, seed=0, **more):
    """Action 1 is right where x > 0, the others half as often; the logger prefers 0."""
    rng = np.random.default_rng(seed)
    x, mu = rng.normal(size=(n, 2)), np.array([0.5, 0.3, 0.2])
    a = rng.choice(3, size=n, p=mu)
    r = (rng.random(n) < 0.3 + 0.5 * ((x[:, 0] > 0) == (a == 1))) * 1.0
    return piwo.Log.from_arrays(
        context=x, action=a, reward=r, propensities=np.tile(mu, (n, 1)), actions=range(3), **more
    )


def some(log) -> Exhaustive:
    right = Deterministic(lambda X: (np.asarray(X)[:, 0] > 0) * 1, [0, 1, 2])
    return Exhaustive(
        [
            right,
            *(Constant(x, log.actions) for x in log.actions),
            Tabular([0.2, 0.7, 0.1], log.actions),
        ]
    )


@pytest.mark.parametrize("score", ADMISSIBLE, ids=lambda score: score.name)
def test_every_admissible_score_has_a_grid(score) -> None:
    log = make_log()
    held = piwo.PIWOGrid(score, Ridge()).fit(log)
    assert held.certificate_.kind == "held-out"
    assert held.certificate_.candidates <= len(held.path_)
    least = "improvement_lower" if score.relative else "value_lower"
    assert getattr(held.certificate_, least) == max(point.lower for point in held.path_.values())
    oracle = some(log)
    inside = piwo.PIWOGrid(score, oracle).fit(log)
    assert inside.certificate_.kind == "in-sample"
    assert same_policy(inside.policy_, oracle.policies[0])
    best = max(inside.path_.values(), key=lambda point: (point.lower, point.gamma))
    assert (inside.score_, inside.policy_) == (best.score, best.policy)
    if score.pessimistic:  # one event: the mixture bounds of the whole class
        assert inside.certificate_.bound == "mixture"
        assert all(point.lower <= point.certificate.value_lower for point in inside.path_.values())


@pytest.mark.parametrize(
    ("score", "said"),
    [
        (piwo.IW(), "no grid for IW, whose mean bounds nothing; expected LSLinear"),
        (piwo.Clip(), "no grid for Clip"),
        (piwo.PseudoLoss(), "no grid for"),
        (scores.ExponentialSmoothing(), "no grid for"),
        (scores.LogClip(), "is not linear in the policy"),
    ],
)
def test_scores_that_bound_nothing_have_none(score, said) -> None:
    with pytest.raises(UsageError, match=said):
        piwo.PIWOGrid(score, Ridge()).fit(make_log(60))


def naive_lowers(log, policies, lam, q, k, penalty) -> np.ndarray:
    """(N,) bounds of doubly robust LS, by tables of rows by actions."""
    (batch,) = log.each_batch(context=True, propensities=True)
    t, mu = np.arange(len(batch)), batch.propensities
    b = np.minimum(q, k * mu)
    y = b + k
    y[t, batch.action] += (batch.reward - b[t, batch.action]) / mu[t, batch.action]
    gains = np.log1p(lam * y) / lam
    g = np.array([(policy.full(batch) * gains).sum(axis=1).mean() for policy in policies])
    return (np.exp(lam * g - penalty / len(batch)) - 1) / lam - k


def test_bounds_with_a_fitted_model_are_the_naive_ones() -> None:
    log = make_log()
    oracle = some(log)
    learner = piwo.PIWOGrid(FORWARD, oracle).fit(log)
    (batch,) = log.each_batch(context=True)
    q = np.maximum(forward_model(log).of(batch), 0.0)
    assert learner.grid_.penalty == bounds.gamma_grid_ls(1200, math.log(5), 0.05).penalty
    for gamma, point in learner.path_.items():
        lowers = naive_lowers(log, oracle.policies, 2 * gamma, q, 4.0, learner.grid_.penalty)
        assert point.lower == pytest.approx(lowers.max(), rel=1e-9)
        assert same_policy(point.policy, oracle.policies[int(lowers.argmax())])
    assert learner.rule_.endswith(
        "values of lam; q fitted forward, for each row on earlier training rows"
    )


def test_every_setting_is_paid_for() -> None:
    log = make_log(600)
    score = piwo.DoublyRobustLS(q=(0.25, 0.5, 0.75), k=(1.0, 4.0))
    learner = piwo.PIWOGrid(score, some(log)).fit(log)
    grid = bounds.gamma_grid_ls(600, math.log(5) + math.log(6), 0.05)
    assert learner.grid_ == grid
    assert set(learner.path_) == {
        (lam, q, k) for lam in grid.bets for q in (0.25, 0.5, 0.75) for k in (1.0, 4.0)
    }
    lam, q, k = learner.score_.key
    lowers = naive_lowers(log, learner.oracle.policies, lam, np.full((600, 3), q), k, grid.penalty)
    assert learner.path_[lam, q, k].lower == pytest.approx(lowers.max(), rel=1e-9)
    assert "settings of DR-LS" in learner.rule_


def test_gains_over_the_logger_in_sample_are_the_naive_ones() -> None:
    log = make_log(800)
    learner = piwo.PIWOGrid(piwo.BaselineRelative(), some(log)).fit(log)
    (batch,) = log.each_batch(context=True, propensities=True)
    t, a, r, mu = np.arange(800), batch.action, batch.reward, batch.propensities
    y = (1 - r)[:, None] + mu
    y[t, a] = (1 - mu[t, a]) * r / mu[t, a] + mu[t, a]
    for gamma, point in learner.path_.items():
        lam = 2 * gamma
        gains = np.log1p(lam * y) / lam
        g = (point.policy.full(batch) * gains).sum(axis=1).mean()
        low = (math.exp(lam * g - learner.grid_.penalty / 800) - 1) / lam - 1
        assert point.lower == pytest.approx(low, rel=1e-9)


def test_the_model_never_sees_the_held_out_rows() -> None:
    log = make_log()
    train = log.split(0.5, 0).train
    for learner in (
        piwo.PIWO(piwo.DoublyRobustLS(0.1, q="forward"), Ridge()),
        piwo.PIWOGrid(FORWARD, Ridge()),
    ):
        learner.fit(log)
        np.testing.assert_array_equal(learner.score_.q.coef, forward_model(train).coef)
        assert learner.certificate_.kind == "held-out"
    pool = [piwo.learners.Candidate("dr", Ridge(), piwo.DoublyRobustLS(0.1, q="forward"))]
    auto = piwo.Auto(pool).fit(log)
    assert auto.certificate_.improves
    assert auto.refitted_


def test_bounds_hold_in_sample_with_a_model_that_overfits() -> None:
    """40 logs of 300 rows, twelve columns of noise, a rare good action, delta = .4, of which
    bounds have half."""
    delta, wrong, logs, mu = 0.4, 0, 40, np.array([0.03, 0.37, 0.6])
    chance = np.array([0.9, 0.5, 0.2])
    for seed in range(logs):
        rng = np.random.default_rng(seed)
        a = rng.choice(3, size=300, p=mu)
        log = piwo.Log.from_arrays(
            action=a,
            reward=(rng.random(300) < chance[a]) * 1.0,
            propensities=np.tile(mu, (300, 1)),
            context=rng.normal(size=(300, 12)),
            actions=range(3),
        )
        every = Exhaustive(
            [*(Constant(x, log.actions) for x in range(3)), Tabular([0.5, 0.5, 0.0], log.actions)]
        )
        learner = piwo.PIWOGrid(FORWARD, every, delta=delta).fit(log)
        wrong += any(
            point.lower is None  # the rows seem to contradict their propensities
            or point.lower > float(point.policy.distribution(None, 1)[0] @ chance)
            for point in learner.path_.values()
        )
    assert wrong <= delta / 2 * logs


def test_a_fitted_model_learns_as_well_as_a_good_guess() -> None:
    """Of 300 policies over twenty contexts it finds a good one, where linear LS falls behind;
    nobody gave a guess."""
    regrets: dict[str, list[float]] = {"ls-linear": [], "dr-ls": []}
    for seed in range(5):
        bandit = Small.of(seed, policies=60)
        batch = bandit.batch(2000, np.random.default_rng([seed, 1]))
        context = batch.context[:, 0].astype(int)
        log = piwo.Log.from_arrays(
            context=np.eye(20)[context],
            action=batch.action,
            reward=batch.reward,
            propensities=batch.propensities,
            actions=range(5),
        )
        for score in (piwo.LSLinear(), piwo.DoublyRobustLS(q="forward", k=8.0)):
            learner = piwo.PIWOGrid(score, Exhaustive(bandit.choice[:, context])).fit(log)
            at = next(
                i
                for i, row in enumerate(bandit.choice)
                if (row[context] == learner.policy_.codes).all()
            )
            regrets[score.name].append(bandit.values.max() - bandit.values[at])
            assert max(point.lower for point in learner.path_.values()) < bandit.values[at]
    assert np.mean(regrets["dr-ls"]) < np.mean(regrets["ls-linear"]) / 2


def test_what_is_told_in_one_line() -> None:
    log = make_log(60)
    with pytest.raises(
        UsageError, match="q of DR-LS is 'backward', expected a number, or several, or 'forward'"
    ):
        piwo.DoublyRobustLS(q="backward")
    with pytest.raises(UsageError, match="which a learner fits; learn with PIWO, PIWOGrid or Auto"):
        Ridge().solve(log, piwo.DoublyRobustLS(0.1, q="forward"))
    with pytest.raises(UsageError, match="LSLinear takes no reward model"):
        piwo.LSLinear().with_model("forward")
    with pytest.raises(UsageError, match="no theorem bounds the regret with LogClip"):
        piwo.PIWOGrid(scores.LogClipLinear(), some(log)).fit(log).regret_bound(1.0)
    endless = make_log(60, reward_range=(0, math.inf))
    with pytest.raises(UsageError, match="needs rewards with an upper end"):
        piwo.PIWOGrid(piwo.BaselineRelative(), Ridge()).fit(endless)
    assert math.isfinite(piwo.PIWOGrid(FORWARD, Ridge()).fit(endless).certificate_.value_lower)


def test_rows_in_no_fixed_order_are_refused() -> None:
    sql = "select range % 2 as a, (range % 3 = 0)::int as r, .5 as p from range(40)"
    log = piwo.Log.from_sql(sql, action="a", reward="r", propensity="p", actions=[0, 1])
    with pytest.raises(UsageError, match="may give its rows in another order at each pass"):
        forward_model(log)
