"""PAC-Bayes bounds: the Gibbs posterior by hand, for all posteriors together in simulation, and
what they reduce to."""

import math

import numpy as np
import pytest

from piwo import UsageError, bounds
from piwo.simulate import adversarial_bandits

DELTA = 0.05


def test_the_gibbs_posterior_by_hand():
    """exp(2 * 2 * log(3)/4) = 3: prior 1/2 1/2 gives 1/4 3/4, prior 3/4 1/4 gives 1/2 1/2."""
    values = [0.0, math.log(3) / 4]
    for prior, weights, partition in (
        ([0.5, 0.5], [0.25, 0.75], 2.0),
        ([0.75, 0.25], [0.5, 0.5], 1.5),
    ):
        gibbs = bounds.gibbs_posterior(values, prior, n=2, bet=2.0)
        assert gibbs.weights == pytest.approx(weights, rel=1e-12)
        assert gibbs.log_partition == pytest.approx(math.log(partition), rel=1e-12)
        assert gibbs.value == pytest.approx(weights[1] * math.log(3) / 4, rel=1e-12)
        assert gibbs.kl == pytest.approx(bounds.kl_divergence(weights, prior), abs=1e-12)


def test_no_posterior_reaches_more_than_gibbs():
    rng = np.random.default_rng(0)
    values, prior = rng.random(5), rng.dirichlet(np.ones(5))
    best = bounds.gibbs_posterior(values, prior, n=30, bet=0.2)
    for other in rng.dirichlet(np.full(5, 0.3), 200):
        assert (
            6.0 * values @ other - bounds.kl_divergence(other, prior) <= best.log_partition + 1e-12
        )
    assert 6.0 * best.value - best.kl == pytest.approx(best.log_partition, rel=1e-12)


def test_one_policy_under_a_uniform_prior_pays_the_union_bound():
    point, uniform = np.eye(200)[3], np.full(200, 1 / 200)
    kl = bounds.kl_divergence(point, uniform)
    assert kl == pytest.approx(math.log(200), rel=1e-12)
    assert bounds.pac_bayes_lower(0.5, kl, 1000, 0.1, math.log(20)) == pytest.approx(
        bounds.score_lower(
            0.5, 1000, 0.1, bounds.log_inv_delta(DELTA, log_class_size=math.log(200))
        ),
        rel=1e-12,
    )


def test_what_the_prior_rules_out_costs_everything():
    assert bounds.kl_divergence([0.5, 0.5], [1.0, 0.0]) == math.inf
    assert bounds.pac_bayes_lower(0.5, math.inf, 1000, 0.1, 3.0) == -10.0
    gibbs = bounds.gibbs_posterior([0.1, 0.9], [1.0, 0.0], n=10, bet=1.0)
    assert gibbs.weights.tolist() == [1.0, 0.0]
    assert gibbs.kl == 0.0


def test_huge_logs_do_not_overflow():
    gibbs = bounds.gibbs_posterior([0.5, 0.4], [1e-300, 1.0], n=10**8, bet=2.0)
    assert gibbs.weights.tolist() == [1.0, 0.0]
    assert gibbs.kl == pytest.approx(300 * math.log(10))


def test_the_divergence_of_normals_by_quadrature():
    x = np.linspace(-12, 12, 400_001)

    def density(mean, scale):
        return np.exp(-(((x - mean) / scale) ** 2) / 2) / (scale * math.sqrt(2 * math.pi))

    q, p = density(0.7, 0.5), density(-0.2, 1.3)
    integral = (q * np.log(np.maximum(q, 1e-300) / p)).sum() * (x[1] - x[0])
    assert bounds.kl_divergence_normal(0.7, 0.5, -0.2, 1.3) == pytest.approx(integral, rel=1e-6)
    twice = bounds.kl_divergence_normal([0.7, 0.7], 0.5, -0.2, 1.3)
    assert twice == pytest.approx(2 * bounds.kl_divergence_normal(0.7, 0.5, -0.2, 1.3), rel=1e-12)


def test_bad_arguments():
    with pytest.raises(UsageError, match=r"sum to 0\.9"):
        bounds.kl_divergence([0.5, 0.4], [0.5, 0.5])
    with pytest.raises(UsageError, match="2 shares and the prior 3"):
        bounds.kl_divergence([0.5, 0.5], [0.5, 0.25, 0.25])
    with pytest.raises(UsageError, match="one mean score for each policy"):
        bounds.gibbs_posterior([0.5], [0.5, 0.5], 10, 0.1)
    with pytest.raises(UsageError, match="not above 0"):
        bounds.kl_divergence_normal(0.0, 0.0, 0.0, 1.0)


# --- all posteriors together


