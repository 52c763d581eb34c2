"""PAC-Bayes over linear policies: the objective against brute force, bounds by hand, worlds made
to break them."""

import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import piwo
from piwo import bounds
from piwo.learners.normal_posterior import ExpectedGains, NormalPosterior, fit_normal
from piwo.oracles.examples import rewarded
from piwo.simulate import adversarial_bandits

pytestmark = pytest.mark.statistics


def world(n, seed, actions=3, width=2):
    """One action is best in each context, and pays .8 instead of .2; the logger is uniform."""
    best = np.random.default_rng(0).normal(size=(actions, width))
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, width))
    A = rng.integers(0, actions, n)
    R = (rng.random(n) < np.where((X @ best.T).argmax(axis=1) == A, 0.8, 0.2)).astype(float)
    return X, A, R


def log_of(X, A, R, actions=3, **options):
    mu = np.full(len(A), 1 / actions)
    return piwo.Log.from_arrays(
        context=X, action=A, reward=R, propensity=mu, actions=range(actions), **options
    )


def softmax(scores):
    table = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return table / table.sum(axis=-1, keepdims=True)


# --- the objective


def small_objective(rows=40, seed=0):
    rng = np.random.default_rng(seed)
    z = np.hstack([rng.normal(size=(rows, 2)), np.ones((rows, 1))])
    return ExpectedGains(z, rng.integers(0, 3, rows), rng.random(rows), 100, 5), rng


def test_the_gradient_is_that_of_finite_differences():
    objective, rng = small_objective()
    mean, logs = rng.normal(size=(3, 3)), rng.normal(size=(3, 3)) - 1
    _, by_mean, by_log = objective(mean, np.exp(logs))
    for k in range(3):
        for j in range(3):
            step = np.zeros((3, 3))
            step[k, j] = 1e-5
            numeric = (
                objective(mean + step, np.exp(logs))[0] - objective(mean - step, np.exp(logs))[0]
            ) / 2e-5
            assert by_mean[k, j] == pytest.approx(numeric, rel=1e-5, abs=1e-9)
            numeric = (
                objective(mean, np.exp(logs + step))[0] - objective(mean, np.exp(logs - step))[0]
            ) / 2e-5
            assert by_log[k, j] == pytest.approx(numeric, rel=1e-5, abs=1e-9)


def test_noise_in_the_scores_is_noise_in_the_coefficients():
    """20 000 draws of all coefficients at once give the same mean gain as four draws of the
    scores of each row."""
    objective, rng = small_objective(rows=5000)
    mean, scale = rng.normal(size=(3, 3)), np.full((3, 3), 0.7)
    some = slice(0, 5000, 100)
    twin = 0.0
    for theta in NormalPosterior.about(mean, 0.7).draw(4000, np.random.default_rng(1)):
        twin += (
            softmax(objective.inputs[some] @ theta.T)[np.arange(50), objective.action[some]]
            @ objective.gains[some]
        )
    part = ExpectedGains(
        np.repeat(objective.inputs[some], 400, axis=0),
        np.repeat(objective.action[some], 400),
        np.repeat(objective.gains[some], 400),
        400,
        0,
    )
    assert part(mean, scale)[0] == pytest.approx(twin / 4000, rel=0.01)


def test_what_draws_pay_is_the_divergence_on_average():
    rng = np.random.default_rng(0)
    shape = (2, 3)
    zero, one = np.zeros(2), np.ones(2)
    prior = NormalPosterior(rng.normal(size=shape), np.exp(rng.normal(size=shape)), zero, one)
    mine = NormalPosterior(rng.normal(size=shape), 0.5 * prior.scale, zero, one)
    paid = mine.log_ratio(prior, mine.draw(200_000, rng))
    assert paid.mean() == pytest.approx(mine.kl(prior), rel=0.01)
    # at one point, by the densities
    at = mine.mean[None]
    by_hand = (np.log(prior.scale / mine.scale) + ((at - prior.mean) / prior.scale) ** 2 / 2).sum()
    assert mine.log_ratio(prior, at) == pytest.approx([by_hand], rel=1e-12)


# --- the bounds


