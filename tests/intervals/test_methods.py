"""Interval methods for comparison, by name, on logs."""

import math

import numpy as np
import pytest

import piwo
from piwo import bounds


def make_log(n: int = 400, **more: object) -> piwo.Log:
    rng = np.random.default_rng(11)
    action = rng.integers(0, 2, n)
    reward = (rng.random(n) < 0.3 + 0.4 * action) * 1.0
    return piwo.Log.from_arrays(
        action=action, reward=reward, propensity=np.full(n, 0.5), actions=[0, 1], **more
    )  # type: ignore[arg-type]


LOG = make_log()
ONE = piwo.policies.Constant(1, LOG.actions)
HALF = math.log(2 / 0.05)


def rows() -> tuple[np.ndarray, np.ndarray]:
    batch = next(iter(LOG.each_batch()))
    w = np.where(batch.action == 1, 2.0, 0.0)
    return w, batch.reward


def test_the_ends_are_those_of_the_bounds() -> None:
    w, r = rows()
    y, z = w * r, w * (1 - r)
    found = piwo.evaluate(LOG, ONE, interval="hoeffding:2")
    assert found.interval == "hoeffding"
    assert found.lower_raw == pytest.approx(bounds.hoeffding_lower(y.mean(), 400, 2.0, HALF))
    assert found.upper_raw == pytest.approx(1 - bounds.hoeffding_lower(z.mean(), 400, 2.0, HALF))
    found = piwo.evaluate(LOG, ONE, interval="empirical-bernstein:2")
    expected = bounds.empirical_bernstein_lower(y.mean(), y.var(ddof=1), 400, 2.0, HALF)
    assert found.lower_raw == pytest.approx(expected)
    expected = bounds.empirical_bernstein_lower(z.mean(), z.var(ddof=1), 400, 2.0, HALF)
    assert found.upper_raw == pytest.approx(1 - expected)
    found = piwo.evaluate(LOG, ONE, interval="clopper-pearson")
    wins, losses = int((y > 0).sum()), int((z > 0).sum())
    assert found.lower_raw == pytest.approx(2 * bounds.clopper_pearson_lower(wins, 400, HALF))
    assert found.upper_raw == pytest.approx(1 - 2 * bounds.clopper_pearson_lower(losses, 400, HALF))
    assert found.guarantee == "finite-sample"
    found = piwo.evaluate(LOG, ONE, interval="cressie-read")
    assert found.guarantee == "asymptotic"
    assert found.lower is not None
    assert found.upper is not None
    assert found.lower < 0.7 < found.upper


def test_the_ends_of_those_that_need_no_declared_number() -> None:
    w, r = rows()
    y, z = w * r, w * (1 - r)
    found = piwo.evaluate(LOG, ONE, interval="gamma-exponential", horizon="universal")
    assert found.lower_raw == pytest.approx(
        bounds.gamma_exponential_lower(y.sum(), (y * y).sum(), 400, HALF)
    )
    assert found.upper_raw == pytest.approx(
        1 - bounds.gamma_exponential_lower(z.sum(), (z * z).sum(), 400, HALF)
    )
    for name, largest in (("empirical-likelihood", math.inf), ("empirical-likelihood:2", 2.0)):
        found = piwo.evaluate(LOG, ONE, interval=name)
        expected = bounds.empirical_likelihood_interval(w, r, 0.05, largest=largest)
        assert (found.lower_raw, found.upper_raw) == pytest.approx(
            (expected.lower, expected.upper), abs=1e-9
        )
        assert found.guarantee == "asymptotic"


def test_without_an_upper_end_the_gamma_exponential_bound_spends_all_on_the_lower() -> None:
    w, r = rows()
    found = piwo.evaluate(make_log(reward_range=(0, math.inf)), ONE, interval="gamma-exponential")
    assert found.upper is None
    assert found.lower == pytest.approx(
        bounds.gamma_exponential_lower((w * r).sum(), (w * w * r).sum(), 400, math.log(20))
    )


