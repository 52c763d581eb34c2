"""PIWO-Grid: a naive twin, the separation from one fixed gamma, and the claims of its theorem in
simulation."""

import itertools
import math

import numpy as np
import pytest

import piwo
from benchmarks.statistics.grid import DELTA, GRIDS, POLICIES, RareBest

SIZE = math.log(POLICIES)
CONTEXT = np.arange(6.0)[:, None]


def make_rare_log(bandit, counts, rng, low=0.0, high=1.0):
    """The rows that were counted, in random order."""
    cell = rng.permutation(np.repeat(np.arange(counts.size), counts.reshape(-1)))
    context, action, won = np.unravel_index(cell, counts.shape)
    return piwo.Log.from_arrays(
        context=CONTEXT[context],
        action=action,
        reward=low + (high - low) * won,
        propensity=bandit.mu[action],
        actions=range(8),
        reward_range=(low, high),
    )


def all_policies(bandit):
    return piwo.oracles.Exhaustive(
        [piwo.policies.Tabular(np.eye(8)[row], range(8), CONTEXT) for row in bandit.choices]
    )  # fmt: skip


def index(bandit, policy):
    played = policy.probabilities(CONTEXT).argmax(axis=1)
    return int(np.flatnonzero((bandit.choices == played).all(axis=1))[0])


@pytest.mark.parametrize("score", [piwo.IX(), piwo.LSLinear()], ids=lambda s: s.name)
def test_the_naive_twin_finds_the_same(score):
    bandit, rng = RareBest(0.02), np.random.default_rng(1)
    counts = bandit.counts(5000, rng)
    log = make_rare_log(bandit, counts, rng)
    learner = piwo.PIWOGrid(score, all_policies(bandit), delta=DELTA).fit(log)
    twin = bandit.learn(counts, score.name)
    assert list(learner.path_) == list(twin.path)
    for gamma, point in learner.path_.items():
        policy, low = twin.path[gamma]
        assert index(bandit, point.policy) == policy
        assert point.lower == pytest.approx(low, rel=1e-9)
        assert point.score.gamma_equivalent == point.gamma == gamma
        assert (
            point.certificate.value_lower >= point.lower
        )  # the mixture is over these bets and more
    assert learner.score_.gamma_equivalent == twin.chosen
    assert learner.policy_ is learner.path_[twin.chosen].policy
    made = learner.certificate_
    assert (made.kind, made.delta, made.rows, made.log_class_size) == (
        "in-sample",
        0.025,
        5000,
        SIZE,
    )
    assert "half of the learner's" in made.notes[-1]
    again = piwo.certify(
        log, {0: learner.policy_}, delta=0.025, within=all_policies(bandit), interval=made.bound
    )[0]
    assert made.value_lower == pytest.approx(again.value_lower, rel=1e-12)


def test_a_rare_but_good_action_is_found_where_one_gamma_misses_it():
    """n = 100 000, eps = .005: gamma = sqrt(L/n) loses .44, more than PIWO-Grid can by its
    theorem."""
    bandit, rng = RareBest(0.005), np.random.default_rng(2)
    counts = bandit.counts(100_000, rng)
    learner = piwo.PIWOGrid(piwo.IX(), all_policies(bandit)).fit(make_rare_log(bandit, counts, rng))
    best = bandit.values.max()
    assert bandit.values[index(bandit, learner.policy_)] == best
    gamma = piwo.bounds.gamma_auto(100_000, SIZE, DELTA)
    lost = best - bandit.values[bandit.mean_scores(counts, "ix", gamma).argmax()]
    bound = learner.regret_bound(bandit.coverage)
    assert 0.35 < bound < lost < 0.5
    assert learner.certificate_.value_lower <= best


@pytest.mark.parametrize("score", ["ix", "ls-linear"])
def test_the_theorem_holds_and_the_separation_is_no_accident(score):
    """300 logs of 100 000 rows, 300 of 2000: (a) and (b) never fail; the grid loses nothing, one
    gamma .44 (IX)."""
    rng = np.random.default_rng(3)
    for n, eps in itertools.product((2000, 100_000), (0.005, 0.5)):
        bandit = RareBest(eps)
        grid = GRIDS[score](n, SIZE, DELTA)
        bound = piwo.bounds.regret_bound_grid(grid, bandit.coverage)
        if score == "ls-linear":
            bound = min(
                bound, piwo.bounds.regret_bound_grid_variance(grid, bandit.variance, value=0.9)
            )
        gamma = piwo.bounds.gamma_auto(n, SIZE, DELTA)
        regrets, fixed = [], []
        for _ in range(150):
            counts = bandit.counts(n, rng)
            found = bandit.learn(counts, score)
            assert found.lower <= bandit.values[found.policy]
            regrets.append(bandit.values.max() - bandit.values[found.policy])
            assert regrets[-1] <= bound
            fixed.append(
                bandit.values.max()
                - bandit.values[int(bandit.mean_scores(counts, score, gamma).argmax())]
            )
        if (n, eps) == (100_000, 0.005):
            assert np.mean(regrets) < 1e-3
            assert score != "ix" or 0.4 < np.mean(fixed) < 0.5


