"""Regret certificates: by hand, against naive sums, refusals, and how often they hold."""

import math
from dataclasses import replace

import numpy as np
import pytest

import piwo
from piwo import bounds
from piwo.errors import UsageError
from piwo.oracles import Exhaustive, Ridge
from piwo.reductions.bets import bet_sums
from piwo.reductions.pair_sums import PairSums
from piwo.scores import LSLinear
from piwo.simulate import ClassificationBandit, adversarial_bandits

DELTA, LOGS = 0.1, 1500
EACH = bounds.log_inv_delta(DELTA)


def a_log(**more):
    return piwo.Log.from_arrays(
        action=["a", "b", "a", "c"] * 60,
        reward=[1, 0.25, 0.5, 0] * 60,
        propensity=[0.5, 0.2, 0.5, 0.3] * 60,
        actions=["a", "b", "c"],
        **more,
    )


def table(log, *chances):
    return piwo.policies.Tabular(chances, log.actions)


def test_paired_by_hand():
    log = a_log()
    mine, other = table(log, 0.5, 0.5, 0.0), table(log, 0.2, 0.5, 0.3)
    found = piwo.regret_certificate(log, mine, {"other": other}, delta=DELTA, interval="mixture")
    # mine - other = .3, 0, -.3; sum of what other has more: .3
    y = np.array([0.3 * 1 / 0.5, 0, 0.3 * 0.5 / 0.5, 0.3 * 1 / 0.3]) + 0.7
    by_hand = 1 - bounds.lower(
        bet_sums(np.tile(y, 60)), 240, EACH, prior=bounds.improvement_bets(240, EACH)
    )
    assert found.against == {"other": pytest.approx(by_hand, rel=1e-12)}
    assert (found.scope, found.rows, found.kind) == ("comparators", 240, "held-out")


def test_logged_actions_alone_by_hand():
    log = a_log()
    mine, other = [0.5, 0.5, 0.5, 0.0] * 60, [0.2, 0.5, 0.2, 0.3] * 60
    others = {"x": other, "y": other}
    found = piwo.regret_certificate(log, mine, others, delta=DELTA, interval="mixture")
    y = np.array([0.5 / 0.5, (0.5 * 0.25 + 0.5 * 0.75) / 0.2, (0.25 + 0.1) / 0.5, 0.3 / 0.3])
    each = EACH + math.log(2)
    by_hand = 1 - bounds.lower(
        bet_sums(np.tile(y, 60)), 240, each, prior=bounds.improvement_bets(240, each)
    )
    assert found.against == {"x": pytest.approx(by_hand), "y": pytest.approx(by_hand)}
    # against the logger it is minus the improvement
    logging = piwo.regret_certificate(log, mine, {"logging": piwo.policies.Logging()}, delta=DELTA)
    made = piwo.certify(log, {0: piwo.policies.RowWise(mine)}, delta=DELTA)[0]
    assert logging.regret_upper == pytest.approx(-made.improvement_lower)


def test_pairing_pays_only_for_differences():
    log = a_log()
    mine, alone = table(log, 1, 0, 0), [1.0, 0.0, 1.0, 0.0] * 60
    paired = piwo.regret_certificate(log, mine, {"same": mine}).regret_upper
    assert piwo.regret_certificate(log, alone, {"same": alone}).regret_upper > 5 * paired


def test_units_and_in_sample():
    plain = piwo.regret_certificate(
        a_log(), table(a_log(), 1, 0, 0), {"b": table(a_log(), 0, 1, 0)}
    )
    wide = piwo.Log.from_arrays(
        action=["a", "b", "a", "c"] * 60,
        reward=[9, 1.5, 4, -1] * 60,
        propensity=[0.5, 0.2, 0.5, 0.3] * 60,
        actions=["a", "b", "c"],
        reward_range=(-1, 9),
    )
    scaled = piwo.regret_certificate(wide, table(wide, 1, 0, 0), {"b": table(wide, 0, 1, 0)})
    assert scaled.regret_upper == pytest.approx(10 * plain.regret_upper)
    mine = table(a_log(), 1, 0, 0)
    paid = piwo.regret_certificate(
        a_log(),
        mine,
        {"b": table(a_log(), 0, 1, 0)},
        within=Exhaustive([mine, table(a_log(), 0, 0, 1)]),
    )
    assert paid.regret_upper > plain.regret_upper
    assert paid.propensity_p == 1.0
    assert paid.to_dict()["against"] == {"b": paid.regret_upper}