def test_both_bounds_by_hand():
    X, A, R = world(1500, 0)
    lam, delta, draws = 0.1, 0.05, 30
    learner = piwo.PACBayesLinear(piwo.LSLinear(lam), prior="zero", draws=draws).fit(
        log_of(X, A, R)
    )
    gain = np.log(1 + lam * R * 3) / lam
    each = [p.probabilities(X)[np.arange(1500), A] @ gain / 1500 for p in learner.policy_.policies]
    made, Q = learner.certificate_, learner.posterior_
    z = np.hstack([X, np.ones((1500, 1))])

    def score(theta):
        return softmax(z @ theta.T)[np.arange(1500), A] @ gain / 1500

    theta = Q.draw(draws, np.random.default_rng([0, 1]))
    assert each == pytest.approx([score(one) for one in theta], rel=1e-12)
    ratio = -np.log(Q.scale) - ((theta - Q.mean) / Q.scale) ** 2 / 2 + theta**2 / 2
    paid = ratio.sum(axis=(1, 2)).mean()
    assert made.log_ratio == pytest.approx(paid, rel=1e-9)
    low = (math.exp(lam * np.mean(each) - (paid + math.log(2 / delta)) / 1500) - 1) / lam
    assert made.value_lower == pytest.approx(low, rel=1e-12)
    assert (made.kind, made.bound, made.rows, made.parameter) == (
        "in-sample",
        "PAC-Bayes",
        1500,
        lam,
    )
    # the posterior itself: half of delta/2 for the draws, half for the log
    unit = score(Q.mean)
    least = unit * bounds.lcb_mean(np.array(each) / unit, delta / 4)
    kl = (Q.scale**2 / 2 + Q.mean**2 / 2 - 0.5 - np.log(Q.scale)).sum()
    low = (math.exp(lam * least - (kl + math.log(4 / delta)) / 1500) - 1) / lam
    assert learner.posterior_bound_.lower == pytest.approx(low, rel=1e-9)
    assert [learner.posterior_bound_.kl, made.kl] == pytest.approx([kl, kl], rel=1e-9)


def test_a_posterior_that_was_fitted_to_noise_pays_for_it():
    """Coin tosses and forty columns of noise: every policy is worth 1/2. Fitted as if nothing had
    to be paid, a
    posterior claims .7 of itself; what its draws pay takes that back.
    """
    wrong = boasts = 0
    lam, prior = 0.3, NormalPosterior.about(np.zeros((2, 41)), 1.0)
    for seed in range(40):
        rng = np.random.default_rng(seed)
        X, A, R = (
            rng.normal(size=(100, 40)),
            rng.integers(0, 2, 100),
            rng.integers(0, 2, 100).astype(float),
        )
        examples = rewarded(log_of(X, A, R, actions=2), [piwo.LSLinear(lam)])
        Q = fit_normal(examples, examples.gains[0], prior, bet=1e4, steps=30, seed=0)
        theta = Q.draw(20, rng)
        policies = Q.policies(theta, piwo.Actions(range(2)), None, greedy=False)
        gain = (
            np.mean(
                [p.chances(examples.context, examples.action) @ examples.gains[0] for p in policies]
            )
            / 100
        )
        paid = float(Q.log_ratio(prior, theta).mean())
        wrong += bounds.pac_bayes_lower(gain, paid, 100, lam, math.log(20)) > 0.5
        boasts += bounds.pac_bayes_lower(gain, 0.0, 100, lam, math.log(20)) > 0.5
    assert wrong <= 0.05 * 40
    assert boasts >= 30


def test_certificates_hold_on_adversarial_bandits():
    wrong = runs = 0
    for number, bandit in enumerate(adversarial_bandits()):
        chance = bandit.high * np.asarray(bandit.chance)
        for seed in range(5):
            log = bandit.log(200, random_state=10 * number + seed)
            (batch,) = log.each_batch()
            with_context = piwo.Log.from_arrays(
                context=np.zeros((200, 1)),
                action=batch.action,
                reward=batch.reward,
                log_propensity=np.asarray(bandit.log_mu)[batch.action],
                actions=bandit.actions,
            )
            if not batch.reward.any():
                continue
            learner = piwo.PACBayesLinear(prior="zero", draws=30, steps=30, delta=0.2).fit(
                with_context
            )
            value = float(learner.policy_.probabilities(np.zeros((1, 1)))[0] @ chance)
            posterior = (
                softmax(learner.posterior_.draw(4000, np.random.default_rng(0))[:, :, -1]).mean(
                    axis=0
                )
                @ chance
            )
            logged = bandit.logging_value
            made, runs = learner.certificate_, runs + 1
            wrong += (
                made.value_lower > value
                or made.improvement_lower > value - logged
                or learner.posterior_bound_.lower > posterior + 0.01
            )
    assert runs >= 30
    assert wrong <= 0.2 * runs


