"""Intervals with control variates: which policies and logs get them, what they gain, and what
they say where not."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import piwo
from piwo.errors import UsageError


def clicks(**options: Any) -> piwo.Log:
    """Return case I4: the policy's action is logged in one row of ten, and one in a hundred rows
    is clicked."""
    mu = np.tile([0.1, 0.9], (3000, 1))
    action = np.repeat([0, 1], [300, 2700])
    reward = np.zeros(3000)
    reward[[0, 1, 2, *range(300, 327)]] = 1
    given = options or {"propensities": mu}
    return piwo.Log.from_arrays(action=action, reward=reward, actions=[0, 1], **given)


def test_clicks_become_four_times_narrower() -> None:
    log = clicks()
    policy = piwo.policies.Constant(0, log.actions)
    plain, varied = (
        piwo.evaluate(log, policy, interval=name) for name in ("mixture", "mixture-cv")
    )
    assert (plain.interval, varied.interval, varied.guarantee) == (
        "mixture",
        "mixture-cv",
        "finite-sample",
    )
    assert plain.upper - plain.lower == pytest.approx(0.19, abs=0.01)
    assert varied.upper - varied.lower == pytest.approx(0.053, abs=0.003)
    assert plain.value == varied.value == pytest.approx(0.01)
    assert not any("narrower" in note for note in varied.notes)


@pytest.mark.parametrize("interval", ["auto", "deadline"])
def test_logged_propensities_alone_give_plain_deadline_bets(interval: str) -> None:
    log = clicks(propensity=np.repeat([0.1, 0.9], [300, 2700]))
    result = piwo.evaluate(log, piwo.policies.Constant(0, log.actions), interval=interval)
    assert result.interval == "deadline"
    said = [note for note in result.notes if "narrower intervals are possible" in note]
    assert len(said) == (interval == "auto")
    assert all("every action (propensities)" in note for note in said)


def test_a_behavior_policy_serves_as_well_as_vectors() -> None:
    log = clicks()
    behavior = piwo.policies.Tabular([0.1, 0.9], [0, 1])
    context = np.zeros((3000, 1))
    batch = next(iter(log.each_batch()))
    given = piwo.Log.from_arrays(
        action=batch.action,
        reward=batch.reward,
        context=context,
        behavior=Known(behavior),
        actions=[0, 1],
    )
    one, other = (piwo.evaluate(x, piwo.policies.Constant(0, x.actions)) for x in (log, given))
    assert other.interval == "deadline-cv"
    assert (other.lower, other.upper) == (
        pytest.approx(one.lower, rel=1e-9),
        pytest.approx(one.upper, rel=1e-9),
    )


class Known:
    """A behavior policy as an object of another library."""

    def __init__(self, policy: piwo.policies.Tabular) -> None:
        self.policy = policy

    def probabilities(self, context: Any) -> Any:
        return self.policy.probabilities(n=len(context))


def test_a_policy_known_on_logged_actions_alone() -> None:
    log = clicks()
    pi = (np.arange(3000) < 300).astype(float)
    result = piwo.evaluate(log, pi)
    assert result.interval == "deadline"
    assert any("give full vectors" in note for note in result.notes)
    with pytest.raises(
        UsageError, match=r"interval='mixture-cv': the policy has.*use interval='mixture'"
    ):
        piwo.evaluate(log, pi, interval="mixture-cv")


def test_rows_in_another_order_give_the_same_interval() -> None:
    log = clicks()
    batch = next(iter(log.each_batch(propensities=True)))
    order = np.random.default_rng(0).permutation(3000)
    shuffled = piwo.Log.from_arrays(
        action=batch.action[order],
        reward=batch.reward[order],
        propensities=batch.propensities[order],
        actions=[0, 1],
    )
    one, other = (
        piwo.evaluate(x, piwo.policies.Uniform(x.actions), interval="mixture-cv")
        for x in (log, shuffled)
    )
    assert (one.lower, one.upper) == (
        pytest.approx(other.lower, rel=1e-12),
        pytest.approx(other.upper, rel=1e-12),
    )


def test_the_logging_policy_and_others_in_one_comparison() -> None:
    log = clicks()
    found = piwo.compare(
        log, {"logging": piwo.policies.Logging(), "first": piwo.policies.Constant(0, log.actions)}
    )
    assert [one.interval for one in found.values()] == ["deadline-cv", "deadline-cv"]
    assert found["logging"].lower < found["logging"].value < found["logging"].upper
    alone = piwo.evaluate(log, piwo.policies.Constant(0, log.actions))
    assert found["first"].lower < alone.lower < alone.upper < found["first"].upper


def test_the_improvement_bound_gains_too() -> None:
    rng = np.random.default_rng(1)
    n, many = 2000, 10
    action = np.arange(n) % many
    reward = (rng.random(n) < np.linspace(0.1, 0.9, many)[action]).astype(float)
    log = piwo.Log.from_arrays(
        action=action, reward=reward, propensities=np.full((n, many), 1 / many), actions=range(many)
    )
    policy = piwo.policies.Constant(9, log.actions)
    plain, varied = (
        piwo.evaluate(log, policy, interval=name) for name in ("mixture", "mixture-cv")
    )
    assert plain.improvement_lower is not None
    assert varied.improvement_lower is not None
    assert plain.improvement_lower + 0.05 < varied.improvement_lower < 0.4


def test_rewards_without_an_upper_end_have_a_lower_end_only() -> None:
    log = clicks()
    batch = next(iter(log.each_batch(propensities=True)))
    open_ended = piwo.Log.from_arrays(
        action=batch.action,
        reward=5 * batch.reward,
        propensities=batch.propensities,
        actions=[0, 1],
        reward_range=(0, np.inf),
    )
    result = piwo.evaluate(open_ended, piwo.policies.Constant(0, log.actions))
    assert (result.interval, result.upper, result.improvement_lower) == ("deadline-cv", None, None)
    assert result.lower > 0


def test_a_thinned_log_has_no_interval_and_no_advice() -> None:
    mu = np.tile([0.1, 0.9], (3000, 1))
    action = np.repeat([0, 1], [300, 2700])
    log = piwo.Log.from_arrays(
        action=action,
        reward=np.zeros(3000),
        propensities=mu,
        weight=np.full(3000, 2.0),
        actions=[0, 1],
    )
    for interval in ("auto", "mixture-cv"):
        result = piwo.evaluate(log, piwo.policies.Constant(0, log.actions), interval=interval)
        assert (result.lower, result.guarantee) == (None, "none")
        assert not any("narrower" in note for note in result.notes)


def adaptive(rng: np.random.Generator, n: int) -> tuple[piwo.Log, float]:
    """Return a log of a learner that turns to whichever of two actions did better so far, and the
    worse one's value."""
    chance, won, tried = np.array([0.35, 0.5]), np.ones(2), np.full(2, 2.0)
    mu, action, reward = np.empty((n, 2)), np.empty(n, int), np.empty(n)
    for t in range(n):
        leader = int(won[1] / tried[1] > won[0] / tried[0])
        mu[t] = 0.05
        mu[t, leader] = 0.95
        action[t] = rng.random() < mu[t, 1]
        reward[t] = rng.random() < chance[action[t]]
        won[action[t]] += reward[t]
        tried[action[t]] += 1
    return piwo.Log.from_arrays(
        action=action, reward=reward, propensities=mu, actions=range(2)
    ), float(chance[0])


@pytest.mark.parametrize("q", [None, "forward"])
def test_the_logger_may_learn(q: str | None) -> None:
    """30 logs of 400 rows at delta = .1: at most delta and three standard errors."""
    rng = np.random.default_rng(6)
    misses = 0
    for _ in range(30):
        log, value = adaptive(rng, 400)
        log = replace(log, logger="learning")
        found = piwo.evaluate(log, piwo.policies.Constant(0, log.actions), delta=0.1, q=q)
        assert found.interval == "mixture-cv"
        misses += not found.lower <= value <= found.upper
    assert misses / 30 <= 0.1 + 3 * np.sqrt(0.09 / 30)
