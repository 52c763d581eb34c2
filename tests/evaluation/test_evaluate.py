"""`evaluate` and `compare`: values worked by hand, a naive twin, and what must not change the
answer."""

import json
import math
from typing import Any

import numpy as np
import pytest

import piwo
from piwo import bounds
from piwo.intervals import INTERVALS, interval_named
from piwo.reductions import BETS, PolicySums, bet_sums, reduce

MU = np.array([0.5, 0.1, 0.02, 0.8, 0.3, 0.05])
PI = np.array([1.0, 0.0, 0.5, 0.25, 1.0, 1.0])
R = np.array([1.0, 0.4, 0.8, 0.0, 0.5, 1.0])
GOLDEN = {
    "iw": 7.2777777778,
    "snips": 0.8621966269,
    "ix": 2.1527777778,
    "clip": 2.9444444444,
    "ls": 3.2025251116,
    "ls-linear": 2.7768370918,
}


def small(repeat: int = 1, **options: Any) -> piwo.Log:
    return piwo.Log.from_arrays(
        action=np.tile(np.arange(6), repeat),
        reward=np.tile(R, repeat),
        propensity=np.tile(MU, repeat),
        **options,
    )


def generated(n: int = 3000, seed: int = 0) -> dict[str, Any]:
    """Return a contextual log of four actions whose propensities and target policy depend on the
    row."""
    rng = np.random.default_rng(seed)
    mu = rng.dirichlet(np.full(4, 0.5), n) * 0.98 + 0.005
    action = (rng.random(n)[:, None] > np.cumsum(mu, axis=1)).sum(axis=1).clip(0, 3)
    pi = rng.dirichlet(np.ones(4), n)
    reward = rng.random(n) * (action + 1) / 4
    return {"action": action, "reward": reward, "mu": mu, "pi": pi, "n": n}


def naive(log: dict[str, Any], gamma: float) -> dict[str, float]:
    rows = np.arange(log["n"])
    mu, pi, r = log["mu"][rows, log["action"]], log["pi"][rows, log["action"]], log["reward"]
    lam = 2 * gamma
    return {
        "iw": float(np.mean(pi / mu * r)),
        "snips": float(np.sum(pi / mu * r) / np.sum(pi / mu)),
        "ix": float(np.mean(pi * r / (mu + gamma))),
        "clip": float(np.mean(pi * r / np.maximum(mu, gamma))),
        "ls": float(np.mean(np.log(1 + lam * pi * r / mu) / lam)),
        "ls-linear": float(np.mean(pi * np.log(1 + lam * r / mu) / lam)),
    }


def as_log(made: dict[str, Any], **options: Any) -> piwo.Log:
    mu = made["mu"][np.arange(made["n"]), made["action"]]
    return piwo.Log.from_arrays(
        action=made["action"], reward=made["reward"], propensity=mu, actions=range(4), **options
    )


@pytest.mark.filterwarnings("ignore:gamma is not used")
@pytest.mark.parametrize(("estimator", "value"), GOLDEN.items())
def test_golden_values(estimator: str, value: float) -> None:
    result = piwo.evaluate(small(), PI, estimator=estimator, gamma=0.1)
    assert result.value == pytest.approx(value, rel=1e-9)
    assert result.estimator == estimator
    assert result.gamma == (None if estimator in {"iw", "snips"} else 0.1)


@pytest.mark.filterwarnings("ignore:gamma is not used")
@pytest.mark.parametrize("estimator", GOLDEN)
@pytest.mark.parametrize("gamma", [0.02, 0.7])
def test_a_generated_log_against_the_naive_formulas(estimator: str, gamma: float) -> None:
    made = generated()
    result = piwo.evaluate(as_log(made), made["pi"], estimator=estimator, gamma=gamma)
    assert result.value == pytest.approx(naive(made, gamma)[estimator], rel=1e-12)


