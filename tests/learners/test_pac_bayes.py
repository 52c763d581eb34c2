"""PAC-Bayes over a finite class: a naive twin, any posterior, the separation from one fixed
gamma, files and seeds."""

import math
from dataclasses import replace

import numpy as np
import pytest

import piwo
from piwo import bounds

pytestmark = pytest.mark.statistics

DELTA, POLICIES, CONTEXTS, ACTIONS = 0.05, 200, 6, 8


class Rare:
    """200 policies over six contexts and eight actions; the best plays action 0, which the logger
    takes rarely."""

    def __init__(self, eps):
        rng = np.random.default_rng(8)
        self.eps = eps
        self.mu = np.array([eps, *[(1 - eps) / (ACTIONS - 1)] * (ACTIONS - 1)])
        self.rate = np.hstack(
            [np.full((CONTEXTS, 1), 0.9), rng.uniform(0.2, 0.5, (CONTEXTS, ACTIONS - 1))]
        )
        self.choices = rng.integers(1, ACTIONS, (POLICIES, CONTEXTS))
        self.best = 117
        self.choices[self.best] = 0
        self.values = self.rate[np.arange(CONTEXTS), self.choices].mean(axis=1)

    def counts(self, n, rng):
        """(CONTEXTS, ACTIONS, 2): how often each context and action came with reward 0 and 1."""
        won = self.rate * self.mu
        chance = np.stack([self.mu - won, won], axis=2) / CONTEXTS
        return rng.multinomial(n, chance.reshape(-1)).reshape(chance.shape)

    def log(self, counts, rng, low=0.0, high=1.0):
        cell = rng.permutation(np.repeat(np.arange(counts.size), counts.reshape(-1)))
        context, action, won = np.unravel_index(cell, counts.shape)
        return piwo.Log.from_arrays(
            context=context[:, None].astype(float),
            action=action,
            reward=low + (high - low) * won,
            propensity=self.mu[action],
            actions=range(ACTIONS),
            reward_range=(low, high),
        )

    def policies(self):
        contexts, each = np.arange(CONTEXTS)[:, None].astype(float), np.eye(ACTIONS)
        return [piwo.policies.Tabular(each[row], range(ACTIONS), contexts) for row in self.choices]


def mean_gains(bandit, counts, score, gamma):
    """Mean score of every policy, the formula written out once more."""
    gain = (
        1 / (bandit.mu + gamma)
        if score == "ix"
        else np.log(1 + 2 * gamma / bandit.mu) / (2 * gamma)
    )
    return (counts[:, :, 1] * gain)[np.arange(CONTEXTS), bandit.choices].sum(axis=1) / counts.sum()


def twin(bandit, counts, score, prior, delta=DELTA):
    """The algorithm of docs/pac_bayes.md: {gamma: (weights, lower bound)}, from the counts."""
    n = int(counts.sum())
    m = math.floor(math.log2(n)) + (1 if score == "ix" else 6)
    each = math.log(2 / delta)
    ell = each + math.log(max(m, math.ceil(math.log2(32 * n / each)) + 1))
    path = {}
    for j in range(m):
        gamma = (1.0 if score == "ix" else 16.0) / 2**j
        if gamma < ell / n:
            continue
        value = mean_gains(bandit, counts, score, gamma)
        mass = prior * np.exp(2 * gamma * n * (value - value.max()))
        log_partition = math.log(mass.sum()) + 2 * gamma * n * value.max()
        path[gamma] = mass / mass.sum(), math.expm1((log_partition - ell) / n) / (2 * gamma)
    return path


@pytest.mark.parametrize("score", [piwo.IX(), piwo.LSLinear()], ids=lambda s: s.name)
def test_the_naive_twin_finds_the_same(score):
    bandit, rng = Rare(0.02), np.random.default_rng(1)
    counts, prior = bandit.counts(3000, rng), rng.dirichlet(np.ones(POLICIES))
    learner = piwo.PACBayes(bandit.policies(), prior, score=score).fit(bandit.log(counts, rng))
    path = twin(bandit, counts, score.name, prior)
    assert list(learner.path_) == list(path)
    for gamma, point in learner.path_.items():
        weights, low = path[gamma]
        assert point.weights == pytest.approx(weights, rel=1e-9, abs=1e-300)
        assert point.lower == pytest.approx(low, rel=1e-9, abs=1e-12)
    chosen = max(path, key=lambda gamma: path[gamma][1])
    assert learner.score_.gamma_equivalent == chosen
    assert learner.posterior_ is learner.path_[chosen].weights
    made = learner.certificate_
    assert (made.kind, made.bound, made.rows, made.delta) == ("in-sample", "PAC-Bayes", 3000, 0.025)
    assert "half of the learner's" in made.notes[-1]
    assert made.value_lower == pytest.approx(path[chosen][1], rel=1e-9)
    assert made.kl == pytest.approx(float(weights_kl(learner.posterior_, prior)), rel=1e-9)


