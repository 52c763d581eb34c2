"""The sampled Gibbs posterior: its density, its draws against numerical integration, and
certificates of any draws."""

import math
import os
import signal
import sys
import threading
import time
import warnings
from copy import copy
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

import piwo
from piwo.learners import nuts
from piwo.learners.gibbs_linear import GibbsLinear
from piwo.learners.nuts import Chains, draw_chains
from piwo.simulate import adversarial_bandits

pytest.importorskip("nutpie", reason="sampling needs the extra piwo[sampler]")
# short chains: what is with_propensity_error of them depends on the version of the sampler
pytestmark = [
    pytest.mark.statistics,
    pytest.mark.filterwarnings("ignore:.*the certificate is valid all the same:piwo.PiwoWarning"),
]


def world(n, seed, actions=2, width=1):
    """One action is best in each context, and pays .8 instead of .2; the logger is uniform."""
    rng = np.random.default_rng(seed)
    X, A = rng.normal(size=(n, width)), rng.integers(0, actions, n)
    best = (X @ np.random.default_rng(0).normal(size=(actions, width)).T).argmax(axis=1)
    return X, A, (rng.random(n) < np.where(best == A, 0.8, 0.2)).astype(float)


def log_of(X, A, R, actions=2, **options):
    mu = np.full(len(A), 1 / actions)
    return piwo.Log.from_arrays(
        context=X, action=A, reward=R, propensity=mu, actions=range(actions), **options
    )


def density_of(log, score, scale):
    return GibbsLinear(prior_scale=scale)._density(log, score)


def softmax(scores):
    table = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return table / table.sum(axis=-1, keepdims=True)


# --- the density


def test_the_density_is_that_of_the_formula_over_all_rows():
    X, A, R = world(300, 0, actions=3, width=2)
    X = X.round()  # many rows alike
    lam, s = 0.3, 1.7
    density = density_of(log_of(X, A, R, actions=3), piwo.LSLinear(lam), s)
    assert len(density.gains.action) < R.sum() / 2
    rewarded = X[R > 0]
    z = np.hstack([(X - rewarded.mean(axis=0)) / rewarded.std(axis=0), np.ones((300, 1))])
    for seed in range(3):
        theta = np.random.default_rng(seed).normal(size=(3, 3))
        pi = softmax(z @ theta.T)[np.arange(300), A]
        value = lam * np.sum(pi * np.log(1 + lam * R * 3) / lam) - (theta**2).sum() / (2 * s * s)
        assert density(theta.ravel() / s)[0] == pytest.approx(value, rel=1e-12)


def test_the_gradient_is_that_of_finite_differences():
    density = density_of(log_of(*world(60, 0, 3, 2), actions=3), piwo.IX(0.2), 0.7)
    theta = np.random.default_rng(0).normal(size=9)
    slope = density(theta)[1]
    for k, step in enumerate(1e-5 * np.eye(9)):
        assert slope[k] == pytest.approx(
            (density(theta + step)[0] - density(theta - step)[0]) / 2e-5, rel=1e-6
        )


def test_the_density_does_not_know_the_order_of_the_rows():
    X, A, R = world(500, 1)
    mixed = np.random.default_rng(0).permutation(500)
    one, two = (
        density_of(log_of(X[rows], A[rows], R[rows]), piwo.LSLinear(0.1), 1.0)
        for rows in (slice(None), mixed)
    )
    theta = np.array([0.3, -0.2, 0.1, 0.5])
    assert one(theta)[0] == pytest.approx(two(theta)[0], rel=1e-12)
    assert one(theta)[1] == pytest.approx(two(theta)[1], rel=1e-9)


def test_far_out_there_is_a_wall_and_no_warning():
    density = density_of(log_of(*world(50, 0)), piwo.LSLinear(0.1), 1.0)
    assert not density(np.full(4, 1e200))[0] > -1e300


# --- the draws


def gauss(place):
    return -0.5 * float(place @ place), -place


def drawn(density=gauss, seed=0, size=2, **options):
    options = {"chains": 3, "warmup": 200, "draws": 300} | options
    return draw_chains(density, size=size, seed=seed, **options)


