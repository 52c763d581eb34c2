"""PIWO-Grid: a naive twin, the separation from one fixed gamma, and the claims of its theorem in simulation."""

import itertools
import math

import numpy as np
import pytest

import piwo

DELTA, POLICIES, CONTEXTS, ACTIONS = 0.05, 200, 6, 8


class Rare:
    """The best policy plays an action that the logger takes with probability eps; 199 others never do.

    Six contexts, eight actions; action 0 pays .9, the others .2 to .55. A log is a table of 96 counts.
    """

    def __init__(self, eps):
        rng = np.random.default_rng(7)
        self.eps = eps
        self.mu = np.full(ACTIONS, (1 - eps) / (ACTIONS - 1))
        self.mu[0] = eps
        self.rate = np.hstack([np.full((CONTEXTS, 1), 0.9), rng.uniform(0.2, 0.55, (CONTEXTS, ACTIONS - 1))])
        self.choices = np.vstack(
            [np.zeros((1, CONTEXTS), int), rng.integers(1, ACTIONS, (POLICIES - 1, CONTEXTS))]
        )[rng.permutation(POLICIES)]  # fmt: skip
        self.values = self.rate[np.arange(CONTEXTS), self.choices].mean(axis=1)
        self.best = int(self.values.argmax())

    def coverage(self, gamma):
        return 0.9 / (self.eps + gamma)

    def counts(self, n, rng):
        """(CONTEXTS, ACTIONS, 2): how often each context and action came with reward 0 and 1."""
        won = self.rate * self.mu
        chance = np.stack([self.mu - won, won], axis=2) / CONTEXTS
        return rng.multinomial(n, chance.reshape(-1)).reshape(chance.shape)

    def rows(self, counts, rng):
        cell = rng.permutation(np.repeat(np.arange(counts.size), counts.reshape(-1)))
        return np.unravel_index(cell, counts.shape)

    def log(self, counts, rng, low=0.0, high=1.0):
        context, action, won = self.rows(counts, rng)
        return piwo.Log.from_arrays(
            context=context[:, None].astype(float),
            action=action,
            reward=low + (high - low) * won,
            propensity=self.mu[action],
            actions=range(ACTIONS),
            reward_range=(low, high),
        )

    def oracle(self):
        contexts = np.arange(CONTEXTS)[:, None].astype(float)
        each = np.eye(ACTIONS)
        return piwo.oracles.Exhaustive(
            [piwo.policies.Tabular(each[row], range(ACTIONS), contexts) for row in self.choices]
        )

    def index(self, policy):
        contexts = np.arange(CONTEXTS)[:, None].astype(float)
        played = policy.probabilities(contexts).argmax(axis=1)
        return int(np.flatnonzero((self.choices == played).all(axis=1))[0])


def mean_scores(bandit, counts, score, gamma):
    """Mean score of every policy, from the counts: the formula written out once more."""
    mu = bandit.mu
    gain = 1 / (mu + gamma) if score == "ix" else np.log(1 + 2 * gamma / mu) / (2 * gamma)
    total = counts[:, :, 1] * gain
    return total[np.arange(CONTEXTS), bandit.choices].sum(axis=1) / counts.sum()


def twin(bandit, counts, score, delta=DELTA):
    """PIWO-Grid as MATH prints it: returns {gamma: (policy, lower bound)}, the chosen gamma, L."""
    n = int(counts.sum())
    m = math.floor(math.log2(n)) + (1 if score == "ix" else 6)
    each = math.log(2 * POLICIES / delta)
    L = each + math.log(max(m, math.ceil(math.log2(32 * n / each)) + 1))
    largest = 1.0 if score == "ix" else 16.0
    path = {}
    for j in range(m):
        gamma = largest / 2**j
        if gamma >= L / n:
            v = mean_scores(bandit, counts, score, gamma)
            best = int(v.argmax())
            path[gamma] = best, (math.exp(2 * gamma * v[best] - L / n) - 1) / (2 * gamma)
    chosen = max(path, key=lambda gamma: (path[gamma][1], gamma))
    return path, chosen, L