def weights_kl(q, p):
    used = q > 0
    return (q[used] * np.log(q[used] / p[used])).sum()


def test_the_mixture_acts_and_logs_what_the_posterior_says(tmp_path):
    bandit, rng = Rare(0.2), np.random.default_rng(2)
    learner = piwo.PACBayes(bandit.policies(), score=piwo.IX(0.01)).fit(
        bandit.log(bandit.counts(500, rng), rng)
    )
    contexts = np.arange(CONTEXTS)[:, None].astype(float)
    table = np.zeros((CONTEXTS, ACTIONS))
    for weight, row in zip(learner.posterior_, bandit.choices, strict=True):
        table[np.arange(CONTEXTS), row] += weight
    assert 0.01 < learner.posterior_[bandit.best] < 0.999
    assert learner.policy_.probabilities(contexts) == pytest.approx(table, abs=1e-12)
    decisions = learner.policy_.act(contexts, random_state=0)
    assert decisions.propensities == pytest.approx(
        table[np.arange(CONTEXTS), decisions.actions], abs=1e-12
    )
    learner.policy_.save(
        tmp_path / "p.piwo", metadata={"certificate": learner.certificate_.to_dict()}
    )
    again = piwo.policies.load_with_metadata(tmp_path / "p.piwo")
    assert again.policy.probabilities(contexts) == pytest.approx(table, abs=1e-12)
    assert piwo.Certificate.from_dict(again.metadata["certificate"]) == learner.certificate_


def test_any_posterior_may_ask_for_its_certificate():
    bandit, rng = Rare(0.2), np.random.default_rng(4)
    log = bandit.log(bandit.counts(4000, rng), rng)
    learner = piwo.PACBayes(bandit.policies()).fit(log)
    uniform, point = np.full(POLICIES, 1 / POLICIES), np.eye(POLICIES)[bandit.best]
    assert learner.bound(uniform).kl == 0.0
    assert learner.bound(point).kl == pytest.approx(math.log(POLICIES))
    # at its own gamma Gibbs is the best; a point mass that pays log N comes near
    assert (
        learner.bound(learner.posterior_).lower
        >= learner.bound(point).lower
        > learner.bound(uniform).lower
    )
    made = learner.certificate(uniform)
    assert made.value_lower == pytest.approx(learner.bound(uniform).lower, rel=1e-12)
    assert made.value_lower <= bandit.values.mean()
    assert made.value == pytest.approx(bandit.values.mean(), abs=0.05)
    # a prior that was right saves the divergence
    right = np.full(POLICIES, 0.5 / (POLICIES - 1))
    right[bandit.best] = 0.5
    assert (
        piwo.PACBayes(bandit.policies(), right).fit(log).certificate_.value_lower
        > learner.certificate_.value_lower
    )


@pytest.mark.parametrize(("score", "least", "most"), [("ix", 0.62, 0.45), ("ls", 0.74, 0.6)])
def test_the_grid_finds_a_rare_action_that_one_gamma_misses(score, least, most):
    """eps = .005, n = 10 000, gamma = 1/sqrt(n) is twice eps. Measured: IX .67 and .40, linear LS
    .79 and .56."""
    bandit, rng = Rare(0.005), np.random.default_rng(0)
    found, fixed, prior = [], [], np.full(POLICIES, 1 / POLICIES)
    for _ in range(200):
        counts = bandit.counts(10_000, rng)
        path = twin(bandit, counts, score, prior)
        best = max(path, key=lambda gamma: path[gamma][1])
        assert path[best][1] <= path[best][0] @ bandit.values
        found.append(path[best][0] @ bandit.values)
        one = mean_gains(bandit, counts, score, 0.01)
        fixed.append(bounds.gibbs_posterior(one, prior, 10_000, 0.02).weights @ bandit.values)
    assert np.mean(found) > least
    assert np.mean(fixed) < most