def test_a_gamma_that_nothing_uses_is_mentioned() -> None:
    with pytest.warns(piwo.PiwoWarning, match="gamma is not used: the estimator snips has none"):
        piwo.evaluate(small(), PI, estimator="snips", gamma=0.1)


def test_rewards_beyond_a_range_of_subnormal_numbers() -> None:
    data = {"action": ["a", "b"], "reward": [0.0, 1.0], "propensity": [0.5, 0.5]}
    log = piwo.Log.from_arrays(**data, actions=["a", "b"], reward_range=(0, 1e-320))
    with pytest.raises(piwo.DataError, match=r"declared range \[0, 1e-320\] in 1 row"):
        piwo.evaluate(log, piwo.policies.Uniform(log.actions))
    small = piwo.Log.from_arrays(
        **data | {"reward": [0.0, 1e-320], "propensities": np.full((2, 2), 0.5)},
        actions=["a", "b"],
        reward_range=(0, 1e-320),
    )
    with pytest.raises(piwo.DataError, match="predicts rewards that are beyond float64"):
        piwo.evaluate(small, piwo.policies.Uniform(small.actions), q=np.full((2, 2), 0.5))


def test_horizons_that_bets_on_blocks_cannot_be_planned_for() -> None:
    log = as_log(generated())
    policy = piwo.policies.Uniform(range(4))
    with pytest.raises(piwo.UsageError, match=r"expected a number of rows from 1 to 2\^63"):
        piwo.evaluate(log, policy, horizon=10**30)
    with pytest.raises(piwo.UsageError, match="horizon is 'universal'; give a number of rows"):
        piwo.evaluate(log, policy, interval="deadline", horizon="universal")
    part = log.split(0.5).test
    with pytest.raises(piwo.UsageError, match="one side of a random split; split with tail=True"):
        piwo.evaluate(part, policy, interval="deadline", horizon=1000)
    assert piwo.evaluate(part, policy, horizon=1000).interval == "mixture"


def test_diagnostics_against_the_naive_formulas() -> None:
    made = generated()
    rows = np.arange(made["n"])
    w = made["pi"][rows, made["action"]] / made["mu"][rows, made["action"]]
    y = w * made["reward"]
    result = piwo.evaluate(as_log(made), made["pi"])
    assert result.mean_weight == pytest.approx(w.mean(), rel=1e-12)
    assert result.ess == pytest.approx(w.sum() ** 2 / (w**2).sum(), rel=1e-12)
    assert result.max_weight == w.max()
    assert result.standard_error == pytest.approx(y.std(ddof=1) / math.sqrt(made["n"]), rel=1e-9)
    assert result.logging_value == pytest.approx(made["reward"].mean(), rel=1e-12)
    assert result.mean_weight_z == pytest.approx(
        (w.mean() - 1) / (w.std() / math.sqrt(made["n"])), rel=1e-9
    )
    assert (result.unsupported_mass, result.rows, result.guarantee) == (0.0, 3000, "finite-sample")


def test_the_interval_is_the_mixture_bound_of_both_sides() -> None:
    made = generated()
    rows = np.arange(made["n"])
    w = made["pi"][rows, made["action"]] / made["mu"][rows, made["action"]]
    half = math.log(2 / 0.1)
    result = piwo.evaluate(as_log(made), made["pi"], delta=0.1, interval="mixture")
    assert result.lower == pytest.approx(
        bounds.lower(bet_sums(w * made["reward"]), 3000, half), rel=1e-9
    )
    losses = bet_sums(w * (1 - made["reward"]))
    assert result.upper == pytest.approx(1 - bounds.lower(losses, 3000, half), rel=1e-9)
    gain = bet_sums(w * made["reward"] + 1 - made["reward"])
    bets = bounds.improvement_bets(3000, math.log(1 / 0.1))
    by_hand = bounds.lower(gain, 3000, math.log(1 / 0.1), prior=bets) - 1
    assert result.improvement_lower == pytest.approx(by_hand, rel=1e-6)