@pytest.mark.parametrize("score", [piwo.IX(), piwo.LSLinear()], ids=lambda s: s.name)
def test_the_naive_twin_finds_the_same(score):
    bandit, rng = Rare(0.02), np.random.default_rng(1)
    counts = bandit.counts(5000, rng)
    learner = piwo.PIWOGrid(score, bandit.oracle(), delta=DELTA).fit(bandit.log(counts, rng))
    path, chosen, L = twin(bandit, counts, score.name)
    assert list(learner.path_) == list(path)
    assert learner.grid_.penalty == pytest.approx(L, rel=1e-12)
    for gamma, point in learner.path_.items():
        policy, low = path[gamma]
        assert bandit.index(point.policy) == policy
        assert point.lower == pytest.approx(low, rel=1e-9)
        assert point.score.gamma_equivalent == point.gamma == gamma
        assert point.certificate.value_lower >= point.lower  # the mixture is over these bets and more
    assert learner.score_.gamma_equivalent == chosen
    assert learner.policy_ is learner.path_[chosen].policy
    made = learner.certificate_
    assert (made.kind, made.delta, made.rows, made.log_class_size) == ("in-sample", 0.025, 5000, math.log(200))
    again = piwo.certify(
        bandit.log(counts, rng), {0: learner.policy_}, delta=0.025, kind="in-sample", log_class_size=math.log(200)
    )[0]
    assert made.value_lower == pytest.approx(again.value_lower, rel=1e-12)


def test_a_rare_but_good_action_is_found_where_one_gamma_misses_it():
    """n = 100 000, eps = .005: gamma = sqrt(L/n) loses .44, more than PIWO-Grid can by its theorem."""
    bandit, rng = Rare(0.005), np.random.default_rng(2)
    counts = bandit.counts(100_000, rng)
    learner = piwo.PIWOGrid(piwo.IX(), bandit.oracle()).fit(bandit.log(counts, rng))
    best = bandit.values.max()
    assert bandit.values[bandit.index(learner.policy_)] == best
    gamma = piwo.bounds.gamma_auto(100_000, math.log(POLICIES), DELTA)
    lost = best - bandit.values[mean_scores(bandit, counts, "ix", gamma).argmax()]
    bound = learner.regret_bound(bandit.coverage)
    assert 0.35 < bound < lost < 0.5
    assert learner.certificate_.value_lower <= best


@pytest.mark.parametrize("score", ["ix", "ls-linear"])
def test_the_theorem_holds_and_the_separation_is_no_accident(score):
    """300 logs of 100 000 rows, 300 of 2000: (a) and (b) never fail; the grid loses nothing, one gamma .44 (IX)."""
    rng = np.random.default_rng(3)
    make = bounds_of(score)
    for n, eps in itertools.product((2000, 100_000), (0.005, 0.02)):
        bandit = Rare(eps)
        bound = piwo.bounds.regret_bound_grid(make(n, math.log(POLICIES), DELTA), bandit.coverage)
        gamma = piwo.bounds.gamma_auto(n, math.log(POLICIES), DELTA)
        regrets, fixed = [], []
        for _ in range(150):
            counts = bandit.counts(n, rng)
            path, chosen, _ = twin(bandit, counts, score)
            policy, low = path[chosen]
            assert low <= bandit.values[policy]
            regrets.append(bandit.values.max() - bandit.values[policy])
            assert regrets[-1] <= bound
            fixed.append(bandit.values.max() - bandit.values[int(mean_scores(bandit, counts, score, gamma).argmax())])
        if (n, eps) == (100_000, 0.005):
            assert np.mean(regrets) < 1e-3
            assert score != "ix" or 0.4 < np.mean(fixed) < 0.5


def bounds_of(score):
    return {"ix": piwo.bounds.gamma_grid_ix, "ls-linear": piwo.bounds.gamma_grid_ls}[score]


def test_lower_bounds_hold_where_chance_flatters_some_of_many():
    """Sixty arms, each logged about once: the luckiest looks excellent, and is not certified so."""
    arms, n, wrong, boasts = 60, 60, 0, 0
    rng = np.random.default_rng(4)
    oracle = piwo.oracles.Exhaustive([piwo.policies.Constant(a, range(arms)) for a in range(arms)])
    for _ in range(40):
        A = rng.integers(0, arms, n)
        log = piwo.Log.from_arrays(
            action=A, reward=(rng.random(n) < 0.3) * 1.0, propensity=np.full(n, 1 / arms), actions=range(arms)
        )
        learner = piwo.PIWOGrid(oracle=oracle, delta=0.2).fit(log)
        wrong += learner.certificate_.value_lower > 0.3 or max(x.lower for x in learner.path_.values()) > 0.3
        boasts += learner.certificate_.value > 0.3
    assert wrong == 0
    assert boasts == 40


