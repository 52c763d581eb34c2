"""Certificates with control variates and against other baselines: by hand, by naive sums, how
often they hold."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import piwo
from piwo import UsageError, bounds
from piwo.bounds.deadline import Blocks, Mixture, deadline_log_e_value, deadline_lower
from piwo.evaluation.baseline import PAIR_SHIFTS, PAIR_WEIGHTS, Difference
from piwo.intervals.control_variate import GAIN_SHIFTS, GAIN_WEIGHTS, SHIFTS, WEIGHTS
from piwo.logs import Batch
from piwo.oracles import Exhaustive, Ridge
from piwo.policies import Constant, Logging, Tabular, Uniform
from piwo.reductions import bet_sums, reduce
from piwo.reductions.blocks import BLOCK_BETS, Partition
from piwo.reductions.control_variate import BASELINES, GAIN_BASELINES
from piwo.reductions.pair_sums import PAIR_BASELINES, PairSums
from piwo.simulate import ClassificationBandit, adversarial_bandits

DELTA = 0.05
EACH = bounds.log_inv_delta(DELTA)


def bandit_log(mu, chance, n: int, seed: int, **more) -> piwo.Log:
    """A log of actions 0, 1, ... without context that knows the probability of every action."""
    rng = np.random.default_rng(seed)
    action = rng.choice(len(mu), size=n, p=mu)
    reward = (rng.random(n) < np.asarray(chance)[action]) * 1.0
    full = {} if more else {"propensities": np.tile(mu, (n, 1))}
    given = {key: np.asarray(value)[action] for key, value in more.items()}
    return piwo.Log.from_arrays(
        action=action, reward=reward, actions=range(len(mu)), **given, **full
    )


def naive(log: piwo.Log, pi, share: float) -> tuple[float, float]:
    """The pooled bounds on value and improvement, written out with a table of rows by actions."""
    (batch,) = log.each_batch(propensities=True)
    pi, t = np.tile(pi, (len(batch), 1)), np.arange(len(batch))
    mu, a, r = batch.propensities, batch.action, batch.reward
    w = pi / mu
    raised = []
    for c, k in BASELINES:
        b = np.minimum(c, k / np.maximum(w, 1e-300))
        raised.append(w[t, a] * (r - b[t, a]) + (pi * b).sum(axis=1) + k)
    plain = w[t, a] * r
    distance = np.maximum(0.0, mu - pi).sum(axis=1)
    gains = [plain + 1 - r, plain + 1 - r + np.maximum(0.0, 1 - w[t, a]) - distance]
    gains += [raised[i] + 1 - r for i in GAIN_BASELINES]
    n = len(batch)
    value = bounds.pooled_lower(
        np.stack([bet_sums(y) for y in (plain, *raised)]), SHIFTS, WEIGHTS, n, share
    )
    better = bounds.pooled_lower(
        np.stack([bet_sums(y) for y in gains]), GAIN_SHIFTS, GAIN_WEIGHTS, n, share
    )
    return value, better - 1


@pytest.mark.parametrize("pi", [(0.0, 1.0, 0.0), (0.2, 0.5, 0.3)])
def test_bounds_are_the_pooled_ones_where_the_log_knows_every_probability(pi) -> None:
    log = bandit_log((0.5, 0.2, 0.3), (0.3, 0.9, 0.5), 700, seed=0)
    policy = Tabular(pi, log.actions)
    two = {"one": policy, "other": Uniform(log.actions)}
    held = piwo.certify(log, two, interval="mixture-cv")["one"]
    assert (held.kind, held.bound, held.candidates) == ("held-out", "mixture-cv", 2)
    assert (held.value_lower, held.improvement_lower) == pytest.approx(
        naive(log, pi, EACH + math.log(2)), rel=1e-9
    )
    declared = Exhaustive([policy, *(Constant(x, log.actions) for x in log.actions)])
    inside = piwo.certify(log, {0: policy}, within=declared, interval="mixture-cv")[0]
    assert (inside.kind, inside.bound) == ("in-sample", "mixture-cv")
    assert (inside.value_lower, inside.improvement_lower) == pytest.approx(
        naive(log, pi, EACH + math.log(4)), rel=1e-9
    )


def test_a_certificate_is_one_side_of_the_interval_at_twice_the_delta() -> None:
    """Which `tests/simulate/test_interval_widths.py` shows to be wrong less often than allowed."""
    log = bandit_log((0.9, 0.1), (0.98, 0.99), 900, seed=1)
    policy = Constant(1, log.actions)
    for interval in ("mixture", "mixture-cv", "deadline", "deadline-cv"):
        made = piwo.certify(log, {0: policy}, interval=interval)[0]
        wide = piwo.evaluate(log, policy, interval=interval, delta=2 * DELTA)
        assert made.value_lower == pytest.approx(wide.lower, rel=1e-12)
        assert made.bound == wide.interval == interval


def contextual(seed: int, n: int = 3000) -> piwo.Log:
    """A log in which the reward follows the context: that of action 1 is all but known, once it
    was seen."""
    rng = np.random.default_rng(seed)
    x, a = rng.normal(size=(n, 1)), (rng.random(n) < 0.2) * 1
    reward = np.where(a == 1, x[:, 0] > -1.0, rng.random(n) < 0.7) * 1.0
    return piwo.Log.from_arrays(
        context=x, action=a, reward=reward, propensities=np.tile([0.8, 0.2], (n, 1)), actions=[0, 1]
    )


def test_a_reward_model_lifts_the_bounds_of_certificates_and_these_hold() -> None:
    truth, logged = 0.841345, 0.2 * 0.841345 + 0.8 * 0.7  # P(X > -1)
    lifted = []
    for seed in range(6):
        log = contextual(seed)
        policy = Constant(1, log.actions)
        plain, made = (
            piwo.certify(log, {0: policy}, q=q, interval="mixture-cv")[0] for q in (None, "forward")
        )
        wide = piwo.evaluate(log, policy, q="forward", delta=2 * DELTA, interval="mixture-cv")
        assert made.value_lower == pytest.approx(wide.lower, 1e-12)
        assert made.value_lower < truth
        assert made.improvement_lower < truth - logged
        lifted.append(
            (made.value_lower - plain.value_lower, made.improvement_lower - plain.improvement_lower)
        )
    assert np.mean(lifted, axis=0).min() > 0.004
    declared = Exhaustive([Constant(x, log.actions) for x in (0, 1)])
    inside = piwo.certify(log, {0: policy}, within=declared, q="forward")[0]
    assert (inside.kind, inside.value_lower > 0.7) == ("in-sample", True)


def test_facts_are_fields_of_a_certificate() -> None:
    log = contextual(0, 50)
    with pytest.raises(UsageError, match="facts names 'x', which is not a field of Certificate"):
        piwo.certify(log, {0: Constant(1, log.actions)}, facts={"x": 1})


def test_a_reward_model_without_use_is_refused() -> None:
    log = contextual(0, 50)
    with pytest.raises(UsageError, match="interval='mixture' takes no reward model; leave q out"):
        piwo.certify(log, {0: Constant(1, log.actions)}, interval="mixture", q="forward")
    alone = piwo.Log.from_arrays(
        action=[0, 1], reward=[0, 1], propensity=[0.5, 0.5], actions=[0, 1]
    )
    with pytest.raises(
        UsageError,
        match="q serves control variates: the log has the propensity of the",
    ):
        piwo.certify(alone, {0: Constant(1, alone.actions)}, q="forward")


def gaps(mu, chance, seeds) -> dict[str, np.ndarray]:
    """How far the bounds on value and improvement of action 0 lie below the truth, on average, by
    method."""
    value, logged = chance[0], float(np.dot(mu, chance))
    found: dict[str, list] = {"mixture": [], "mixture-cv": []}
    for seed in seeds:
        log = bandit_log(mu, chance, 3000, seed)
        for name, each in found.items():
            made = piwo.certify(log, {0: Constant(0, log.actions)}, interval=name)[0]
            each.append((value - made.value_lower, value - logged - made.improvement_lower))
    assert min(min(pair) for each in found.values() for pair in each) > 0
    return {name: np.mean(each, axis=0) for name, each in found.items()}


def test_control_variates_close_most_of_the_gap_where_rewards_are_frequent() -> None:
    """Clicks mirrored: one action in ten has R = 1 in 99 % of rows. The gap falls by four, and
    what is better shows."""
    found = gaps((0.1, 0.9), (0.99, 0.9), range(8))
    value, gain = found["mixture"] / found["mixture-cv"]
    assert value > 3.5
    assert gain > 3.5
    # .081 better: certified with, far from it without
    assert found["mixture-cv"][1] < 0.081 < found["mixture"][1]


def test_control_variates_cost_little_where_rewards_are_rare() -> None:
    """Clicks: .01 of the rows, all the fall in width (.19 to .05) is at the upper end, which
    certificates lack."""
    found = gaps((0.1, 0.9), (0.01, 0.01), range(8))
    assert (found["mixture-cv"] < found["mixture"] + 0.002).all()


def test_what_knows_less_keeps_the_plain_bound() -> None:
    known = bandit_log((0.5, 0.5), (0.5, 0.9), 500, seed=2)
    logged = bandit_log((0.5, 0.5), (0.5, 0.9), 500, seed=2, propensity=(0.5, 0.5))
    policy = Constant(1, known.actions)
    plain = piwo.certify(logged, {0: policy})[0]
    assert (plain.bound, plain.notes) == ("deadline", ())
    assert plain.value_lower == piwo.certify(known, {0: policy}, interval="deadline")[0].value_lower
    assert piwo.certify(known.with_propensity_error(1.2), {0: policy})[0].bound == "deadline"
    with pytest.raises(
        UsageError,
        match="interval='mixture-cv': the log has the propensity of the logged action only",
    ):
        piwo.certify(logged, {0: policy}, interval="mixture-cv")
    with pytest.raises(
        UsageError,
        match="interval='normal' makes no certificates, expected one of auto, deadline-cv, de",
    ):
        piwo.certify(known, {0: policy}, interval="normal")


def test_learners_profit_and_the_theorem_keeps_its_own_event() -> None:
    rng = np.random.default_rng(0)
    n = 600
    x, a = rng.normal(size=(n, 1)), rng.integers(0, 2, n)
    log = piwo.Log.from_arrays(
        context=x,
        action=a,
        reward=(a == (x[:, 0] > 0)) * 1.0,
        propensities=np.full((n, 2), 0.5),
        actions=[0, 1],
    )
    both = Exhaustive([Constant(label, log.actions) for label in log.actions])
    assert piwo.PIWO(oracle=Ridge()).fit(log).certificate_.bound == "deadline-cv"
    assert piwo.PIWOGrid(oracle=Ridge()).fit(log).certificate_.bound == "deadline-cv"
    assert piwo.Auto([Ridge()]).fit(log).certificate_.bound == "deadline-cv"
    assert (
        piwo.PIWO(piwo.IX(0.1), both, certificate="in-sample").fit(log).certificate_.bound
        == "deadline-cv"
    )
    # its regret bound rests on the mixture bounds of the whole class
    assert piwo.PIWOGrid(oracle=both).fit(log).certificate_.bound == "mixture"


# --- baselines


def test_against_a_baseline_by_hand() -> None:
    """a against b on a, b, a, b, ...: Y = 1/.5 + 1 - 1 = 2 in every row."""
    log = piwo.Log.from_arrays(action=["a", "b"] * 200, reward=[1, 0] * 200, propensity=[0.5] * 400)
    a, b = (Constant(x, log.actions) for x in "ab")
    by_hand = (
        bounds.lower(bet_sums([2.0] * 400), 400, EACH, prior=bounds.improvement_bets(400, EACH)) - 1
    )
    made = piwo.certify(log, {"a": a}, baseline=b, interval="mixture")["a"]
    assert made.improvement_lower == pytest.approx(by_hand, rel=1e-12)
    assert (made.baseline, made.baseline_value, made.over) == (
        "constant:b",
        0.0,
        "the baseline constant:b",
    )
    assert "over the baseline constant:b (0): certified better" in str(made)
    assert piwo.Certificate.from_dict(made.to_dict()) == made
    found = piwo.evaluate(log, a, baseline=b, interval="mixture")
    assert found.improvement_lower == pytest.approx(by_hand, rel=1e-12)
    assert found.log_e_better == pytest.approx(
        bounds.log_e_value(bet_sums([2.0] * 400), 400, 1.0), rel=1e-12
    )
    # it is the regret certificate, seen from the other side
    assert made.improvement_lower == pytest.approx(
        -piwo.regret_certificate(log, a, {"b": b}, interval="mixture").regret_upper, rel=1e-12
    )


def test_shares_of_delta_by_hand() -> None:
    """a earns 1 in its half of the rows, b nothing; three quarters of delta for a, the rest for b
    and its twin."""
    log = piwo.Log.from_arrays(action=["a", "b"] * 200, reward=[1, 0] * 200, propensity=[0.5] * 400)
    a, b, twin = (Constant(x, log.actions) for x in "abb")
    shares = {"a": 0.75, "b": 0.125, "twin": 0.125}
    three = {"a": a, "b": b, "twin": twin}
    made = piwo.certify(log, three, delta=DELTA, shares=shares, interval="mixture")
    for name, share, credit in (("a", 0.75, 2.0), ("b", 0.25, 0.0), ("twin", 0.25, 0.0)):
        penalty = math.log(1 / (DELTA * share))
        by_hand = bounds.improvement_lower(bet_sums([credit, 1.0] * 200), 400, penalty)
        assert made[name].improvement_lower == pytest.approx(by_hand, rel=1e-9)
        assert (made[name].share, made[name].candidates) == (share, 2)
        assert piwo.Certificate.from_dict(made[name].to_dict()) == made[name]
    equal = piwo.certify(log, {"a": a, "b": b}, delta=DELTA, interval="mixture")
    assert equal["a"].improvement_lower < made["a"].improvement_lower
    assert equal["a"].share is None


def by_block(y: np.ndarray) -> tuple[Blocks, np.ndarray]:
    """The sums of rows by block, from the rows of each block, and those of all rows."""
    rows = Batch(0, np.zeros(len(y), np.int32), np.ones(len(y)), np.ones(len(y)))
    places = Partition("hash").of(rows).places
    found = Blocks.of([y[places == block] for block in range(64)])
    kept = np.isin(found.bets, BLOCK_BETS)
    return replace(found, sums=found.sums[:, :, kept], bets=BLOCK_BETS), bet_sums(y)


@pytest.mark.parametrize("mu_a", [0.5, 0.44])
def test_shares_of_delta_of_bets_on_blocks(mu_a: float) -> None:
    """The bounds and the test of the propensities, by the formula from the rows themselves."""
    n, shares, mu = 500, {"a": 0.75, "b": 0.25}, {"a": mu_a, "b": 1.0 - mu_a}
    action = np.random.default_rng(14).choice(list(mu), n)
    log = piwo.Log.from_arrays(
        action=action, reward=(action == "a") * 1.0, propensity=[mu[x] for x in action]
    )
    both = {x: Constant(x, log.actions) for x in mu}
    made = piwo.certify(log, both, delta=DELTA, shares=shares)
    tested = []
    for name, share in shares.items():
        w = (action == name) / mu[name]
        # E w <= 1, by an e-value that aims at a test at 1e-3 of this share
        blocks, sums = by_block(w)
        even = Mixture(sums[None], np.zeros(1), np.ones(1), np.full(48, 1 / 48), n)
        paid = -math.log(share)
        e_value = deadline_log_e_value(blocks, even, 1.0, [paid - math.log(1e-3)])
        tested.append(math.exp(min(0.0, paid - e_value)))
        if mu_a < 0.5:
            # the propensities of a are too small, so that there is no bound
            continue
        # w R + 1 - R
        penalty = math.log(1 / (DELTA * share))
        blocks, sums = by_block(w * (action == "a") + (action != "a"))
        weights = bounds.improvement_bets(n, penalty)
        mixture = Mixture(sums[None], np.zeros(1), np.ones(1), weights, n)
        by_hand = deadline_lower(blocks, mixture, penalty) - 1.0
        assert made[name].bound == "deadline"
        assert made[name].improvement_lower == pytest.approx(by_hand, rel=1e-9)
    assert made["a"].propensity_p == pytest.approx(min(tested), rel=1e-9)
    assert (min(tested) < 1e-3) == (mu_a < 0.5)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"shares": {"a": 0.5}}, "a number above 0 for each policy"),
        ({"shares": {"a": 0.5, "b": 0.6}}, "at most 1 in all"),
        ({"shares": {"a": 1.0, "b": 0.0}}, "a number above 0"),
        ({"shares": {"a": math.nan, "b": 0.5}}, "a number above 0"),
        ({"shares": [0.5, 0.5]}, "a number above 0 for each policy"),
        ({"shares": {"a": 0.5, "b": 0.5}, "earlier": 2}, "leave them out with within or earlier"),
    ],
)
def test_shares_that_are_none(options, says: str) -> None:
    log = piwo.Log.from_arrays(action=["a", "b"] * 20, reward=[1, 0] * 20, propensity=[0.5] * 40)
    with pytest.raises(piwo.UsageError, match=says):
        piwo.certify(log, {x: Constant(x, log.actions) for x in "ab"}, **options)


def test_many_against_one_of_them() -> None:
    log = bandit_log((0.4, 0.3, 0.3), (0.2, 0.4, 0.8), 2000, seed=3)
    each = {str(x): Constant(x, log.actions) for x in log.actions}
    found = piwo.compare(log, each, baseline="1")
    alone = piwo.certify(log, {"2": each["2"]}, baseline=each["1"], delta=DELTA / 3)["2"]
    assert found["2"].improvement_lower == pytest.approx(alone.improvement_lower, rel=1e-12)
    assert found["2"].baseline_value == pytest.approx(found["1"].value, rel=1e-12)
    assert [one.improvement_lower > 0 for one in found.values()] == [False, False, True]
    assert piwo.select(log, each, baseline="1").certified == ("2",)
    assert "better than the baseline 1: certified 2;" in str(piwo.select(log, each, baseline="1"))
    # the plain interval is what it is without
    assert [x.lower for x in found.values()] == [x.lower for x in piwo.compare(log, each).values()]


def test_the_logging_policy_is_no_other_baseline() -> None:
    log = bandit_log((0.5, 0.5), (0.2, 0.9), 400, seed=4)
    policy = Constant(1, log.actions)
    plain = piwo.certify(log, {0: policy})[0]
    same = piwo.certify(log, {0: policy}, baseline=Logging())[0]
    assert (same.baseline, same.improvement_lower) == (None, plain.improvement_lower)


def test_what_can_be_no_baseline() -> None:
    log = bandit_log((0.5, 0.5), (0.2, 0.9), 400, seed=5)
    policy = Constant(1, log.actions)
    with pytest.raises(
        UsageError,
        match="baseline is 'old', expected a policy, or the name of one of those given: new",
    ):
        piwo.compare(log, {"new": policy}, baseline="old")
    endless = piwo.Log.from_arrays(
        action=["a", "b"] * 9, reward=[1, 5] * 9, propensity=[0.5] * 18, reward_range=(0, math.inf)
    )
    with pytest.raises(UsageError, match="no upper end, so nothing bounds what the baseline earns"):
        piwo.certify(
            endless, {0: Constant("a", endless.actions)}, baseline=Constant("b", endless.actions)
        )
    rng = np.random.default_rng(1)
    seen = piwo.Log.from_arrays(
        action=rng.integers(0, 3000, 1000),
        reward=rng.random(1000) < 0.1,
        propensity=np.full(1000, 1 / 3000),
    )
    with pytest.raises(UsageError, match="were logged only once"):
        piwo.certify(seen, {0: Logging()}, baseline=Uniform(seen.actions))
    told = piwo.evaluate(seen, Logging(), baseline=Uniform(seen.actions))
    assert told.improvement_lower is None
    assert any(note.startswith("baseline uniform:") for note in told.notes)


def pairs_with_variates(log: piwo.Log, one, other) -> list[np.ndarray]:
    """The raised differences of two policies, by tables of rows by actions."""
    (batch,) = log.each_batch(propensities=True)
    t, a, r, mu = np.arange(len(batch)), batch.action, batch.reward, batch.propensities
    d = np.tile(np.asarray(one) - np.asarray(other), (len(batch), 1))
    made = []
    for c, k in PAIR_BASELINES:
        # doubly robust with b on the actions that one plays more, and 1 - b of the loss on the
        # others
        b = np.where(
            d > 0,
            np.minimum(c, k * mu / np.maximum(d, 1e-300)),
            1 - np.minimum(1 - c, k * mu / np.abs(d)),
        )
        made.append(d[t, a] / mu[t, a] * (r - b[t, a]) + (d * b).sum(axis=1) + 1 + k)
    return made


def test_the_difference_with_control_variates_is_the_naive_one() -> None:
    log = bandit_log((0.5, 0.1, 0.4), (0.3, 0.9, 0.5), 600, seed=6)
    one, other = (0.1, 0.7, 0.2), (0.3, 0.2, 0.5)
    first, second = Tabular(one, log.actions), Tabular(other, log.actions)
    state = reduce(log, PairSums(first, second, full=True, variates=True))
    raised = pairs_with_variates(log, one, other)
    assert min(y.min() for y in raised) >= 0
    np.testing.assert_allclose(state.raised, [bet_sums(y) for y in raised], rtol=1e-9)
    sums = np.vstack([state.bets, state.raised])
    pooled = bounds.pooled_lower(sums, PAIR_SHIFTS, PAIR_WEIGHTS, 600, EACH) - 1
    made = piwo.certify(log, {0: first}, baseline=second, interval="mixture-cv")[0]
    assert made.improvement_lower == pytest.approx(pooled, rel=1e-12)
    found = piwo.evaluate(log, first, baseline=second, interval="mixture-cv")
    assert found.improvement_lower == pytest.approx(pooled, rel=1e-12)
    plain = bounds.improvement_lower(state.bets, 600, EACH)
    assert (
        piwo.certify(log, {0: first}, baseline=second, interval="mixture")[0].improvement_lower
        == plain
    )
    # where a policy tells the logged actions' probabilities alone
    rows = np.asarray(one)[[int(x) for x in next(iter(log.each_batch())).action]]
    made = piwo.certify(log, {0: piwo.policies.RowWise(rows)}, baseline=second)[0]
    assert made.bound == "deadline"
    logged = piwo.certify(
        log, {0: piwo.policies.RowWise(rows)}, baseline=second, interval="mixture"
    )
    assert logged[0].improvement_lower < plain


def test_clicks_compared_with_an_incumbent() -> None:
    """Both are rare under the logger and clicks are rarer: the gap to the truth falls from .15 to
    .05."""
    mu, chance = (0.1, 0.1, 0.8), (0.03, 0.01, 0.01)
    gap = {"mixture": 0.0, "mixture-cv": 0.0}
    for seed in range(6):
        log = bandit_log(mu, chance, 3000, seed)
        new, old = Constant(0, log.actions), Constant(1, log.actions)
        for name in gap:
            made = piwo.certify(log, {0: new}, baseline=old, interval=name)[0]
            gap[name] += (0.02 - made.improvement_lower) / 6
    assert gap["mixture"] > 2.5 * gap["mixture-cv"] > 0


@pytest.mark.parametrize(
    "bandit", [x for x in adversarial_bandits() if x.mu.all()], ids=lambda x: x.name
)
def test_differences_with_control_variates_hold(bandit) -> None:
    """1500 logs of 300 rows: the target against the even policy and back, wrong in at most delta
    of them."""
    n, logs, delta, size = 300, 1500, 0.1, len(bandit.pi)
    even = replace(bandit, pi=(1 / size,) * size)
    cells = next(bandit.log_of(np.arange(len(bandit.cells.chance))).each_batch())
    cells = replace(cells, propensities=np.tile(bandit.mu, (len(cells), 1)))
    counts = bandit.counts(n, logs, random_state=8)
    for one, other in ((bandit, even), (even, bandit)):
        difference = Difference(one.policy, other.policy, variates=True)
        states = [
            difference.sums.update(difference.sums.empty(), cells.take(np.array([i])))
            for i in range(len(cells))
        ]
        sums = np.einsum(
            "lc,cqj->lqj", counts, np.stack([np.vstack([x.bets, x.raised]) for x in states])
        )
        low = (
            bounds.pooled_lower_many(
                sums, PAIR_SHIFTS, PAIR_WEIGHTS, n, bounds.log_inv_delta(delta)
            )
            - 1
        )
        wrong = np.mean(low > one.value - other.value)
        assert wrong <= delta + 3 * math.sqrt(delta * (1 - delta) / logs)


@pytest.mark.parametrize("propensities", [True, False])
def test_bounds_on_the_gain_over_a_baseline_hold(propensities: bool) -> None:
    """100 logs of 200 rows, a rare good action, delta = .2; in half of them the baseline is the
    better one."""
    mu, chance, delta, wrong, logs = (0.02, 0.18, 0.8), (0.9, 0.5, 0.1), 0.2, 0, 100
    for seed in range(logs):
        more = {} if propensities else {"propensity": mu}
        log = bandit_log(mu, chance, 200, seed, **more)
        pair = [Tabular((0.5, 0.5, 0.0), log.actions), Tabular((0.1, 0.6, 0.3), log.actions)]
        one, other = pair if seed % 2 else pair[::-1]
        gain = float(np.dot(one.distribution(None, 1)[0] - other.distribution(None, 1)[0], chance))
        wrong += (
            piwo.certify(log, {0: one}, baseline=other, delta=delta, interval="mixture")[
                0
            ].improvement_lower
            > gain
        )
    assert wrong <= delta * logs + 3 * math.sqrt(delta * (1 - delta) * logs)


def test_the_gate_lets_through_what_is_better_than_the_incumbent() -> None:
    """The logger is poor: a policy may be certified better than it, and not than the incumbent,
    and the reverse."""
    rng = np.random.default_rng(3)
    bandit = ClassificationBandit(rng.normal(size=(300, 2)), rng.integers(0, 3, 300))
    weak, good = bandit.softmax_logger(0.7), bandit.softmax_logger(6.0)
    log = bandit.log(bandit.softmax_logger(-0.5), rows=4000, random_state=0)
    made = {
        name: piwo.certify(log, {0: weak}, baseline=base)[0]
        for name, base in (("logger", None), ("good", good))
    }
    assert [made["logger"].certified, made["good"].certified] == [True, False]
    assert piwo.certify(log, {0: good}, baseline=weak)[0].certified


# --- a series


def pairs(n: int) -> piwo.Log:
    return piwo.Log.from_arrays(action=["a", "b"] * n, reward=[1, 0] * n, propensity=[0.5] * 2 * n)


def test_the_calls_of_a_series_spend_delta_in_all() -> None:
    log = pairs(300)
    bad = {0: Constant("b", log.actions)}
    both = {x: Constant(x, log.actions) for x in "ab"}
    calls = [piwo.certify(log, bad, delta=DELTA, series=True)]
    for named in ({**bad, 1: piwo.policies.Uniform(log.actions)}, bad, both):
        last = list(calls[-1].values())[-1]
        calls.append(piwo.certify(log, named, delta=DELTA, earlier=last))
    for place, made in enumerate(calls, 1):
        for certificate in made.values():
            assert certificate.share == pytest.approx(1 / (place * (place + 1) * len(made)))
            assert (certificate.series, certificate.delta) == (place, DELTA)
    found, alone = calls[-1]["a"], piwo.certify(log, both, delta=DELTA / 20)["a"]
    assert found.value_lower == pytest.approx(alone.value_lower, rel=1e-12)
    assert found.improvement_lower == pytest.approx(alone.improvement_lower, rel=1e-12)
    assert found.candidates == 6
    assert "call 4 of a series, 6 candidates" in str(found)
    assert sum(x.share or 0.0 for made in calls for x in made.values()) == pytest.approx(1 - 1 / 5)


def test_a_series_shows_no_number_before_something_is_certified_and_is_then_over() -> None:
    log = pairs(300)
    a, b = (Constant(x, log.actions) for x in "ab")
    first = piwo.certify(log, {"b": b}, series=True)["b"]
    shown = (first.value, first.value_lower, first.improvement_lower, first.ess, first.mean_weight)
    assert (*shown, first.propensity_p, first.certified) == (*[None] * 6, False)
    assert [note.kind for note in first.notes] == ["withheld"]
    found = piwo.certify(log, {"a": a, "b": b}, earlier=first)
    assert found["a"].certified
    assert found["a"].improvement_lower > 0
    for one in found.values():
        with pytest.raises(
            piwo.UsageError, match=r"the series is over, .*; certify later candidates on other"
        ):
            piwo.certify(log, {"a": a}, earlier=one)


def test_bred_candidates_are_not_certified_in_a_series() -> None:
    """Candidates that keep a change if the printed value rose fit the held-out rows in time. In a
    series nothing is printed before something is certified."""
    random = np.random.default_rng(3)
    contexts, n = 60, 1000
    x, action = random.integers(0, contexts, n), random.integers(0, 2, n)
    reward = (random.random(n) < 0.1).astype(float)
    log = piwo.Log.from_arrays(
        context=np.eye(contexts)[x], action=action, reward=reward, propensity=np.full(n, 0.5)
    )

    def bred(**first: Any) -> bool:
        table, best, made = np.zeros((contexts, 2)), -1.0, None
        table[:, 0] = 1.0
        for _ in range(100):
            changed = table.copy()
            place = random.integers(contexts)
            changed[place] = changed[place, ::-1]
            policy = Tabular(changed, log.actions, np.eye(contexts))
            options = {"earlier": made} if made is not None else first
            made = piwo.certify(log, {0: policy}, **options)[0]
            if made.certified:
                return True
            if made.value is not None and made.value > best:
                table, best = changed, made.value
        return False

    assert bred()
    assert not bred(series=True)


def test_going_on_until_something_is_certified_is_paid_for_by_a_series_alone() -> None:
    """What is spent by 20 calls of one candidate each: earlier= tells of its price, the series
    stays below delta."""
    log, delta = pairs(50), 0.05
    policy = {0: Constant("b", log.actions)}
    plain, series = (
        piwo.certify(log, policy, delta=delta)[0],
        piwo.certify(log, policy, delta=delta, series=True)[0],
    )
    right = [1 - delta / plain.candidates, 1 - delta * (series.share or 1.0)]
    assert not any("going on until" in note for note in (*plain.notes, *series.notes))
    for _ in range(19):
        plain = piwo.certify(log, policy, delta=delta, earlier=plain)[0]
        series = piwo.certify(log, policy, delta=delta, earlier=series)[0]
        right[0] *= 1 - delta / plain.candidates
        right[1] *= 1 - delta * (series.share or 1.0)
    assert 1 - right[0] == pytest.approx(0.166, abs=1e-3)
    assert 1 - right[1] < delta
    assert any(
        "going on until something is certified takes certify(series=True)" in note
        for note in plain.notes
    )
    assert not any("going on until" in note for note in series.notes)


def test_a_series_has_shares_baselines_and_files() -> None:
    log = pairs(300)
    a, b = (Constant(x, log.actions) for x in "ab")
    first = piwo.certify(log, {"b": b}, series=True)["b"]
    assert piwo.Certificate.from_dict(first.to_dict()) == first
    found = piwo.certify(
        log, {"a": a, "b": b}, earlier=first, shares={"a": 0.75, "b": 0.25}, baseline="b"
    )
    assert {key: one.share for key, one in found.items()} == pytest.approx(
        {"a": 0.75 / 6, "b": 0.25 / 6}
    )


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"series": True, "earlier": 2}, "declared in its first call"),
        ({"series": True, "within": "both"}, "has paid for its whole class, later ones included"),
        ({"earlier": "series", "delta": 0.1}, "the series was declared with 0.05; use the same"),
        ({"earlier": "plain", "series": True}, "declared in its first call"),
    ],
)
def test_series_that_are_none(options, says: str) -> None:
    log = pairs(20)
    both = {x: Constant(x, log.actions) for x in log.actions}
    words = {
        "both": lambda: piwo.oracles.Exhaustive(list(both.values())),
        "series": lambda: piwo.certify(log, {"b": both["b"]}, series=True)["b"],
        "plain": lambda: piwo.certify(log, both)["a"],
    }
    made = {name: words[x]() if isinstance(x, str) else x for name, x in options.items()}
    with pytest.raises(piwo.UsageError, match=says):
        piwo.certify(log, both, **made)


def test_deadline_bets_certify_more_and_name_what_they_assume() -> None:
    log = piwo.Log.from_arrays(
        action=["a", "b"] * 500, reward=[1, 0, 1, 1] * 250, propensity=[0.5] * 1000
    )
    policy = piwo.policies.Constant("a", log.actions)
    narrow, plain = (
        piwo.certify(log, {"a": policy}, interval=name)["a"] for name in ("deadline", "mixture")
    )
    assert narrow.bound == "deadline"
    assert narrow.improvement_lower > plain.improvement_lower > 0
    assert (narrow.logger, plain.logger) == ("assumed fixed", None)
    later = piwo.certify(replace(log, logger="learning"), {"a": policy}, interval="deadline")["a"]
    assert [note.kind for note in later.notes if "deadline" in str(note)] == ["assumptions"]