def test_a_loss_below_nothing_is_a_gain_in_words():
    log = piwo.Log.from_arrays(action=["a", "b"] * 200, reward=[1, 0] * 200, propensity=[0.5] * 400)
    a, b = (piwo.policies.Constant(x, log.actions) for x in "ab")
    found = piwo.regret_certificate(log, a, {"b": b})
    assert found.regret_upper < 0
    assert f"\n  better than b by at least {-found.regret_upper:.4g}" in str(found)
    assert "\n  below a by at most " in str(piwo.regret_certificate(log, b, {"a": a}))


def test_class_by_hand():
    log = a_log()
    each = [table(log, *row) for row in np.eye(3)]
    found = piwo.regret_certificate(log, each[0], Exhaustive(each), delta=DELTA, interval="mixture")
    bets = bounds.gamma_grid_ls(240, math.log(3), DELTA).bets
    least = []
    for bet in bets:
        losses = [
            np.log1p(bet * (1 - np.array([1, 0.25, 0.5, 0])) / np.array([0.5, 0.2, 0.5, 0.3])) / bet
        ]
        sums = [
            sum(losses[0][[i for i, x in enumerate("abac") if x == action]]) / 4 for action in "abc"
        ]
        least.append(min(sums))
    best = bounds.best_value_upper(least, bets, 240, EACH + math.log(2) + math.log(3))
    mine = bounds.lower(bet_sums(np.tile([2, 0, 1, 0.0], 60)), 240, EACH + math.log(2))
    assert found.against == {"exhaustive": pytest.approx(min(1.0, best) - mine)}
    assert found.scope == "class"


def test_refuses():
    log = a_log()
    mine = table(log, 1, 0, 0)
    with pytest.raises(UsageError, match=r"needs an exact oracle, and ridge"):
        piwo.regret_certificate(log, mine, Ridge())
    with pytest.raises(UsageError, match="does not find the smallest loss"):
        Ridge().least_losses(log, [LSLinear(0.1)])
    with pytest.raises(UsageError, match="no comparators"):
        piwo.regret_certificate(log, mine, {})
    with pytest.raises(UsageError, match="thinned"):
        piwo.regret_certificate(a_log(weight=[1.0] * 240), mine, {"b": mine})
    with pytest.raises(UsageError, match="upper end"):
        piwo.regret_certificate(replace(log, reward_range=(0, math.inf)), mine, {"b": mine})
    others = Exhaustive([table(log, 0, 1, 0), table(log, 0, 0, 1)])
    for against in ({"b": mine}, others):
        with pytest.raises(UsageError, match="not in the class"):
            piwo.regret_certificate(log, mine, against, within=others)
    with pytest.raises(UsageError, match="unknown size"):
        piwo.regret_certificate(log, mine, {"b": mine}, within=Ridge())


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("scope", ["comparators", "class"])
def test_rows_that_contradict_their_propensities_bound_no_regret(scope, inside):
    """Propensities of .2 where 1/2 is true: without the test the bounds would be -2 and -1.2 for
    rewards in [0, 1]."""
    log = piwo.Log.from_arrays(
        action=["a", "b"] * 999, reward=[1, 0] * 999, propensity=[0.2] * 1998, actions=["a", "b"]
    )
    mine, other = (piwo.policies.Constant(x, log.actions) for x in "ab")
    both = Exhaustive([mine, other])
    found = piwo.regret_certificate(
        log, mine, {"b": other} if scope == "comparators" else both, within=both if inside else None
    )
    assert found.regret_upper is None
    assert set(found.to_dict()["against"].values()) == {None}
    assert 0 < found.propensity_p < 1e-9
    told = str(found)
    assert (told.count("no bound"), "at most" in told) == (2, False)
    assert "the logged propensities are too small for how often actions were taken (p = " in told


def test_a_comparator_alone_can_contradict_the_propensities():
    log = piwo.Log.from_arrays(
        action=["a", "b"] * 999,
        reward=[1, 0] * 999,
        propensity=[0.5, 0.2] * 999,
        actions=["a", "b"],
    )
    mine, other = (piwo.policies.Constant(x, log.actions) for x in "ab")
    found = piwo.regret_certificate(log, mine, {"itself": mine, "b": other})
    assert found.against == {"itself": None, "b": None}
    assert "by the weights of comparator b" in found.notes[-1]
    # three policies are tested, and each pays for it
    weights = bet_sums([0.0, 5.0] * 999)
    by_hand = math.log(3) - bounds.propensity_e_test(weights, 1998).log_e_value
    assert math.log(found.propensity_p) == pytest.approx(by_hand)
    # what the class of the policy says counts, too
    inside = piwo.regret_certificate(log, mine, {"b": other}, within=Exhaustive([mine, other]))
    assert math.log(inside.propensity_p) == pytest.approx(by_hand)