def test_the_gain_is_at_most_the_smaller_of_two_bounds_at_a_quarter_of_delta() -> None:
    made = generated()
    binary = made | {"reward": (made["reward"] > 0.3) * 1.0}
    quarter = math.log(4 / 0.05)
    for one in (made, binary):
        rows = np.arange(one["n"])
        w = one["pi"][rows, one["action"]] / one["mu"][rows, one["action"]]
        r = one["reward"]
        result = piwo.evaluate(as_log(one), one["pi"], interval="mixture")
        gains, weights = bet_sums(w * r + 1 - r), bet_sums(w)
        paired = bounds.improvement_upper(gains, weights, 3000, quarter)
        apart = result.upper - bounds.logged_value_lower(r.sum(), 3000, quarter)
        assert result.improvement_upper == pytest.approx(min(paired, apart), rel=1e-9)
        assert result.improvement_lower < result.value - r.mean() < result.improvement_upper
    # in the reward's own unit
    scaled = binary | {"reward": 10 * binary["reward"] - 4}
    ten = piwo.evaluate(as_log(scaled, reward_range=(-4, 6)), scaled["pi"], interval="mixture")
    assert ten.improvement_upper == pytest.approx(10 * result.improvement_upper, rel=1e-9)


def test_where_a_gain_has_no_upper_bound_and_where_it_is_nothing() -> None:
    log = as_log(generated())
    policy = piwo.policies.Uniform(log.actions)
    # An asymptotic upper end proves nothing: the bound from the same rows alone, at delta.
    made = generated()
    approximate = piwo.evaluate(log, policy, interval="normal")
    rows = np.arange(made["n"])
    w = 1 / made["mu"].shape[1] / made["mu"][rows, made["action"]]
    gains = bet_sums(w * made["reward"] + 1 - made["reward"])
    alone = bounds.improvement_upper(gains, bet_sums(w), 3000, math.log(1 / 0.05))
    assert approximate.improvement_upper == pytest.approx(alone, rel=1e-9)
    assert piwo.evaluate(log, policy, interval="bootstrap").improvement_upper == pytest.approx(
        alone, rel=1e-9
    )
    # of eslb, whose upper end may be wrong with 2/3 of delta, a sixth is left for each
    full = piwo.Log.from_arrays(
        action=made["action"],
        reward=made["reward"],
        propensities=made["mu"],
        actions=log.actions.labels,
    )
    eslb = piwo.evaluate(full, policy, interval="eslb")
    sixth = math.log(6 / 0.05)
    apart = eslb.upper - bounds.logged_value_lower(made["reward"].sum(), 3000, sixth)
    paired = bounds.improvement_upper(gains, bet_sums(w), 3000, sixth)
    assert eslb.improvement_upper == pytest.approx(min(apart, paired), rel=1e-9)
    over = piwo.evaluate(log, policy, baseline=piwo.policies.Constant(0, log.actions))
    assert (over.improvement_lower is None, over.improvement_upper) == (False, None)
    assert piwo.evaluate(log, piwo.policies.Logging()).improvement_upper == 0.0
    by_unit = piwo.Log.from_arrays(
        action=[0, 1] * 500, reward=[1, 0] * 500, propensity=[0.5] * 1000, unit=np.arange(1000) // 4
    )
    found = piwo.evaluate(by_unit, piwo.policies.Constant(1, by_unit.actions))
    logged = bounds.logged_value_lower(125.0, 250, math.log(2 / 0.05))
    assert found.improvement_upper == pytest.approx(found.upper - logged, rel=1e-9)
    found = piwo.evaluate(by_unit, piwo.policies.Constant(1, by_unit.actions), interval="normal")
    assert (found.improvement_lower is None, found.improvement_upper) == (False, None)