def test_a_normal_density_is_drawn_from():
    chains = drawn()
    every = chains.draws.reshape(-1, 2)
    assert every.mean(axis=0) == pytest.approx([0, 0], abs=4 / math.sqrt(chains.ess))
    assert every.std(axis=0) == pytest.approx([1, 1], abs=4 / math.sqrt(chains.ess))
    assert chains.rhat < 1.02
    assert chains.ess > 300
    assert chains.divergences == 0
    assert chains.gradients >= 900
    assert chains.caveats(300) == ()


def test_diagnostics_by_hand_for_chains_that_disagree():
    """Two chains that stay around 0 and around 10: R-hat says so, and few draws are
    left of many.
    """
    rng = np.random.default_rng(0)
    apart = rng.normal(size=(2, 400, 1)) + np.array([0.0, 10.0])[:, None, None]
    stats = {"diverging": np.array([True, False, True]), "n_steps": np.array([3, 4])}
    fields = {
        name: SimpleNamespace(values=values) for name, values in {"place": apart, **stats}.items()
    }
    made = nuts._chains(SimpleNamespace(posterior=fields, sample_stats=fields))
    # halves of normal scores: means -+sqrt(2/pi) in four half chains, variance 1 - 2/pi in each
    assert made.rhat == pytest.approx(
        math.sqrt(1 + (4 / 3) * (2 / math.pi) / (1 - 2 / math.pi)), rel=0.01
    )
    assert made.ess < 5
    assert (made.divergences, made.gradients) == (2, 7)
    assert [caveat.split()[0] for caveat in made.caveats(100)] == ["the", "the", "2"]


def test_a_seed_gives_the_same_draws_on_any_number_of_cores(monkeypatch):
    one = drawn(draws=50)
    monkeypatch.setenv("PIWO_THREADS", "1")
    two, other = drawn(draws=50), drawn(draws=50, seed=1)
    assert (one.draws == two.draws).all()
    assert (one.draws != other.draws).any()


def test_progress_is_told():
    told = []
    with piwo.reporting(lambda done, total: told.append((done, total))):
        drawn(draws=40, warmup=20, rows=7)
    assert sum(done for done, _ in told) == 3 * 60 * 7
    assert {total for _, total in told} == {3 * 60 * 7}


def test_ctrl_c_ends_it_at_once():
    asked = []

    def slow(place):
        asked.append(threading.get_ident())
        time.sleep(0.002)
        return gauss(place)

    threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        drawn(slow, draws=100_000)
    before = len(asked)
    time.sleep(0.2)
    assert len(asked) <= before + 3


def test_no_starting_point_is_one_line():
    with pytest.raises(piwo.DataError, match="no starting point with a finite density"):
        drawn(lambda place: (math.nan, place), draws=5)


def test_without_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "nutpie", None)
    with pytest.raises(piwo.UsageError, match=r"piwo\[sampler\]"):
        piwo.GibbsLinear().fit(log_of(*world(50, 0)))


# --- the learner


def test_the_draws_are_those_of_numerical_integration():
    """Two actions: policies know the differences of coefficients alone, and a grid in two
    dimensions is exact."""
    X, A, R = world(240, 3)
    lam, s = 0.15, 1.5
    learner = piwo.GibbsLinear(piwo.LSLinear(lam), prior_scale=s, samples=500, random_state=5)
    log = log_of(X, A, R)
    learner.fit(log)
    part = log.split(holdout=0.5, seed=5).train
    ((batch),) = part.each_batch(context=True)
    x, won = batch.context[:, 0], batch.reward > 0
    z = (x - x[won].mean()) / x[won].std()
    side = np.linspace(-18, 18, 241)
    w, b = (one.ravel() for one in np.meshgrid(side, side))
    heights = -(w**2 + b**2) / (4 * s * s)
    gain = math.log(1 + 2 * lam)  # lambda times log(1 + lambda/(1/2))/lambda
    for at, action in zip(z[won], batch.action[won], strict=True):
        heights += gain / (1 + np.exp((w * at + b) * (1 - 2 * action)))
    mass = np.exp(heights - heights.max())
    mass /= mass.sum()
    assert mass[np.maximum(abs(w), abs(b)) > 16].sum() < 1e-9
    theta = s * learner.chains_.draws.reshape(-1, 2, 2)
    mine_w, mine_b = (theta[:, 1] - theta[:, 0]).T
    assert learner.chains_.ess > 500
    assert learner.chains_.rhat < 1.02
    for exact, mine in (
        (w, mine_w),
        (b, mine_b),
        (w * w, mine_w**2),
        (w * b, mine_w * mine_b),
        (1 / (1 + np.exp(-w - b)), 1 / (1 + np.exp(-mine_w - mine_b))),
    ):
        error = mine.std() / math.sqrt(learner.chains_.ess)
        assert mine.mean() == pytest.approx(mass @ exact, abs=4 * error)
    # draws from the prior would not pass
    assert abs(mass @ w) > 20 * mine_w.std() / math.sqrt(learner.chains_.ess)