def make_log(n=2000, seed=0, **roles):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    p = np.where(X[:, 1] > 0, 0.8, 0.2)
    A = (rng.random(n) < p).astype(int)
    R = (rng.random(n) < np.where((X[:, 0] > 0) == A, 0.8, 0.3)).astype(float)
    given = {"context": X, "action": A, "reward": R, "propensity": np.where(A == 1, p, 1 - p), **roles}
    return piwo.Log.from_arrays(**given)


@pytest.mark.parametrize("score", [None, piwo.IX(), piwo.LSLinear()], ids=str)
def test_a_class_of_unknown_size_is_certified_on_other_rows(score):
    log = make_log()
    learner = piwo.PIWOGrid(score, piwo.oracles.Ridge()).fit(log)
    made, count = learner.certificate_, len(learner.path_)
    assert made.kind == "held-out"
    assert made.rows + made.training_rows == 2000
    assert (made.candidates, made.delta, made.log_class_size) == (count, 0.05, 0.0)
    assert made.certified
    assert "highest lower bound among" in learner.rule_
    best = max(learner.path_.values(), key=lambda point: (point.lower, point.gamma))
    assert (learner.policy_, made, learner.score_) == (best.policy, best.certificate, best.score)
    # the same by hand: learn the path on one part, certify it on the other
    parts = log.split()
    scores = [point.score for point in learner.path_.values()]
    policies = piwo.oracles.Ridge().solve_path(parts.train, scores)
    twin = piwo.certify(parts.test, dict(enumerate(policies)))
    assert [x.value_lower for x in twin.values()] == [point.lower for point in learner.path_.values()]


def test_held_out_rows_on_request_and_the_tail():
    bandit, rng = Rare(0.05), np.random.default_rng(5)
    log = bandit.log(bandit.counts(3000, rng), rng)
    learner = piwo.PIWOGrid(oracle=bandit.oracle(), certificate="held-out", holdout=0.25, tail=True).fit(log)
    assert learner.certificate_.training_rows == 2250
    assert learner.certificate_.split["tail"] is True
    # a policy that several gammas found is one candidate
    assert learner.certificate_.candidates == len({id(point.policy) for point in learner.path_.values()})
    with pytest.raises(piwo.UsageError, match="promises no regret"):
        learner.regret_bound(2.0)


def test_neither_order_nor_threads_nor_batches_matter():
    from concurrent.futures import ThreadPoolExecutor

    bandit, rng = Rare(0.02), np.random.default_rng(6)
    counts = bandit.counts(4000, rng)
    one = piwo.PIWOGrid(oracle=bandit.oracle()).fit(bandit.log(counts, np.random.default_rng(0)))
    other = piwo.PIWOGrid(oracle=bandit.oracle()).fit(bandit.log(counts, np.random.default_rng(1)))
    with ThreadPoolExecutor(3) as pool, piwo.using(pool):
        third = piwo.PIWOGrid(oracle=bandit.oracle()).fit(bandit.log(counts, np.random.default_rng(0)))
    for learner in (other, third):
        assert learner.score_ == one.score_
        assert bandit.index(learner.policy_) == bandit.index(one.policy_)
        assert learner.certificate_.log_digest == one.certificate_.log_digest
        lows = [point.lower for point in one.path_.values()]
        assert [point.lower for point in learner.path_.values()] == pytest.approx(lows, rel=1e-9)


def test_rewards_in_their_own_unit():
    bandit, rng = Rare(0.05), np.random.default_rng(8)
    counts = bandit.counts(3000, rng)
    unit = piwo.PIWOGrid(oracle=bandit.oracle()).fit(bandit.log(counts, rng))
    scaled = piwo.PIWOGrid(oracle=bandit.oracle()).fit(bandit.log(counts, rng, low=-2.0, high=3.0))
    assert scaled.certificate_.value_lower == pytest.approx(-2 + 5 * unit.certificate_.value_lower)
    for gamma, point in unit.path_.items():
        assert scaled.path_[gamma].lower == pytest.approx(-2 + 5 * point.lower)
    assert scaled.regret_bound(1.5) == pytest.approx(5 * unit.regret_bound(1.5))


