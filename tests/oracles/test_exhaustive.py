"""The exhaustive oracle finds the best of an explicit list, and its in-sample certificate pays
for the list (D14)."""

import math

import numpy as np
import pytest

import piwo


def noise_log(seed, n=500, policies=1000):
    r = np.random.default_rng(seed)
    A = r.integers(0, 10, n)
    R = r.integers(0, 2, n)
    choices = r.integers(0, 10, (policies, n))
    return (
        piwo.Log.from_arrays(action=A, reward=R, propensity=np.full(n, 0.1), actions=range(10)),
        A,
        R,
        choices,
    )


def test_the_best_of_a_matrix_of_choices():
    log, A, R, choices = noise_log(0)
    policy = piwo.oracles.Exhaustive(choices).solve(log, piwo.IX(0.02))
    naive = ((choices == A) * R / 0.12).mean(axis=1)
    assert piwo.evaluate(log, policy, estimator="ix", gamma=0.02).value == pytest.approx(
        naive.max()
    )
    assert piwo.evaluate(log, policy).value == pytest.approx(0.86)
    assert naive.max() == pytest.approx(0.716667, abs=1e-6)


def test_d14_winner_on_its_own_log_needs_the_union_bound():
    """Best of 1000 policies on pure noise: every true value is .5; a single-policy bound lies in
    most runs."""
    single = union = 0
    for seed in range(40):
        log, _, _, choices = noise_log(seed)
        learner = piwo.PIWO(
            piwo.IX(0.02), piwo.oracles.Exhaustive(choices), certificate="in-sample"
        ).fit(log)
        certificate = learner.certificate_
        assert certificate.kind == "in-sample"
        assert certificate.log_class_size == pytest.approx(math.log(1000))
        union += certificate.value_lower > 0.5
        naive = piwo.bounds.ix_linear_lower(
            piwo.evaluate(log, learner.policy_, estimator="ix", gamma=0.02).value,
            500,
            0.02,
            math.log(20),
        )
        single += naive > 0.5
        if seed == 0:
            assert naive == pytest.approx(0.566880, abs=1e-6)
            paid = piwo.bounds.ix_linear_lower(0.716667, 500, 0.02, math.log(1000 / 0.05))
            assert paid == pytest.approx(0.221492, abs=1e-6)
    # at most delta = .05 and three standard errors
    assert union <= 6
    assert single >= 30  # 92 % over 300 seeds; the naive claim is false nearly always


def test_a_list_of_policies_and_ties_go_to_the_first():
    log = piwo.Log.from_arrays(action=["a", "b"] * 9, reward=[1, 1] * 9, propensity=[0.5] * 18)
    both = [piwo.policies.Constant(x, log.actions) for x in ("b", "a")]
    assert piwo.oracles.Exhaustive(both).solve(log, piwo.IX(0.1)).act(n=1).actions.tolist() == ["b"]


def test_nothing_to_choose_from():
    with pytest.raises(piwo.UsageError, match="at least one"):
        piwo.oracles.Exhaustive([])


@pytest.mark.parametrize(
    "score",
    [piwo.PseudoLoss(0.05), piwo.DoublyRobustLS(0.2, q=0.5, k=3.0), piwo.BaselineRelative(0.2)],
)
def test_dense_gains_credit_every_action_that_a_policy_plays(score):
    from tests.oracles.test_ridge import dense_gains

    r = np.random.default_rng(3)
    n, k = 400, 4
    mu = r.dirichlet(np.ones(k), n)
    A = (r.random((n, 1)) > mu.cumsum(axis=1)).sum(axis=1).clip(0, k - 1)
    R = r.random(n)
    log = piwo.Log.from_arrays(action=A, reward=R, propensities=mu, actions=range(k))
    policies = [piwo.policies.RowWise(r.dirichlet(np.ones(k), n), log.actions) for _ in range(20)]
    table = dense_gains(score, A, R, mu)
    naive = [float((one.table * table).sum()) for one in policies]
    oracle = piwo.oracles.Exhaustive(policies)
    assert oracle.solve(log, score) is policies[int(np.argmax(naive))]
    from piwo.reductions.credit_sums import CreditSums

    found = piwo.reductions.reduce(log, CreditSums(oracle.candidates(log), (score,))).credit[0]
    assert found == pytest.approx(naive, rel=1e-10)

    short = piwo.Log.from_arrays(
        action=A, reward=R, propensity=mu[np.arange(n), A], actions=range(k)
    )
    with pytest.raises(piwo.UsageError, match="full propensity vector"):
        oracle.solve(short, score)