def test_the_best_of_a_class_is_not_below_its_own_policy():
    """Ten rows: the test of the weights is silent, and at delta = .9 the value of the only policy
    would be above 1."""
    log = piwo.Log.from_arrays(
        action=["a", "b"] * 5, reward=[1] * 10, propensity=[0.33] * 10, actions=["a", "b"]
    )
    even = piwo.policies.Uniform(log.actions)
    found = piwo.regret_certificate(log, even, Exhaustive([even]), delta=0.9)
    assert found.propensity_p > 1e-3
    assert found.regret_upper is None
    assert "contradicts its own propensities or its reward range (raw ends [1." in found.notes[-1]


@pytest.mark.parametrize("interval", ["auto", "mixture"])
def test_it_is_the_certified_improvement_from_the_other_side(interval):
    """Clicks of .03 against .01 with all propensities: one statement, one number, whatever it is
    called."""
    rng = np.random.default_rng(4)
    action = rng.integers(0, 3, 1200)
    log = piwo.Log.from_arrays(
        action=action, reward=(rng.random(1200) < np.array([0.03, 0.01, 0.02])[action]) * 1.0,
        propensities=np.full((1200, 3), 1 / 3), actions=[0, 1, 2],
    )  # fmt: skip
    mine, other = table(log, 1, 0, 0), table(log, 0, 0.5, 0.5)
    inside = Exhaustive([mine, other])
    for within in (None, inside):
        for one in (other, piwo.policies.Logging(log.actions)):
            options = {"within": within, "interval": interval}
            made = piwo.certify(log, {0: mine}, baseline=one, **options)[0]
            found = piwo.regret_certificate(log, mine, {"one": one}, **options)
            assert found.regret_upper == pytest.approx(-made.improvement_lower, rel=1e-12)
            assert found.bound == made.bound == ("deadline-cv" if interval == "auto" else "mixture")
        best = piwo.regret_certificate(log, mine, inside, delta=0.1, **options)
        value = piwo.certify(log, {0: mine}, **options)[0].value_lower
        plain = piwo.certify(log, {0: mine}, within=within, interval="mixture")[0].value_lower
        mixture = piwo.regret_certificate(
            log, mine, inside, delta=0.1, within=within, interval="mixture"
        )
        assert best.regret_upper - mixture.regret_upper == pytest.approx(plain - value)


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("bandit", adversarial_bandits(), ids=lambda x: x.name)
def test_pairs_hold(bandit, full):
    """On each bandit the target against the even policy, and the even policy against the target."""
    n, size = 300, len(bandit.pi)
    even = replace(bandit, pi=(1 / size,) * size)
    batch = next(bandit.log_of(np.arange(len(bandit.cells.chance))).each_batch())
    counts = bandit.counts(n, LOGS, random_state=7)
    for one, other in ((bandit, even), (even, bandit)):
        reduction = PairSums(one.policy, other.policy, full)
        cells = [
            reduction.update(reduction.empty(), batch.take(np.array([i]))).bets
            for i in range(len(batch))
        ]
        regret = 1 - bounds.lower_many(counts @ np.stack(cells), n, EACH)
        assert np.mean(other.value - one.value > regret) <= DELTA + 3 * math.sqrt(
            DELTA * (1 - DELTA) / LOGS
        )


def test_class_certificates_hold_for_what_was_learned_on_the_same_rows():
    rng = np.random.default_rng(3)
    bandit = ClassificationBandit(rng.normal(size=(400, 2)), rng.integers(0, 3, 400))
    policies = [bandit.softmax_logger(eta) for eta in (-4.0, 0.0, 2.0, 8.0)]
    best = max(bandit.value(policy) for policy in policies)
    oracle = Exhaustive(policies)
    for seed in range(12):
        log = bandit.log(bandit.softmax_logger(1.0), rows=1500, random_state=seed)
        learned = oracle.solve(log, piwo.IX(0.05))
        found = piwo.regret_certificate(log, learned, oracle, delta=0.01, within=oracle)
        assert 0 <= best - bandit.value(learned) <= found.regret_upper < 1