def policies_of(bandit):
    """Every single action, the target, and the logger, with a prior that favors the
    last of them.
    """
    size = len(bandit.pi)
    pi = np.vstack([np.eye(size), bandit.pi, np.exp(bandit.log_mu)])
    prior = np.arange(1.0, len(pi) + 1)
    return pi, prior / prior.sum()


def mean_scores(bandit, pi, counts, n, score, lam):
    """(logs, N) mean scores of every policy from counts of cells."""
    cells = bandit.cells
    mu = np.exp(cells.log_propensity)
    with np.errstate(divide="ignore"):
        log_ratio = np.log(lam * cells.reward) - cells.log_propensity
    gain = np.logaddexp(0.0, log_ratio) / lam if score == "ls" else cells.reward / (mu + lam / 2)
    return counts @ (pi[:, cells.action] * gain).T / n


@pytest.mark.parametrize("score", ["ix", "ls"])
@pytest.mark.parametrize("n", [200, 2000])
def test_the_certificate_holds_for_all_posteriors_together(score, n):
    """sup over Q of what would break it has a closed form, log E_P exp(lam n V - n log(1 + lam v)).

    E exp of it is at most 1, so it exceeds log(1/delta) in at most delta of the logs. With the
    lower tail D likewise, (U + D)/2, on which the regret rests, exceeds log(1/delta) in at most
    delta too.
    """
    logs = 4000
    for number, bandit in enumerate(adversarial_bandits()):
        pi, prior = policies_of(bandit)
        chance = bandit.high * np.asarray(bandit.chance)
        value = pi @ chance
        for lam in (0.05, 0.5):
            counts = bandit.counts(n, logs, np.random.default_rng([number, n]))
            means = mean_scores(bandit, pi, counts, n, score, lam)
            coverage = pi @ (
                chance / (bandit.mu + (lam if score == "ls" else lam / 2))
            )  # C_{2 gamma} or C_gamma
            up = log_mean_exp(lam * n * means - n * np.log1p(lam * value), prior)
            down = log_mean_exp(lam * n * (value - means - lam * coverage), prior)
            for sup in (up, down, (up + down) / 2):
                assert (sup > math.log(1 / DELTA)).mean() <= DELTA, bandit.name
                # a mean of 4000 numbers with a heavy tail: half as much again is not a chance to be
                # missed
                assert np.exp(sup).mean() <= 1.5, bandit.name


def log_mean_exp(terms, prior):
    peak = terms.max(axis=1)
    return peak + np.log(np.exp(terms - peak[:, None]) @ prior)


def test_a_posterior_chosen_afterwards_breaks_what_a_fixed_one_may_claim():
    """The paper's proof fixes Q. Without the divergence the Gibbs posterior boasts four times as
    often as it may."""
    rng = np.random.default_rng(3)
    n, size, lam, logs = 100, 3000, 0.5, 200
    prior = np.full(size, 1 / size)
    fixed = paid = 0
    for _ in range(logs):
        # policies are coin tosses for each row, the logger too: every value is 1/2
        won = int(rng.binomial(n, 0.5))
        means = rng.binomial(won, 0.5, size) * math.log1p(lam / 0.5) / lam / n
        gibbs = bounds.gibbs_posterior(means, prior, n, lam)
        fixed += bounds.pac_bayes_lower(gibbs.value, 0.0, n, lam, math.log(1 / DELTA)) > 0.5
        paid += bounds.pac_bayes_lower(gibbs.value, gibbs.kl, n, lam, math.log(1 / DELTA)) > 0.5
    assert paid <= DELTA * logs
    assert fixed >= 2 * DELTA * logs


def test_regret_bounds_are_those_of_classes_with_kl_for_log_size():
    kl = math.log(200)
    assert bounds.regret_bound_pac_bayes(10_000, 0.01, 3.0, kl, DELTA) == pytest.approx(
        (kl + math.log(20)) / 100 + 0.06, rel=1e-12
    )
    assert bounds.regret_bound_pac_bayes_one_comparator(
        10_000, 0.01, 3.0, kl, DELTA
    ) == pytest.approx((kl / 2 + math.log(20)) / 100 + 0.06, rel=1e-12)
    grid = bounds.gamma_grid_ix(100_000, 0.0, DELTA)
    near = bounds.regret_bound_pac_bayes_grid(grid, 2.0, 0.0)
    assert near < bounds.regret_bound_pac_bayes_grid(grid, 2.0, kl)
    each = [(kl + grid.penalty) / (g * 100_000) + 4 * g for g in grid.gammas]
    assert bounds.regret_bound_pac_bayes_grid(grid, 2.0, kl) == pytest.approx(min(each), rel=1e-12)
    assert bounds.regret_bound_pac_bayes_grid(grid, 2.0, kl) <= 3 * math.sqrt(
        2 * (kl + grid.penalty) / 100_000
    )