def test_equal_bounds_go_to_the_larger_gamma():
    log = piwo.Log.from_arrays(action=["a", "b"] * 500, reward=[0] * 1000, propensity=[0.5] * 1000)
    both = piwo.oracles.Exhaustive([piwo.policies.Constant(x, log.actions) for x in log.actions])
    learner = piwo.PIWOGrid(oracle=both, certificate="held-out").fit(log)
    assert {point.lower for point in learner.path_.values()} == {0.0}
    assert learner.score_.lam == 32.0


def test_too_few_rows_say_so_and_certify_nothing():
    bandit, rng = Rare(0.1), np.random.default_rng(9)
    learner = piwo.PIWOGrid(piwo.IX(), bandit.oracle()).fit(bandit.log(bandit.counts(6, rng), rng))
    assert list(learner.path_) == [1.0]
    assert learner.path_[1.0].lower == 0.0
    assert "6 rows are too few for the grid" in learner.certificate_.notes[-1]
    assert not learner.certificate_.certified
    assert learner.regret_bound(10.0) == 1.0


def test_tiny_propensities_and_rewards_without_an_upper_end():
    n = 400
    log = piwo.Log.from_arrays(
        action=["a", "b"] * (n // 2),
        reward=[5.0, 1.0] * (n // 2),
        log_propensity=np.where(np.arange(n) == 6, -800.0, math.log(0.5)),
        reward_range=(0, math.inf),
    )
    both = piwo.oracles.Exhaustive([piwo.policies.Constant(x, log.actions) for x in log.actions])
    learner = piwo.PIWOGrid(oracle=both).fit(log)
    assert learner.policy_.probabilities(n=1)[0].tolist() == [1.0, 0.0]
    assert math.isfinite(learner.certificate_.value_lower)
    with pytest.raises(piwo.UsageError, match="upper end"):
        learner.regret_bound(1.0)
    with pytest.raises(piwo.UsageError, match="IX needs rewards with an upper end"):
        piwo.PIWOGrid(piwo.IX(), both).fit(log)


def test_the_certificate_survives_json(tmp_path):
    learner = piwo.PIWOGrid(oracle=piwo.oracles.Ridge()).fit(make_log(500))
    learner.certificate_.save(tmp_path / "c.json")
    import json

    back = piwo.Certificate.from_dict(json.loads((tmp_path / "c.json").read_text()))
    assert back.to_dict() == learner.certificate_.to_dict()
    assert (back.score, back.parameter) == ("ls-linear", learner.score_.lam)


def test_constructor_arguments_are_left_alone():
    from sklearn.base import clone

    learner = piwo.PIWOGrid(piwo.IX(), piwo.oracles.Ridge(), delta=0.1)
    before = learner.get_params()
    learner.fit(make_log(300))
    assert learner.get_params() == clone(learner).get_params() == before
    assert repr(learner) == f"PIWOGrid(score=IX(gamma='auto'), oracle={piwo.oracles.Ridge()!r})"


@pytest.mark.parametrize(
    ("learner", "said"),
    [
        (lambda: piwo.PIWOGrid(piwo.IX(0.1)), "gamma of IX is 0.1, but the grid sets it"),
        (lambda: piwo.PIWOGrid(piwo.Clip()), "no grid for Clip"),
        (lambda: piwo.PIWOGrid(piwo.LS()), "use LSLinear"),
        (lambda: piwo.PIWOGrid(certificate="in-sample"), "class of unknown size"),
    ],
)
def test_refuses(learner, said):
    with pytest.raises(piwo.UsageError, match=said):
        learner().fit(make_log(100))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"score": "ix"}, "expected a Score"),
        ({"oracle": "ridge"}, "expected a Oracle"),
        ({"certificate": None}, "expected 'auto'"),
        ({"random_state": 0.5}, "whole number"),
    ],
)
def test_refuses_arguments_of_another_kind(change, said):
    with pytest.raises(piwo.UsageError, match=said):
        piwo.PIWOGrid().set_params(**change).fit(make_log(100))


def test_refuses_thinned_logs_and_regret_before_fit():
    with pytest.raises(piwo.UsageError, match="thinned"):
        piwo.PIWOGrid().fit(make_log(100, weight=np.full(100, 2.0)))
    with pytest.raises(piwo.UsageError, match="call fit"):
        piwo.PIWOGrid().regret_bound(1.0)