def test_on_policy_clopper_pearson_is_the_textbook_interval() -> None:
    from scipy import stats

    _, r = rows()
    found = piwo.evaluate(LOG, piwo.policies.Logging(), interval="clopper-pearson")
    exact = stats.binomtest(int(r.sum()), 400).proportion_ci(0.95, method="exact")
    assert (found.lower_raw, found.upper_raw) == pytest.approx((exact.low, exact.high))


@pytest.mark.parametrize("name", ["ix-reward", "global-clip", "log-clip-linear", "freezing", "ls"])
def test_the_interval_of_any_pessimistic_score(name: str) -> None:
    found = piwo.evaluate(LOG, ONE, estimator=name, gamma=0.05, interval="score")
    assert found.guarantee == "finite-sample"
    assert found.lower is not None
    assert found.value is not None
    assert found.lower_raw == pytest.approx(bounds.score_lower(found.value, 400, 0.1, HALF))


def test_what_does_not_apply_is_refused() -> None:
    with pytest.raises(piwo.UsageError, match="no log can show"):
        piwo.evaluate(LOG, ONE, interval="hoeffding")
    with pytest.raises(piwo.UsageError, match="expected a number above 0"):
        piwo.evaluate(LOG, ONE, interval="hoeffding:many")
    with pytest.raises(piwo.DataError, match=r"weight 2, which is above the 1\.5"):
        piwo.evaluate(LOG, ONE, interval="empirical-bernstein:1.5")
    with pytest.raises(piwo.DataError, match=r"weight 2, which is above the 1\.5"):
        piwo.evaluate(LOG, ONE, interval="empirical-likelihood:1.5")
    with pytest.raises(piwo.UsageError, match="of at least 1"):
        piwo.evaluate(LOG, ONE, interval="empirical-likelihood:0.5")
    with pytest.raises(piwo.UsageError, match="takes no number"):
        piwo.evaluate(LOG, ONE, interval="mixture:2")
    with pytest.raises(piwo.UsageError, match="of 0 and one other number"):
        piwo.evaluate(
            LOG, piwo.policies.Tabular([0.3, 0.7], LOG.actions), interval="clopper-pearson"
        )
    half = piwo.Log.from_arrays(
        action=[0, 1], reward=[0.5, 1], propensity=[0.5, 0.5], actions=[0, 1]
    )
    with pytest.raises(piwo.UsageError, match="rewards of 0 and 1"):
        piwo.evaluate(half, piwo.policies.Constant(0, half.actions), interval="clopper-pearson")
    with pytest.raises(piwo.UsageError, match="upper end"):
        piwo.evaluate(make_log(reward_range=(0, math.inf)), ONE, interval="hoeffding:2")
    for name in ("cressie-read", "empirical-likelihood"):
        with pytest.raises(piwo.UsageError, match="too small"):
            piwo.evaluate(LOG, ONE, interval=name, propensity_factor=1.2)
    with pytest.raises(piwo.UsageError, match="a pessimistic score"):
        piwo.evaluate(LOG, ONE, estimator="clip", interval="score")


def test_a_thinned_log_has_none_of_them() -> None:
    log = make_log(weight=np.full(400, 2.0))
    for name in (
        "hoeffding:2",
        "clopper-pearson",
        "cressie-read",
        "gamma-exponential",
        "empirical-likelihood",
    ):
        found = piwo.evaluate(log, ONE, interval=name)
        assert (found.lower, found.upper) == (None, None)


def test_the_cressie_read_estimate_does_not_depend_on_the_unit() -> None:
    rng = np.random.default_rng(3)
    for share in (0.3, 0.7):
        action = (rng.random(200) < share) * 1
        reward = rng.random(200)
        found = []
        for low, high in ((0.0, 1.0), (-3.0, 5.0)):
            log = piwo.Log.from_arrays(
                action=action,
                reward=low + (high - low) * reward,
                propensity=np.full(200, 0.5),
                actions=[0, 1],
                reward_range=(low, high),
            )
            one = piwo.evaluate(log, piwo.policies.Constant(1, [0, 1]), interval="cressie-read")
            ends = (one.value, one.lower_raw, one.upper_raw)
            found.append([(x - low) / (high - low) for x in ends if x is not None])
        assert found[0] == pytest.approx(found[1], abs=1e-12)
        assert found[0][1] < found[0][0] < found[0][2]