@pytest.mark.parametrize("policy", ["softmax", "greedy"])
def test_a_learned_prior_makes_the_divergence_small(policy):
    X, A, R = world(6000, 1)
    log = log_of(X, A, R)
    split = piwo.PACBayesLinear(policy=policy, draws=40).fit(log)
    zero = piwo.PACBayesLinear(policy=policy, prior="zero", draws=40).fit(log)
    assert split.certificate_.kl < zero.certificate_.kl / 2
    assert split.certificate_.rows + split.certificate_.training_rows == 6000
    assert split.certificate_.split["holdout"] == 0.5
    assert zero.certificate_.rows == 6000
    fresh, best = (
        np.random.default_rng(7).normal(size=(20_000, 2)),
        np.random.default_rng(0).normal(size=(3, 2)),
    )
    right = np.arange(3) == (fresh @ best.T).argmax(axis=1)[:, None]
    for learner in (split, zero):
        value = (
            (learner.policy_.probabilities(fresh) * np.where(right, 0.8, 0.2)).sum(axis=1).mean()
        )
        assert value > 0.6
        assert 0.5 < learner.certificate_.value_lower < value
        assert (
            learner.posterior_bound_.lower < learner.certificate_.value_lower
        )  # it pays for the draws, too
        assert learner.certificate_.certified


def test_a_policy_made_elsewhere_as_prior():
    X, A, R = world(1500, 0)
    log = log_of(X, A, R)
    elsewhere = piwo.oracles.Ridge().solve(log_of(*world(1500, 3)), piwo.IX(0.1))
    start = piwo.policies.LinearSoftmax(
        elsewhere.coef, elsewhere.intercept, range(3), temperature=0.2
    )
    learner = piwo.PACBayesLinear(prior=start, prior_scale=0.5, draws=20).fit(log)
    assert learner.prior_.mean[:, :-1] == pytest.approx(5 * elsewhere.coef, rel=1e-12)
    assert (
        learner.certificate_.value_lower
        > piwo.PACBayesLinear(prior="zero", draws=20).fit(log).certificate_.value_lower
    )
    closed = piwo.policies.LinearGreedy(elsewhere.coef, [0.0, 0.0, -math.inf], range(3))
    with pytest.raises(piwo.UsageError, match="rules out actions"):
        piwo.PACBayesLinear(prior=closed).fit(log)
    steep = piwo.policies.LinearSoftmax(
        np.full((3, 2), 1e300), np.zeros(3), range(3), temperature=1e-300
    )
    with pytest.raises(piwo.UsageError, match="coefficient of inf"):
        piwo.PACBayesLinear(prior=steep).fit(log)
    other = piwo.policies.LinearGreedy(np.zeros((3, 5)), np.zeros(3), range(3))
    with pytest.raises(piwo.UsageError, match="other actions or context columns"):
        piwo.PACBayesLinear(prior=other).fit(log)


def shops(seed, shop, n=600, **options):
    """A log with a text column, of which these are the values; one action is best in each shop."""
    rng = np.random.default_rng(seed)
    where, x, action = rng.integers(0, len(shop), n), rng.normal(size=n), rng.integers(0, 2, n)
    reward = (rng.random(n) < np.where(where % 2 == action, 0.8, 0.2)).astype(float)
    columns = {
        "shop": [shop[i] for i in where],
        "x": x,
        "a": action,
        "r": reward,
        "p": np.full(n, 0.5),
    }
    return piwo.read(
        columns,
        action="a",
        reward="r",
        propensity="p",
        context=["shop", "x"],
        actions=[0, 1],
        **options,
    )


QUICK = {"draws": 5, "steps": 10}


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, "shop"),
        ({"max_levels": 2}, "shop"),
        ({"max_levels": 0, "missing": "indicator"}, "shop, x"),
    ],
)
@pytest.mark.filterwarnings("ignore::piwo.PiwoWarning")
def test_rows_of_the_bound_do_not_make_the_prior(options, told):
    log = shops(0, ["north", "south", "west"], **options)
    for prior in (
        "zero",
        piwo.policies.LinearGreedy(np.zeros((2, log.features.width)), np.zeros(2), [0, 1]),
    ):
        with pytest.raises(
            piwo.UsageError,
            match=rf"the encoding of {told} was derived from the rows .*, so no prior on the",
        ):
            piwo.PACBayesLinear(prior=prior, **QUICK).fit(log)
    elsewhere = shops(1, ["east", "north"]).features
    learner = piwo.PACBayesLinear(prior="zero", **QUICK).fit(log.encoded_by(elsewhere))
    assert learner.prior_.mean.shape == (2, 4)  # east, north, x, and the intercept
    assert learner.policy_.features == elsewhere