@pytest.mark.parametrize(
    ("interval", "estimator"), [("ix", "ix"), ("ls", "ls"), ("ls", "ls-linear")]
)
def test_intervals_of_one_score_use_the_same_weights_as_the_value(
    interval: str, estimator: str
) -> None:
    made, gamma = generated(), 0.05
    result = piwo.evaluate(
        as_log(made), made["pi"], estimator=estimator, interval=interval, gamma=gamma
    )
    loss = naive(made | {"reward": 1 - made["reward"]}, gamma)[estimator]
    value = naive(made, gamma)[estimator]
    expected = bounds.score_interval([value], [loss], [2 * gamma], 3000, math.log(1 / 0.05))
    assert (result.lower, result.upper) == (
        pytest.approx(expected.lower, rel=1e-9),
        pytest.approx(expected.upper, rel=1e-9),
    )


@pytest.mark.parametrize("interval", sorted(set(INTERVALS) - {"score"}))
def test_an_interval_brings_its_point_estimate_along(interval: str) -> None:
    own = interval if interval in ("ix", "ls", "cressie-read") else "iw"
    assert interval_named(interval).estimator(None).name == own


def test_the_estimate_brought_along_is_the_one_of_that_name() -> None:
    made = as_log(generated())
    for interval in ("ix", "ls", "cressie-read"):
        brought = piwo.evaluate(made, generated()["pi"], interval=interval)
        assert brought == piwo.evaluate(
            made, generated()["pi"], interval=interval, estimator=interval
        )
        assert (brought.estimator, brought.interval) == (interval, interval)


@pytest.mark.parametrize(
    ("interval", "estimator", "said"),
    [
        ("ix", "iw", "got estimator='iw'; leave estimator out, or use 'ix'"),
        ("ls", "ix", "got estimator='ix'; leave estimator out, or use 'ls' or 'ls-linear'"),
        ("score", "clip", "a pessimistic score, got estimator='clip'; name one"),
        ("score", None, "got none; name one, such as estimator='ls'"),
        ("cressie-read", "ix", "out, or use 'cressie-read' or 'iw' or 'snips'"),
    ],
)
def test_an_interval_of_another_score_is_refused_before_reading(
    interval: str, estimator: str | None, said: str
) -> None:
    with pytest.raises(piwo.UsageError, match=said):
        piwo.evaluate(small(), PI, estimator=estimator, interval=interval)


@pytest.mark.parametrize(
    "options",
    [
        {"estimator": "dm"},
        {"interval": "hope"},
        {"delta": 0.0},
        {"delta": 1.0},
        {"gamma": "big", "estimator": "ix"},
    ],
)
def test_arguments_out_of_range(options: dict[str, Any]) -> None:
    with pytest.raises(piwo.UsageError):
        piwo.evaluate(small(), PI, **options)


# --- logging policy


@pytest.mark.parametrize("estimator", ["iw", "snips"])
def test_the_logging_policy_earns_the_mean_reward(estimator: str) -> None:
    made = generated()
    result = piwo.evaluate(as_log(made), piwo.policies.Logging(), estimator=estimator)
    assert result.value == pytest.approx(made["reward"].mean(), rel=1e-12)
    assert (result.mean_weight, result.max_weight, result.mean_weight_z) == (1.0, 1.0, 0.0)
    assert result.ess == pytest.approx(3000)
    assert result.unsupported_mass == 0.0


def test_the_logging_policy_where_propensities_underflow() -> None:
    log = piwo.Log.from_arrays(
        action=[0, 1, 1, 0], reward=[1, 0, 1, 0.5], log_propensity=[-0.1, -900.0, -2000.0, -1e5]
    )
    result = piwo.evaluate(log, piwo.policies.Logging())
    assert (result.value, result.mean_weight, result.max_weight, result.ess) == (
        0.625,
        1.0,
        1.0,
        4.0,
    )