def test_the_mixture_is_certified_on_the_other_rows():
    X, A, R = world(2000, 0)
    log = log_of(X, A, R)
    learner = piwo.GibbsLinear(draws=30, warmup=150, samples=100).fit(log)
    made = learner.certificate_
    # a copy does not know that the learner has certified on these rows
    again = piwo.certify(
        log.split(holdout=0.5, seed=0).test, {0: copy(learner.policy_)}, delta=0.05
    )[0]
    assert (made.value_lower, made.improvement_lower) == (
        again.value_lower,
        again.improvement_lower,
    )
    assert (made.kind, made.kl, made.rows + made.training_rows) == ("held-out", None, 2000)
    assert (made.score, made.parameter) == (
        "ls-linear",
        pytest.approx(2 * math.sqrt(1 / made.training_rows)),
    )
    assert made.certified
    table = learner.policy_.probabilities(X)
    twin = softmax(np.einsum("nj,mkj->mnk", learner.prior_.inputs(X), learner.coefficients_)).mean(
        axis=0
    )
    assert table == pytest.approx(twin, rel=1e-9)
    acted = learner.policy_.act(X[:50], random_state=0)
    assert acted.propensities == pytest.approx(table[np.arange(50), acted.actions], rel=1e-12)


def test_texts_as_context_and_an_action_that_only_other_rows_have():
    rng = np.random.default_rng(0)
    shop, action = rng.choice(["north", "south"], 400), rng.choice(["a", "b"], 400)
    action[-1] = "rare"
    columns = {"shop": shop, "item": action, "click": ((action == "a") == (shop == "north")) * 1.0}
    log = piwo.read(
        pa.table({**columns, "p": np.full(400, 0.5)}),
        action="item",
        reward="click",
        propensity="p",
        context="shop",
    )
    with pytest.warns(piwo.PiwoWarning, match="1 action"):
        learner = piwo.GibbsLinear(draws=20, warmup=100, samples=50, tail=True).fit(log)
    table = learner.policy_.probabilities(pa.table({"shop": ["north", "south"]}))
    assert table[0, 0] > 0.6 > 0.4 > table[1, 0]
    assert len(learner.policy_.actions) == table.shape[1]


def claims(learner, value, logged):
    """Whether a certificate says more than is true; rows that contradict their propensities get
    no bounds."""
    low, better = learner.certificate_.value_lower, learner.certificate_.improvement_lower
    return (low is not None and low > value) or (better is not None and better > value - logged)


def test_certificates_hold_whatever_the_draws_are(monkeypatch):
    """Coin tosses: every policy is worth 1/2. The worst draws that a sampler could make fit the
    rows it saw."""
    wrong = boasts = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        X, A, R = (
            rng.normal(size=(120, 20)),
            rng.integers(0, 2, 120),
            rng.integers(0, 2, 120).astype(float),
        )
        log = log_of(X, A, R)

        def climbing(density, *, size, rng=rng, **asked):
            place = rng.normal(size=size)
            for _ in range(60):
                place = place + 0.5 * density.gains(place)[1] * -100
            return Chains(np.tile(place, (4, 500, 1)), 1.0, 1e9, 0, 0)

        monkeypatch.setattr("piwo.learners.gibbs_linear.draw_chains", climbing)
        learner = piwo.GibbsLinear(draws=2, delta=0.2).fit(log)
        wrong += claims(learner, 0.5, 0.5)
        (seen,) = log.split(holdout=0.5, seed=0).train.each_batch(context=True)
        chance = learner.policy_.probabilities(seen.context)[np.arange(len(seen)), seen.action]
        boasts += piwo.bounds.lcb_mean(2 * chance * seen.reward, 0.2) > 0.5
    assert wrong <= 0.2 * 40
    assert boasts >= 20