@pytest.mark.filterwarnings("ignore::piwo.PiwoWarning")
def test_texts_that_are_hashed_whatever_they_are_tell_nothing():
    learner = piwo.PACBayesLinear(prior="zero", **QUICK).fit(
        shops(0, ["north", "south"], max_levels=0, hash_size=4)
    )
    assert learner.prior_.mean.shape == (2, 6)


@pytest.mark.filterwarnings("ignore::piwo.PiwoWarning")
def test_a_prior_made_elsewhere_brings_its_encoding():
    """The log has a level more, and as many as the prior has without the one that the log lacks."""
    other = shops(1, ["east", "north", "south"])
    start = piwo.oracles.Ridge().solve(other, piwo.IX(0.1))
    learner = piwo.PACBayesLinear(prior=start, **QUICK).fit(shops(0, ["north", "south", "west"]))
    assert learner.policy_.features == other.features
    assert learner.prior_.mean[:, :-1] == pytest.approx(start.coef, rel=1e-12)


@pytest.mark.filterwarnings("ignore::piwo.PiwoWarning")
def test_a_split_prior_knows_the_levels_of_its_own_rows_alone():
    log = shops(0, [f"shop {i}" for i in range(150)], n=300)
    learner = piwo.PACBayesLinear(**QUICK).fit(log)
    assert learner.policy_.features == log.split(0.5, 0).train.features != log.features


def test_a_list_of_actions_that_was_only_seen_stays_so():
    """An encoding that was given does not make the actions known."""
    log = shops(0, ["north", "south"])
    parts = {
        "shop": ["north"] * 90,
        "x": [0.0] * 90,
        "a": [0, 1] * 44 + [1, 2],
        "r": [1.0] * 90,
        "p": [0.5] * 90,
    }
    few = piwo.read(
        parts, action="a", reward="r", propensity="p", context=["shop", "x"]
    ).encoded_by(log.features)
    with pytest.raises(piwo.UsageError, match="logged only once and the action list was inferred"):
        piwo.PACBayesLinear(prior="zero", **QUICK).fit(few)


# --- seeds, files, errors


def test_a_seed_gives_the_same_answer_for_any_threads_and_order_of_rows():
    X, A, R = world(5000, 2)
    log, order = log_of(X, A, R), np.random.default_rng(0).permutation(5000)
    make = lambda seed=0: piwo.PACBayesLinear(prior="zero", draws=5, steps=20, random_state=seed)  # noqa: E731
    one = make().fit(log)
    with ThreadPoolExecutor(3) as pool, piwo.using(pool):
        two = make().fit(log)
    mixed, other = make().fit(log_of(X[order], A[order], R[order])), make(1).fit(log)
    assert (one.posterior_.mean == two.posterior_.mean).all()
    assert one.certificate_.value_lower == pytest.approx(two.certificate_.value_lower, rel=1e-12)
    assert mixed.posterior_.mean == pytest.approx(one.posterior_.mean, rel=1e-9)
    assert mixed.certificate_.value_lower == pytest.approx(one.certificate_.value_lower, rel=1e-9)
    assert (other.posterior_.mean != one.posterior_.mean).any()


def test_the_mixture_survives_a_file(tmp_path):
    X, A, R = world(800, 2)
    learner = piwo.PACBayesLinear(draws=7, steps=10).fit(log_of(X, A, R))
    learner.policy_.save(
        tmp_path / "p.piwo", metadata={"certificate": learner.certificate_.to_dict()}
    )
    again = piwo.policies.load_with_metadata(tmp_path / "p.piwo")
    assert again.policy.probabilities(X) == pytest.approx(
        learner.policy_.probabilities(X), rel=1e-12
    )
    assert piwo.Certificate.from_dict(again.metadata["certificate"]) == learner.certificate_
    decisions = again.policy.act(X[:50], random_state=0)
    table = again.policy.probabilities(X[:50])
    assert decisions.propensities == pytest.approx(
        table[np.arange(50), decisions.actions], rel=1e-12
    )


def test_frames_are_learned_from_and_acted_on_by_name():
    pandas = pytest.importorskip("pandas")
    X, A, R = world(900, 2)
    names = np.array(["a", "b", "c"])
    frame = pandas.DataFrame(
        {"x": 100 + 7 * X[:, 0], "y": X[:, 1], "item": names[A], "click": R, "p": 1 / 3}
    )
    log = piwo.read(frame, action="item", reward="click", propensity="p", context=["x", "y"])
    learner = piwo.PACBayesLinear(draws=5, steps=20).fit(log)
    one = learner.policy_.act(frame[["y", "x"]], random_state=0)
    two = learner.policy_.act(frame[["x", "y"]], random_state=0)
    assert (one.actions == two.actions).all()
    # the first part says where the columns lie: their unit does not matter
    plain = piwo.PACBayesLinear(draws=5, steps=20).fit(log_of(X, A, R))
    assert learner.certificate_.value_lower == pytest.approx(
        plain.certificate_.value_lower, abs=1e-3
    )