def test_weights_beyond_float64_leave_a_valid_interval_and_valid_json() -> None:
    n = 400
    log = piwo.Log.from_arrays(
        action=[0] * n,
        reward=[1.0] * n,
        log_propensity=[-1000.0] + [math.log(0.5)] * (n - 1),
        actions=[0, 1],
    )
    policy = piwo.policies.Uniform(log.actions)
    for interval in ("mixture", "normal", "bootstrap"):
        result = piwo.evaluate(log, policy, interval=interval)
        assert result.value is None
        json.dumps(result.to_dict(), allow_nan=False)
    smooth = piwo.evaluate(log, policy, estimator="ls", gamma=0.1)
    assert smooth.value is not None
    assert smooth.value > 0


@pytest.mark.parametrize("reward", [1e7, 1e10])
def test_credits_beyond_float64_of_weights_within(reward: float) -> None:
    log = piwo.Log.from_arrays(
        action=["a", "b"] * 30,
        reward=[reward, 0] * 30,
        propensity=[1e-300] + [0.5] * 59,
        actions=["a", "b"],
        reward_range=(0, math.inf),
    )
    state = reduce(
        log, PolicySums(piwo.policies.Constant("a", log.actions), piwo.IW(), bounded=False)
    )
    y = [math.log(reward) + 300 * math.log(10)] + [math.log(2 * reward)] * 29
    assert state.bets.value == pytest.approx(
        np.logaddexp(0.0, np.add.outer(y, np.log(BETS))).sum(axis=0), rel=1e-12
    )
    result = piwo.evaluate(log, piwo.policies.Constant("a", log.actions))
    assert (result.value is None) == (reward > 1e8)
    json.dumps(result.to_dict(), allow_nan=False)


def test_squares_beyond_float64_leave_no_standard_error() -> None:
    log = piwo.Log.from_arrays(action=[0, 0], reward=[1, 1], propensity=[1e-200, 0.5])
    result = piwo.evaluate(log, [1.0, 1.0], interval="normal")
    assert (result.standard_error, result.lower, result.ess, result.guarantee) == (
        None,
        None,
        None,
        "none",
    )


# --- other scales


@pytest.mark.filterwarnings("ignore:gamma is not used")
def test_a_shifted_range_moves_value_and_bounds_with_it() -> None:
    made = generated()
    wide = as_log(made | {"reward": 10 * made["reward"] - 4}, reward_range=(-4, 6))
    for estimator in ("iw", "snips", "ix", "ls-linear"):
        one, other = (
            piwo.evaluate(x, made["pi"], estimator=estimator, gamma=0.1)
            for x in (as_log(made), wide)
        )
        for name in ("value",) * (estimator != "iw") + ("lower", "upper", "logging_value"):
            assert getattr(other, name) == pytest.approx(10 * getattr(one, name) - 4, rel=1e-9)
        for name in ("standard_error",) * (estimator != "iw") + ("improvement_lower",):
            assert getattr(other, name) == pytest.approx(10 * getattr(one, name), rel=1e-9)


def test_importance_weighting_is_the_mean_of_weighted_rewards_whatever_the_range() -> None:
    """Costs of 0 to 5 in a range of 0 to 500: the range must not move the plain estimate."""
    rng = np.random.default_rng(0)
    mu, cost = rng.uniform(0.1, 1.0, 500), rng.uniform(0.0, 5.0, 500)
    roles = {
        "action": [0] * 500,
        "reward": -cost,
        "propensity": mu,
        "policies": {"pi": np.ones(500)},
    }
    earned = -cost / mu
    for low in (-5.0, -500.0):
        log = piwo.Log.from_arrays(**roles, reward_range=(low, 0.0))
        result = piwo.evaluate(log, piwo.policies.Column("pi"))
        assert result.value == pytest.approx(earned.mean(), rel=1e-9)
        assert result.standard_error == pytest.approx(earned.std(ddof=1) / np.sqrt(500), rel=1e-9)
        again = piwo.intervals.bootstrap(
            log, piwo.policies.Column("pi"), estimator="iw", replicates=20
        )
        assert again.value == pytest.approx(earned.mean(), rel=1e-9)