def test_certificates_hold_of_value_and_improvement():
    wrong = better = 0
    for seed in range(40):
        bandit, rng = Rare(0.1), np.random.default_rng(seed)
        log = bandit.log(bandit.counts(1000, rng), rng)
        learner = piwo.PACBayes(bandit.policies()[100:130], delta=0.2).fit(log)
        value = learner.posterior_ @ bandit.values[100:130]
        logged = float((bandit.rate @ bandit.mu).mean())
        made = learner.certificate_
        wrong += made.value_lower > value or made.improvement_lower > value - logged
        better += made.certified
    assert wrong <= 0.2 * 40
    assert better >= 36


def test_the_bound_on_the_improvement_by_hand():
    """Logger 1/2 1/2, one policy that plays a; rows (a, 1), (b, 0): Y is 2 and 1, whose chord is
    exact at pi = 1, 0."""
    log = piwo.Log.from_arrays(action=["a", "b"] * 200, reward=[1, 0] * 200, propensity=[0.5] * 400)
    learner = piwo.PACBayes(
        [piwo.policies.Constant("a", log.actions)], score=piwo.LSLinear(0.5)
    ).fit(log)
    mean = (math.log(1 + 0.5 * 2) + math.log(1 + 0.5)) / 2
    expected = (math.exp(mean - math.log(2 / DELTA) / 400) - 1) / 0.5 - 1
    assert learner.certificate_.improvement_lower == pytest.approx(expected, rel=1e-12)


def test_the_unit_of_the_reward_does_not_matter():
    bandit = Rare(0.1)
    made = []
    for low, high in ((0.0, 1.0), (-3.0, 7.0)):
        rng = np.random.default_rng(5)
        made.append(
            piwo.PACBayes(bandit.policies()).fit(
                bandit.log(bandit.counts(900, rng), rng, low, high)
            )
        )
    one, other = made
    assert one.posterior_ == pytest.approx(other.posterior_, rel=1e-9, abs=1e-300)
    assert -3 + 10 * one.certificate_.value_lower == pytest.approx(
        other.certificate_.value_lower, rel=1e-9
    )
    assert 10 * one.certificate_.improvement_lower == pytest.approx(
        other.certificate_.improvement_lower, rel=1e-9
    )
    assert 10 * one.regret_bound(2.0, kl=1.0) == pytest.approx(other.regret_bound(2.0, kl=1.0))


def test_neither_the_order_of_rows_nor_the_threads_matter():
    from concurrent.futures import ThreadPoolExecutor

    bandit = Rare(0.1)
    counts = bandit.counts(900, np.random.default_rng(5))
    logs = [bandit.log(counts, np.random.default_rng(seed)) for seed in (0, 1)]
    one = piwo.PACBayes(bandit.policies()).fit(logs[0])
    with ThreadPoolExecutor(3) as pool, piwo.using(pool):
        other = piwo.PACBayes(bandit.policies()).fit(logs[1])
    assert one.posterior_ == pytest.approx(other.posterior_, rel=1e-9, abs=1e-300)
    assert one.certificate_.value_lower == pytest.approx(other.certificate_.value_lower, rel=1e-12)
    assert one.certificate_.log_digest == other.certificate_.log_digest


def test_propensities_beyond_float64():
    """exp(-800): what was never worth anything stays worth nothing, what won once is worth a
    bounded lot."""
    log = piwo.Log.from_arrays(
        action=[0, 1, 0, 2] * 50,
        reward=[1, 0, 1, 1] * 50,
        log_propensity=[math.log(0.5), -800.0, math.log(0.5), -1e-9] * 50,
        actions=range(3),
    )
    learner = piwo.PACBayes([piwo.policies.Constant(a, range(3)) for a in range(3)]).fit(log)
    assert np.isfinite(learner.posterior_).all()
    assert learner.posterior_.sum() == pytest.approx(1.0)
    assert learner.posterior_[1] < 1e-9