@pytest.mark.parametrize("size", [1e200, 1e300, 1e-200, 1e-320])
def test_the_size_of_the_context_does_not_matter_to_a_learned_prior(size):
    X, A, R = world(300, 0)
    options = {"draws": 5, "steps": 20}
    huge = piwo.PACBayesLinear(**options).fit(log_of(X * size, A, R)).certificate_
    if size > 1e-300:
        assert huge.value_lower == pytest.approx(
            piwo.PACBayesLinear(**options).fit(log_of(X, A, R)).certificate_.value_lower, rel=1e-6
        )
    assert 0.0 <= huge.value_lower < 0.8
    if size > 1:
        with pytest.raises(
            piwo.DataError, match=r"context column 0 holds numbers up to .*bring it to size 1"
        ):
            piwo.PACBayesLinear(prior="zero", **options).fit(log_of(X * size, A, R))


@pytest.mark.parametrize(
    "scale", [1e-300, 1e300, math.nan, math.inf, -1.0, 0, "a", None, True, np.ones(2), 10**400]
)
def test_a_scale_of_the_prior_that_is_none(scale):
    X, A, R = world(60, 0)
    with pytest.raises(
        piwo.UsageError, match=r"prior_scale is .*expected a number from 1e-50 to 1e\+50"
    ):
        piwo.PACBayesLinear(prior_scale=scale).fit(log_of(X, A, R))


@pytest.mark.parametrize("scale", [1e-50, 1e-20, 1e20, 1e50])
def test_extreme_priors_are_answered(scale):
    X, A, R = world(200, 0)
    for prior in ("split", "zero"):
        made = (
            piwo.PACBayesLinear(prior=prior, prior_scale=scale, draws=3, steps=10)
            .fit(log_of(X, A, R))
            .certificate_
        )
        assert 0.0 <= made.value_lower < 0.8
        assert math.isfinite(made.kl)


@pytest.mark.parametrize(
    "prior", [None, 1, np.zeros((3, 3)), ["split"], b"zero", piwo.policies.Uniform(range(3))]
)
def test_a_prior_that_is_none(prior):
    X, A, R = world(60, 0)
    with pytest.raises(
        piwo.UsageError, match=r"prior is .*expected 'split', 'zero', or a linear policy"
    ):
        piwo.PACBayesLinear(prior=prior).fit(log_of(X, A, R))


def test_the_smallest_logs():
    X, A, R = world(80, 0)
    options = {"draws": 3, "steps": 5}
    for prior in ("split", "zero"):
        one = log_of(X, np.zeros(80, int), R, actions=1)
        assert (
            piwo.PACBayesLinear(prior=prior, **options).fit(one).policy_.probabilities(X).tolist()
            == [[1.0]] * 80
        )
        with pytest.raises(piwo.DataError, match="nothing to learn from"):
            piwo.PACBayesLinear(prior=prior, **options).fit(log_of(X, A, 0 * R))
    single = log_of(X[:1], A[:1], np.ones(1))
    assert piwo.PACBayesLinear(prior="zero", **options).fit(single).certificate_.value_lower == 0.0
    with pytest.raises(piwo.DataError, match="at least 1 on each side"):
        piwo.PACBayesLinear(**options).fit(single)


def test_bad_arguments():
    X, A, R = world(60, 0)
    log = log_of(X, A, R)
    for wrong, message in (
        ({"prior": "flat"}, "expected 'split', 'zero', or a linear policy"),
        ({"draws": 0}, "draws is 0"),
        ({"steps": -1}, "steps is -1"),
        ({"score": piwo.Clip(0.1)}, "Clip has no PAC-Bayes bound"),
    ):
        with pytest.raises(piwo.UsageError, match=message):
            piwo.PACBayesLinear(**wrong).fit(log)
    with pytest.raises(piwo.UsageError, match="expected 'softmax' or 'greedy'"):
        piwo.PACBayesLinear().set_params(policy="argmax").fit(log)
    bare = piwo.Log.from_arrays(action=A, reward=R, propensity=np.full(60, 1 / 3))
    with pytest.raises(piwo.UsageError, match="need the context"):
        piwo.PACBayesLinear().fit(bare)
    with pytest.raises(piwo.DataError, match="nothing to learn from"):
        piwo.PACBayesLinear().fit(log_of(X, A, np.zeros(60)))