def test_no_interval_where_the_log_contradicts_itself() -> None:
    log = piwo.Log.from_arrays(
        action=["a", "b"] * 500, reward=[1, 0] * 500, propensity=[0.2] * 1000
    )
    result = piwo.evaluate(log, piwo.policies.Uniform(log.actions))
    assert (result.lower, result.upper, result.guarantee) == (None, None, "none")
    assert result.lower_raw > result.upper_raw
    assert "do not match action frequencies" in result.notes[0]
    assert result.notes[0].endswith("no bound is given")
    assert "too small for how often actions were taken" in result.no_interval


def test_negative_rewards_without_a_range_are_refused() -> None:
    log = piwo.Log.from_arrays(action=[0, 1], reward=[-1, 0], propensity=[0.5, 0.5])
    with pytest.raises(piwo.DataError, match="reward_range"):
        piwo.evaluate(log, piwo.policies.Uniform(log.actions))


def test_negative_rewards_with_a_range_keep_the_bound_below_the_truth() -> None:
    # The true value of "always bad" is -1; without the shift, pessimism towards 0 would be
    # optimism.
    log = piwo.Log.from_arrays(
        action=["bad"] * 100 + ["good"] * 900,
        reward=[-1] * 100 + [0] * 900,
        propensity=[0.1] * 100 + [0.9] * 900,
        reward_range=(-1, 0),
    )
    bad = piwo.policies.Constant("bad", log.actions)
    for options in ({"estimator": "ix", "interval": "ix", "gamma": 0.1}, {}):
        result = piwo.evaluate(log, bad, **options)
        assert result.lower == -1.0
        assert result.value == -1.0
        assert result.lower_raw is not None
        assert result.lower_raw <= -1.0


def test_costs_are_negative_rewards() -> None:
    log = piwo.read(
        {"action": [0, 1], "cost": [1.0, 0.0], "propensity": [0.5, 0.5]},
        cost="cost",
        reward_range=(-1, 0),
    )
    result = piwo.evaluate(log, piwo.policies.Constant(0, log.actions))
    assert (result.value, result.cost) == (-1.0, True)
    assert result.lower is not None
    assert result.upper is not None
    assert -1 <= result.lower <= result.upper <= 0


def test_a_reward_without_a_ceiling_has_no_upper_end() -> None:
    log = piwo.Log.from_arrays(
        action=[0, 1] * 200,
        reward=[30.0, 0.5] * 200,
        propensity=[0.5] * 400,
        reward_range=(0, math.inf),
    )
    result = piwo.evaluate(log, piwo.policies.Constant(0, log.actions))
    assert result.value == 30.0
    assert result.lower is not None
    assert 20 < result.lower < 30
    assert (result.upper, result.improvement_lower) == (None, None)
    made = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert made["reward_range"] == [0.0, None]


def test_sampling_weights_weigh_both_sides_and_make_no_finite_sample_claim() -> None:
    log = piwo.Log.from_arrays(
        action=[0, 1], reward=[0, 1], propensity=[0.5, 0.5], weight=[1.0, 10.0]
    )
    result = piwo.evaluate(log, piwo.policies.Logging())
    assert result.value == pytest.approx(10 / 11)
    assert result.logging_value == pytest.approx(10 / 11)
    assert (result.lower, result.upper, result.guarantee) == (None, None, "none")
    assert (result.propensity_p, result.improvement_lower, result.missing_mass_upper) == (
        None,
        None,
        None,
    )
    assert any("thinned" in note for note in result.notes)


