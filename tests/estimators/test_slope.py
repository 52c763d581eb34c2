"""SLOPE: the rule by hand, and that it tunes."""

import math

import numpy as np
import pytest
from scipy import stats

import piwo
from piwo.estimators import slope
from piwo.simulate import Bandit


def test_the_rule_by_hand() -> None:
    """Two rows in three have weight 2: clip at .5 changes nothing, at .8 divides by .8 where IW
    divides by .5."""
    log = piwo.Log.from_arrays(
        action=["a", "a", "b"] * 20, reward=[1, 0, 1] * 20, propensity=[0.5] * 60
    )
    policy = piwo.policies.Constant("a", log.actions)
    found = slope(log, policy, "clip", [0.8, 0.25, 1.0], delta=0.1)
    assert [point.gamma for point in found.path] == [0.25, 0.8, 1.0]  # widest first
    for point, weight in zip(found.path, (2.0, 1.25, 1.0), strict=True):
        credit = np.tile([weight, 0.0, 0.0], 20)
        width = stats.t.ppf(0.95, 59) * credit.std(ddof=1) / math.sqrt(60)
        assert point.value == pytest.approx(credit.mean())
        assert point.half_width == pytest.approx(width)
    # .667 -+ .205, .417 -+ .128, .333 -+ .103: |.667 - .417| <= .128 + 1.449 .205, |.667 - .333| <=
    # .103 + .297
    assert found.gamma == 1.0
    assert found.guarantee == "none"


def test_it_stops_where_bias_shows() -> None:
    log = piwo.Log.from_arrays(
        action=["a", "b"] * 2000, reward=[1, 0] * 2000, propensity=[0.5] * 4000
    )
    found = slope(log, piwo.policies.Constant("a", log.actions), "clip", [0.25, 0.5, 0.6, 1.0])
    assert found.gamma == 0.5
    assert [point.kept for point in found.path] == [True, True, False, False]


def test_the_error_is_within_a_constant_of_the_best_on_the_path() -> None:
    """The theorem: error <= (sqrt(6) + 3) min over the path of bias + half width, in 1 - delta of
    the logs."""
    bandit = Bandit("rare", (math.log(0.01), math.log(0.99)), (0.3, 0.7), (0.5, 0.4))
    within = []
    for seed in range(40):
        found = slope(bandit.log(1000, random_state=seed), bandit.policy, "clip")
        bias = {
            point.gamma: sum(
                p * r * (1 - m / max(m, point.gamma))
                for p, r, m in zip(bandit.pi, bandit.chance, bandit.mu, strict=True)
            )
            for point in found.path
        }
        best = min(bias[point.gamma] + point.half_width for point in found.path)
        within.append(abs(found.value - bandit.value) <= (math.sqrt(6) + 3) * best)
    assert np.mean(within) >= 0.9


def test_wrong_arguments() -> None:
    log = piwo.Log.from_arrays(action=["a", "b"], reward=[1, 0], propensity=[0.5, 0.5])
    policy = piwo.policies.Uniform(log.actions)
    with pytest.raises(piwo.UsageError, match="no hyper-parameter"):
        slope(log, policy, "snips")
    with pytest.raises(piwo.UsageError, match="gammas is empty; pass at least one"):
        slope(log, policy, "clip", [])
    with pytest.raises(piwo.UsageError, match="gammas is -1"):
        slope(log, policy, "clip", [0.1, -1.0])


@pytest.mark.parametrize("estimator", ["switch", "shrinkage", "clip"])
def test_doubly_robust_paths_are_the_estimates_themselves(estimator) -> None:
    """The values and widths on the path are those of `doubly_robust` with the same weights."""
    rng = np.random.default_rng(0)
    n, mu = 500, np.array([0.8, 0.15, 0.05])
    action = rng.choice(3, n, p=mu)
    log = piwo.Log.from_arrays(
        action=action, reward=rng.random(n), propensity=mu[action], actions=range(3)
    )
    q, policy = np.tile([0.4, 0.5, 0.7], (n, 1)), piwo.policies.Uniform(range(3))
    found = slope(log, policy, estimator, [1.0, 0.25, 0.05], q=q)
    assert found.estimator == f"dr-{estimator}"
    for point in found.path:
        weights = piwo.scores.SCORES[estimator]().at_gamma(point.gamma)
        twin = piwo.estimators.doubly_robust(log, policy, q, weights=weights)
        assert point.value == pytest.approx(twin.value)
        assert point.half_width == pytest.approx(stats.t.ppf(0.95, n - 1) * twin.standard_error)


def test_a_right_model_needs_no_large_weights() -> None:
    """If q is the reward, no smoothing is biased, and the smoothest estimate is chosen."""
    n = 400
    action = np.arange(n) % 2
    log = piwo.Log.from_arrays(
        action=action, reward=0.2 + 0.6 * action, propensity=np.full(n, 0.5), actions=[0, 1]
    )
    policy = piwo.policies.Constant(1, [0, 1])
    found = slope(log, policy, "clip", [0.1, 0.6, 0.9], q=np.tile([0.2, 0.8], (n, 1)))
    assert found.value == pytest.approx(0.8)
    assert all(point.kept for point in found.path)


def test_a_model_needs_the_whole_policy() -> None:
    log = piwo.Log.from_arrays(
        action=[0, 1] * 9, reward=[0, 1] * 9, propensity=[0.5] * 18, policies={"new": [0.5] * 18}
    )
    with pytest.raises(piwo.UsageError, match="full vectors"):
        slope(log, piwo.policies.Column("new"), q=lambda x: x)