def test_lower_bounds_hold_where_chance_flatters_some_of_many():
    """Sixty arms, each logged about once: the luckiest looks excellent, and is not certified so."""
    arms, n, wrong, boasts = 60, 60, 0, 0
    rng = np.random.default_rng(4)
    oracle = piwo.oracles.Exhaustive([piwo.policies.Constant(a, range(arms)) for a in range(arms)])
    for _ in range(40):
        A = rng.integers(0, arms, n)
        log = piwo.Log.from_arrays(
            action=A,
            reward=(rng.random(n) < 0.3) * 1.0,
            propensity=np.full(n, 1 / arms),
            actions=range(arms),
        )
        learner = piwo.PIWOGrid(oracle=oracle, delta=0.2).fit(log)
        wrong += (
            learner.certificate_.value_lower > 0.3
            or max(x.lower for x in learner.path_.values()) > 0.3
        )
        boasts += learner.certificate_.value > 0.3
    assert wrong == 0
    assert boasts == 40


def make_log(n=2000, seed=0, **roles):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    p = np.where(X[:, 1] > 0, 0.8, 0.2)
    A = (rng.random(n) < p).astype(int)
    R = (rng.random(n) < np.where((X[:, 0] > 0) == A, 0.8, 0.3)).astype(float)
    given = {
        "context": X,
        "action": A,
        "reward": R,
        "propensity": np.where(A == 1, p, 1 - p),
        **roles,
    }
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
    assert [x.value_lower for x in twin.values()] == [
        point.lower for point in learner.path_.values()
    ]


def test_held_out_rows_on_request_and_the_tail():
    bandit, rng = RareBest(0.05), np.random.default_rng(5)
    log = make_rare_log(bandit, bandit.counts(3000, rng), rng)
    learner = piwo.PIWOGrid(
        oracle=all_policies(bandit), certificate="held-out", holdout=0.25, tail=True
    ).fit(log)
    assert learner.certificate_.training_rows == 2250
    assert learner.certificate_.split["tail"] is True
    # a policy that several gammas found is one candidate
    assert learner.certificate_.candidates == len(
        {id(point.policy) for point in learner.path_.values()}
    )
    with pytest.raises(piwo.UsageError, match="has no regret bound"):
        learner.regret_bound(2.0)


def test_neither_order_nor_threads_nor_batches_matter():
    from concurrent.futures import ThreadPoolExecutor

    bandit, rng = RareBest(0.02), np.random.default_rng(6)
    counts = bandit.counts(4000, rng)
    one = piwo.PIWOGrid(oracle=all_policies(bandit)).fit(
        make_rare_log(bandit, counts, np.random.default_rng(0))
    )
    other = piwo.PIWOGrid(oracle=all_policies(bandit)).fit(
        make_rare_log(bandit, counts, np.random.default_rng(1))
    )
    with ThreadPoolExecutor(3) as pool, piwo.using(pool):
        third = piwo.PIWOGrid(oracle=all_policies(bandit)).fit(
            make_rare_log(bandit, counts, np.random.default_rng(0))
        )
    for learner in (other, third):
        assert learner.score_ == one.score_
        assert index(bandit, learner.policy_) == index(bandit, one.policy_)
        assert learner.certificate_.log_digest == one.certificate_.log_digest
        lows = [point.lower for point in one.path_.values()]
        assert [point.lower for point in learner.path_.values()] == pytest.approx(lows, rel=1e-9)


def test_rewards_in_their_own_unit():
    bandit, rng = RareBest(0.05), np.random.default_rng(8)
    counts = bandit.counts(3000, rng)
    unit = piwo.PIWOGrid(oracle=all_policies(bandit)).fit(make_rare_log(bandit, counts, rng))
    scaled = piwo.PIWOGrid(oracle=all_policies(bandit)).fit(
        make_rare_log(bandit, counts, rng, low=-2.0, high=3.0)
    )
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
    bandit, rng = RareBest(0.1), np.random.default_rng(9)
    learner = piwo.PIWOGrid(piwo.IX(), all_policies(bandit)).fit(
        make_rare_log(bandit, bandit.counts(6, rng), rng)
    )
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
    # a row that turns up once in e^800 logs: the rows contradict their propensities
    assert learner.certificate_.value_lower is None
    assert math.isfinite(learner.certificate_.logging_value)
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
        ({"oracle": "ridge"}, "expected an Oracle"),
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