def test_the_error_of_a_thinned_log_is_that_of_a_ratio():
    # V = (1 2 + 3 0 + 2 2)/6 = 1; sum s^2 (w R - V)^2 = 1 + 9 + 4, times 3/2, over 6^2
    log = piwo.Log.from_arrays(
        action=["a", "b", "a"],
        reward=[1, 1, 1],
        propensity=[0.5] * 3,
        weight=[1, 3, 2],
    )
    found = piwo.evaluate(log, piwo.policies.Constant("a", log.actions), interval="normal")
    assert found.value == pytest.approx(1.0, abs=1e-12)
    assert found.standard_error == pytest.approx((14 * 1.5) ** 0.5 / 6, rel=1e-12)


# --- what must not change the answer


def numbers(result: piwo.Evaluation) -> list[Any]:
    return [v for v in vars(result).values() if isinstance(v, float) and not isinstance(v, bool)]


def test_the_order_of_rows_does_not_matter() -> None:
    made = generated(500)
    order = np.random.default_rng(1).permutation(500)
    moved = {k: v[order] if isinstance(v, np.ndarray) else v for k, v in made.items()}
    one, other = (piwo.evaluate(as_log(x), x["pi"], interval="mixture") for x in (made, moved))
    assert numbers(other) == pytest.approx(numbers(one), rel=1e-9)


def test_with_keys_it_does_not_matter_to_deadline_bets_either() -> None:
    made = generated(500)
    frame = {
        "a": made["action"],
        "r": made["reward"],
        "p": made["mu"][np.arange(500), made["action"]],
        "id": 10**9 + np.arange(500) ** 2,
    }
    order = np.random.default_rng(1).permutation(500)
    one, other = (
        piwo.evaluate(
            piwo.read(
                {k: v[rows] for k, v in frame.items()},
                action="a",
                reward="r",
                propensity="p",
                key="id",
                actions=range(made["pi"].shape[1]),
            ),
            made["pi"][rows],
        )
        for rows in (np.arange(500), order)
    )
    assert one.interval == other.interval == "deadline"
    assert numbers(other) == pytest.approx(numbers(one), rel=1e-9)


def test_names_and_order_of_actions_do_not_matter() -> None:
    made = generated(500)
    mu = made["mu"][np.arange(500), made["action"]]
    labels = np.array(["9", "10", "2", "b c"])
    one = piwo.evaluate(as_log(made), made["pi"])
    for order in ([0, 1, 2, 3], [2, 0, 3, 1]):
        log = piwo.Log.from_arrays(
            action=labels[made["action"]],
            reward=made["reward"],
            propensity=mu,
            actions=labels[order].tolist(),
        )
        by_place = piwo.evaluate(log, made["pi"][:, order])
        by_name = piwo.evaluate(log, {str(labels[a]): made["pi"][:, a] for a in (3, 1, 0, 2)})
        assert numbers(by_place) == pytest.approx(numbers(one), rel=1e-12)
        assert numbers(by_name) == pytest.approx(numbers(one), rel=1e-12)


@pytest.mark.filterwarnings("ignore:gamma is not used")
@pytest.mark.parametrize("estimator", GOLDEN)
def test_repeating_the_log_leaves_the_value(estimator: str) -> None:
    once = piwo.evaluate(small(), PI, estimator=estimator, gamma=0.1)
    often = piwo.evaluate(small(7), np.tile(PI, 7), estimator=estimator, gamma=0.1)
    assert often.value == pytest.approx(once.value, rel=1e-12)


def test_a_policy_of_another_length_is_refused() -> None:
    for rows in (5, 7):
        with pytest.raises(piwo.UsageError, match="rows"):
            piwo.evaluate(small(), np.ones(rows))


def test_text_is_no_policy() -> None:
    with pytest.raises(piwo.UsageError, match=r"piwo\.load"):
        piwo.evaluate(small(), "uniform")


# --- compare