def test_certificates_hold_on_adversarial_bandits():
    wrong = runs = 0
    for number, bandit in enumerate(adversarial_bandits()):
        for seed in range(2):
            (batch,) = bandit.log(200, random_state=10 * number + seed).each_batch()
            if not batch.reward[:50].any():
                continue
            log = piwo.Log.from_arrays(
                context=np.zeros((200, 1)),
                action=batch.action,
                reward=batch.reward,
                log_propensity=np.asarray(bandit.log_mu)[batch.action],
                actions=bandit.actions,
            )
            learner = piwo.GibbsLinear(
                draws=20, chains=2, warmup=20, samples=20, delta=0.05, tail=True
            )
            with warnings.catch_warnings():
                warnings.simplefilter(
                    "ignore", piwo.PiwoWarning
                )  # short chains, and actions on one side alone
                learner.fit(log)
            value = float(
                learner.policy_.probabilities(np.zeros((1, 1)))[0]
                @ (bandit.high * np.asarray(bandit.chance))
            )
            runs += 1
            wrong += claims(learner, value, bandit.logging_value)
    assert runs >= 10
    assert wrong <= 0.05 * runs


def test_doubts_about_the_draws_are_said():
    with pytest.warns(
        piwo.PiwoWarning,
        match=r"have not mixed|independent draws.*the certificate is valid all the same",
    ):
        piwo.GibbsLinear(warmup=10, samples=10, chains=2, draws=20).fit(log_of(*world(100, 0)))


@pytest.mark.parametrize("scale", [1e-50, 10.0])
def test_priors_of_any_size(scale):
    learner = piwo.GibbsLinear(prior_scale=scale, chains=2, warmup=60, samples=60, draws=5).fit(
        log_of(*world(100, 0))
    )
    assert 0.0 <= learner.certificate_.value_lower < 0.8


def test_where_chains_start_depends_on_the_seed(monkeypatch):
    """Each chain of each seed starts at a place of its own, and at the same place again."""
    given, places = nuts._nutpie(), []

    def told():
        sample, model_of = given

        def spied(make_initial_point_fn, **asked):
            def start(chain):
                places.append(tuple(make_initial_point_fn(chain)))
                return np.array(places[-1])

            return model_of(make_initial_point_fn=start, **asked)

        return sample, spied

    monkeypatch.setattr(nuts, "_nutpie", told)
    started = []
    for seed in (0, 1, 0):
        places.clear()
        draw_chains(lambda u: (-u @ u / 2, -u), size=2, chains=3, warmup=20, draws=20, seed=seed)
        started.append(set(places))
    assert len(started[0]) == 3
    assert not started[0] & started[1]
    assert started[0] == started[2]


@pytest.mark.parametrize("seed", [0, 2**70, np.int64(3)])
def test_any_whole_number_is_a_seed(seed):
    log = log_of(*world(80, 0))
    few = {"draws": 5, "random_state": seed}
    for learner in (
        piwo.GibbsLinear(warmup=60, samples=60, chains=2, **few),
        piwo.PACBayesLinear(steps=5, **few),
    ):
        assert learner.fit(log).certificate_.split["seed"] == int(seed)


def test_bad_arguments():
    X, A, R = world(60, 0)
    log = log_of(X, A, R)
    for wrong, message in (
        ({"prior_scale": math.nan}, "prior_scale is nan"),
        ({"draws": 0}, "draws is 0"),
        ({"chains": 1}, "chains is 1"),
        ({"warmup": 0}, "warmup is 0"),
        ({"chains": 20, "warmup": 10}, "expected at most warmup and samples"),
        ({"samples": True}, "samples is True"),
        ({"draws": 3000}, "make only 2000; raise samples"),
        ({"score": piwo.Clip(0.1)}, "Clip has no PAC-Bayes bound"),
        ({"score": piwo.IX((0.1, 0.2))}, "several hyper-parameters"),
    ):
        with pytest.raises(piwo.UsageError, match=message):
            piwo.GibbsLinear(**wrong).fit(log)
    bare = piwo.Log.from_arrays(action=A, reward=R, propensity=np.full(60, 1 / 2))
    with pytest.raises(piwo.UsageError, match="need the context"):
        piwo.GibbsLinear().fit(bare)
    with pytest.raises(piwo.DataError, match="nothing to learn from"):
        piwo.GibbsLinear().fit(log_of(X, A, np.zeros(60)))
