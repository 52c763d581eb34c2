"""Promises that are easily broken by looking at the data first, each with the log that breaks the
naive way."""

import numpy as np
import pytest

import piwo

pytestmark = pytest.mark.statistics


def uniform_log(k, n, seed, **roles):
    """Return a log of an honest uniform logger over many actions, all worth .8."""
    rng = np.random.default_rng(seed)
    return piwo.Log.from_arrays(
        action=rng.integers(0, k, n),
        reward=(rng.random(n) < 0.8).astype(float),
        propensity=np.full(n, 1 / k),
        **roles,
    )


def naive_lower(log):
    """The interval of a policy that was made from the labels seen, as if it had been fixed
    beforehand."""
    seen = piwo.Actions(
        log.actions.labels
    )  # the same labels, and nothing that says where they came from
    return piwo.evaluate(log, piwo.policies.Uniform(seen)).lower_raw


def test_a_policy_over_the_labels_seen_gets_no_interval():
    """Uniform over what was logged plays nothing that was not: its mean weight is above 1, and
    bounds lie."""
    wrong = 0
    for seed in range(10):
        log = uniform_log(1000, 1000, seed)
        result = piwo.evaluate(log, piwo.policies.Uniform(log.actions))
        assert (result.lower, result.guarantee, result.improvement_lower) == (None, "none", None)
        assert "give the list" in result.notes[0]
        wrong += naive_lower(log) > 0.8
    assert wrong >= 9


def test_with_the_action_list_given_the_interval_holds():
    wrong = 0
    for seed in range(20):
        log = uniform_log(1000, 1000, seed, actions=range(1000))
        result = piwo.evaluate(log, piwo.policies.Uniform(log.actions), delta=0.2)
        assert result.guarantee == "finite-sample"
        wrong += not (result.lower <= 0.8 <= result.upper)
    # delta and three standard errors
    assert wrong <= 0.2 * 20 + 3 * (20 * 0.2 * 0.8) ** 0.5


def test_an_honest_log_of_many_actions_is_not_accused():
    log = uniform_log(1000, 1000, 0)
    health = piwo.check(log)
    assert health.verdict != "unfit" or "propensities" not in str(health.findings[0])
    assert health.propensity_p is None
    assert "logged only once" in str(health)
    assert piwo.check(
        uniform_log(1000, 1000, 0, actions=range(1000))
    ).propensity_p == pytest.approx(1.0, abs=0.5)


@pytest.mark.filterwarnings("ignore:.*actions have.*:piwo.PiwoWarning")
def test_learning_does_not_know_the_labels_of_held_out_rows():
    """Ridge plays an action of score 0 where others are negative; never one that only held-out
    rows have."""
    wrong = 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        n = 1000
        rare = rng.random(n) < 0.3
        label = np.where(rare, rng.integers(0, 100_000, n).astype(str), "common")
        mu = np.where(rare, 0.3 / 100_000, 0.7)
        X = rng.integers(-1, 2, (n, 1)).astype(float)
        log = piwo.Log.from_arrays(context=X, action=label, reward=np.ones(n), propensity=mu)
        parts = log.split(seed=seed)
        held_only = set(map(str, log.actions)) - set(map(str, parts.train.actions))
        assert held_only
        policy = piwo.PIWO(piwo.IX(), piwo.oracles.Ridge(), random_state=seed).fit(log)
        assert not held_only & set(map(str, policy.policy_.actions))
        wrong += policy.certificate_.value_lower > 1.0
    assert wrong <= 30 * 0.05 + 2


def test_levels_of_held_out_rows_are_unknown_to_learning():
    log = piwo.Log.from_arrays(
        context={"city": [f"c{i}" for i in range(40)]},
        action=[0, 1] * 20,
        reward=[1] * 40,
        propensity=[0.5] * 40,
    )
    parts = log.split(seed=1)
    assert parts.train.features.width == parts.train_rows < 40


def test_no_ix_interval_without_an_upper_end_of_the_reward():
    log = piwo.Log.from_arrays(
        action=["a", "b"] * 50,
        reward=[1000.0, 0.0] * 50,
        propensity=[0.5] * 100,
        reward_range=(0, np.inf),
    )
    always = piwo.policies.Constant("a", log.actions)
    with pytest.raises(piwo.UsageError, match="upper end"):
        piwo.evaluate(log, always, estimator="ix", interval="ix")
    assert piwo.evaluate(log, always, estimator="ls", interval="ls").upper is None


def thinned_log():
    """Return a log in which action b is worth more, and its successes were thinned to a tenth."""
    action = ["a"] * 100 + ["b"] * 100
    reward = [1] * 20 + [0] * 80 + [1] * 8 + [0] * 92
    weight = [1.0] * 100 + [10.0] * 8 + [1.0] * 92
    return piwo.Log.from_arrays(action=action, reward=reward, propensity=[0.5] * 200, weight=weight)