def test_simultaneous_intervals_pay_log_n() -> None:
    made = generated()
    log = as_log(made)
    policies = {str(a): piwo.policies.Constant(a, log.actions) for a in range(4)}
    results = piwo.compare(log, policies, interval="mixture")
    assert list(results) == ["0", "1", "2", "3"]
    for a, result in enumerate(results.values()):
        w = np.where(made["action"] == a, 1 / made["mu"][np.arange(3000), made["action"]], 0.0)
        expected = bounds.value_interval(
            bet_sums(w * made["reward"]),
            bet_sums(w * (1 - made["reward"])),
            3000,
            math.log(4 / 0.05),
        )
        assert (result.lower_raw, result.upper_raw) == (
            pytest.approx(expected.lower, rel=1e-9),
            pytest.approx(expected.upper, rel=1e-9),
        )
        alone = piwo.evaluate(log, policies[str(a)], interval="mixture")
        assert result.simultaneous == 4
        assert result.value == alone.value
        assert result.lower is not None
        assert alone.lower is not None
        assert result.lower < alone.lower


def test_no_policies() -> None:
    with pytest.raises(piwo.UsageError, match="at least one"):
        piwo.compare(small(), {})


# --- notes


def test_one_row_makes_valid_json() -> None:
    log = piwo.Log.from_arrays(action=["a"], reward=[1], propensity=[0.5])
    for interval in ("mixture", "ix", "normal", "bootstrap"):
        result = piwo.evaluate(log, [1.0], estimator="ix", gamma=0.1, interval=interval)
        assert result.value == pytest.approx(1.666667, abs=1e-6)
        assert result.standard_error is None
        made = json.loads(json.dumps(result.to_dict(), allow_nan=False))
        assert made["standard_error"] is None
        if interval in {"normal", "bootstrap"}:
            assert (made["lower"], made["upper"], made["guarantee"]) == (None, None, "none")
        else:
            assert made["lower"] == 0.0
            assert result.lower_raw is not None
            assert result.lower_raw <= 0.0


def test_a_vacuous_interval_is_said_to_be_vacuous() -> None:
    log = piwo.Log.from_arrays(action=["a"], reward=[1], propensity=[0.5])
    assert any("vacuous" in note for note in piwo.evaluate(log, [1.0]).notes)


def test_asymptotic_intervals_are_labeled() -> None:
    made = generated(200)
    for interval in ("normal", "bootstrap"):
        result = piwo.evaluate(as_log(made), made["pi"], interval=interval)
        assert result.guarantee == "asymptotic"
        assert any("asymptotic" in note for note in result.notes)
        assert result.lower is not None
        assert result.upper is not None
        assert result.value is not None
        assert result.lower < result.value < result.upper


def test_a_policy_known_on_logged_actions_only_has_no_unsupported_mass_to_tell() -> None:
    seen = piwo.Log.from_arrays(action=[0, 1], reward=[1, 1], propensity=[0.5, 0.5])
    assert piwo.evaluate(seen, [0.2, 0.3]).unsupported_mass is None
    listed = piwo.Log.from_arrays(
        action=[0, 1], reward=[1, 1], propensity=[0.5, 0.5], actions=[0, 1]
    )
    assert piwo.evaluate(listed, [0.2, 0.3]).unsupported_mass == 0.0
    longer = piwo.Log.from_arrays(
        action=[0, 1], reward=[1, 1], propensity=[0.5, 0.5], actions=[0, 1, 2]
    )
    assert piwo.evaluate(longer, [0.2, 0.3]).unsupported_mass is None


def test_policies_with_more_actions_widen_a_list_that_was_only_seen() -> None:
    log = piwo.Log.from_arrays(action=["a", "b"] * 50, reward=[1, 0] * 50, propensity=[0.5] * 100)
    result = piwo.evaluate(log, piwo.policies.Uniform(["a", "b", "c", "d"]))
    assert result.unsupported_mass == 0.5
    assert result.mean_weight == 0.5