def test_bad_arguments():
    bandit, rng = Rare(0.2), np.random.default_rng(0)
    log = bandit.log(bandit.counts(50, rng), rng)
    some = bandit.policies()[:3]
    with pytest.raises(piwo.UsageError, match="2 shares for 3 policies"):
        piwo.PACBayes(some, [0.5, 0.5]).fit(log)
    with pytest.raises(piwo.UsageError, match="Clip has no PAC-Bayes bound"):
        piwo.PACBayes(some, score=piwo.Clip(0.1)).fit(log)
    with pytest.raises(piwo.UsageError, match="at least one"):
        piwo.PACBayes([]).fit(log)
    with pytest.raises(piwo.UsageError, match="call fit"):
        piwo.PACBayes(some).certificate([1, 0, 0])
    with pytest.raises(piwo.UsageError, match="4 shares and the prior 3"):
        piwo.PACBayes(some).fit(log).certificate([0.25] * 4)
    thinned = piwo.Log.from_arrays(
        action=[0], reward=[1], propensity=[1.0], weight=[2.0], actions=range(ACTIONS)
    )
    with pytest.raises(piwo.UsageError, match="thinned"):
        piwo.PACBayes([piwo.policies.Constant(0, range(ACTIONS))]).fit(thinned)


@pytest.mark.parametrize("policies", [None, 1, piwo.policies.Constant("a", ["a", "b"])])
def test_policies_that_are_no_list(policies):
    log = piwo.Log.from_arrays(action=["a", "b"], reward=[1, 0], propensity=[0.5, 0.5])
    learner = piwo.PACBayes(policies)
    assert repr(learner).startswith("PACBayes(? policies")
    with pytest.raises(piwo.UsageError, match=r"policies is .*, expected a list of them"):
        learner.fit(log)


@pytest.mark.usefixtures("wrong_types")
@pytest.mark.parametrize(
    "shares", ["ab", {"a": 1}, ["a", "b"], [1e308, 1e308], [0.5, None], [math.nan, 1.0]]
)
def test_shares_that_are_none(shares):
    log = piwo.Log.from_arrays(action=["a", "b"] * 9, reward=[1, 0] * 9, propensity=[0.5] * 18)
    both = [piwo.policies.Constant(x, log.actions) for x in log.actions]
    for wrong in (
        lambda: piwo.PACBayes(both, shares).fit(log),
        lambda: piwo.PACBayes(both).fit(log).bound(shares),
    ):
        with pytest.raises(piwo.UsageError, match="expected shares >= 0 that sum to 1"):
            wrong()


def test_the_smallest_logs():
    for reward in (0, 1):
        log = piwo.Log.from_arrays(
            action=["a"], reward=[reward], propensity=[0.5], actions=["a", "b"], reward_range=(0, 1)
        )
        both = [piwo.policies.Constant(x, log.actions) for x in log.actions]
        learner = piwo.PACBayes(both).fit(log)
        assert learner.certificate_.value_lower == 0.0
        assert (learner.posterior_[0] > 0.5) == (reward == 1)
    only = piwo.Log.from_arrays(
        action=["a"] * 9, reward=[1] * 9, propensity=[1.0] * 9, actions=["a"]
    )
    learner = piwo.PACBayes([piwo.policies.Constant("a", ["a"])]).fit(only)
    assert (learner.posterior_.tolist(), learner.certificate_.kl) == ([1.0], 0.0)


def test_rewards_without_an_upper_end():
    log = piwo.Log.from_arrays(
        action=["a", "b"] * 90,
        reward=[3.0, 0.5] * 90,
        propensity=[0.5] * 180,
        reward_range=(0, math.inf),
    )
    both = [piwo.policies.Constant(x, log.actions) for x in log.actions]
    learner = piwo.PACBayes(both).fit(log)
    assert 1.5 < learner.certificate_.value_lower < 3.0
    assert learner.certificate_.improvement_lower is None
    with pytest.raises(piwo.UsageError, match="IX needs"):
        piwo.PACBayes(both, score=piwo.IX()).fit(log)
    with pytest.raises(piwo.UsageError, match="no upper end"):
        learner.regret_bound(1.0, 1.0)


def test_rows_that_contradict_their_propensities_bound_nothing() -> None:
    # both actions claim to be taken once in a thousand rows, and one of them is taken in each
    log = piwo.Log.from_arrays(
        context=np.arange(400.0)[:, None] % 2,
        action=["a", "b"] * 200,
        reward=[1.0, 0.0] * 200,
        propensity=[1e-3] * 400,
    )
    learner = piwo.PACBayes([piwo.policies.Constant(x, log.actions) for x in log.actions]).fit(log)
    assert learner.certificate_.value_lower is None
    assert learner.bound([0.5, 0.5]).lower is None
    assert all(point.lower is None for point in learner.path_.values())
    linear = piwo.PACBayesLinear(prior="zero", draws=5, steps=2).fit(
        replace(log, declared_actions=log.actions)
    )
    assert linear.certificate_.value_lower is None
    assert linear.posterior_bound_.lower is None