@pytest.mark.parametrize("estimator", ["iw", "snips", "cressie-read", "dr"])
def test_normal_intervals_of_logs_whose_failures_were_thinned_hold(estimator):
    """The number of rows that were kept is random, and the sum of the weights with it."""
    wrong = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        action = rng.integers(0, 2, 3000)
        reward = (rng.random(3000) < np.where(action == 1, 0.35, 0.25)).astype(float)
        rate = np.where(reward > 0, 1.0, 0.1)
        kept = rng.random(3000) < rate
        log = piwo.Log.from_arrays(
            action=action[kept],
            reward=reward[kept],
            propensity=np.full(kept.sum(), 0.5),
            weight=1.0 / rate[kept],
            actions=[0, 1],
        )
        policy = piwo.policies.Constant(1, log.actions)
        if estimator == "dr":
            q = np.full((kept.sum(), 2), 0.3)
            found = piwo.estimators.doubly_robust(log, policy, q, delta=0.1)
            wrong += abs(found.value - 0.35) > 1.645 * found.standard_error
            continue
        found = piwo.evaluate(log, policy, estimator=estimator, interval="normal", delta=0.1)
        wrong += not found.lower <= 0.35 <= found.upper
    # 20 and three standard deviations; with the sum of weights as a constant, 76 for "iw"
    assert wrong <= 33


@pytest.mark.parametrize(
    "score", [piwo.IW(), piwo.IX(0.01), piwo.LSLinear(0.01)], ids=lambda s: s.label
)
def test_learning_uses_sampling_weights_as_evaluation_does(score):
    log = thinned_log()
    both = [piwo.policies.Constant(x, log.actions) for x in log.actions]
    assert piwo.evaluate(log, both[1]).value > piwo.evaluate(log, both[0]).value
    learned = piwo.PIWO(score, piwo.oracles.Exhaustive(both), certificate=None).fit(log).policy_
    assert learned.act(n=1).actions.tolist() == ["b"]


def test_ridge_on_a_thinned_log_is_ridge_on_the_repeated_rows():
    rng = np.random.default_rng(0)
    X, A, R = rng.normal(size=(300, 3)), rng.integers(0, 2, 300), (rng.random(300) < 0.5) * 1.0
    s = rng.integers(1, 5, 300)
    roles = {"actions": [0, 1]}
    thin = piwo.Log.from_arrays(
        context=X, action=A, reward=R, propensity=np.full(300, 0.5), weight=s * 1.0, **roles
    )
    rows = np.repeat(np.arange(300), s)
    whole = piwo.Log.from_arrays(
        context=X[rows], action=A[rows], reward=R[rows], propensity=np.full(len(rows), 0.5), **roles
    )
    one, two = (piwo.oracles.Ridge().solve(log, piwo.IX(0.1)) for log in (thin, whole))
    assert np.allclose(one.coef, two.coef, rtol=1e-9)
    assert np.allclose(one.intercept, two.intercept, rtol=1e-9)


def test_clipping_counts_the_rows_that_it_changed_and_no_others():
    rng = np.random.default_rng(0)
    n = 1000
    mu = rng.uniform(0.2, 1.0, n)
    mu[:7] = 0.001
    log = piwo.Log.from_arrays(
        action=["a"] * n,
        reward=rng.random(n),
        propensity=mu,
        policies={"pi": rng.random(n)},
        actions=["a", "b"],
    )
    result = piwo.evaluate(log, piwo.policies.Column("pi"), estimator="clip", gamma=0.01)
    assert result.changed_rows == 7


def test_a_normal_interval_around_a_smoothed_estimate_says_so():
    log = uniform_log(2, 2000, 0, actions=[0, 1])
    always = piwo.policies.Constant(0, log.actions)
    assert piwo.evaluate(log, always, interval="normal").guarantee == "asymptotic"
    smoothed = piwo.evaluate(log, always, estimator="ix", gamma=0.2, interval="normal")
    assert smoothed.guarantee == "asymptotic, for the smoothed value"
    assert smoothed.upper < 0.8


def test_an_in_sample_certificate_pays_for_the_class_once():
    log = uniform_log(2, 500, 0, actions=[0, 1])
    both = [piwo.policies.Constant(x, log.actions) for x in (0, 1)]
    one, many = (
        piwo.PIWO(piwo.IX(gammas), piwo.oracles.Exhaustive(both), certificate="in-sample")
        .fit(log)
        .certificate_
        for gammas in (0.05, (0.05, 0.06, 0.07, 0.08))
    )
    assert many.value_lower == pytest.approx(one.value_lower)
