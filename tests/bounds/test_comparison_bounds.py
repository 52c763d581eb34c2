"""Bounds for comparison: by hand, against their definitions, and on bandits that break those of
the sample maximum."""

import math

import numpy as np
import pytest
from scipy import optimize, stats

from piwo import bounds
from piwo.errors import UsageError

LID = math.log(20)


def test_hoeffding_by_hand() -> None:
    # 3 sqrt(log(20) / 200) = 3 sqrt(.0149787) = .367162
    assert bounds.hoeffding_lower(0.5, 100, 3.0, LID) == pytest.approx(0.5 - 0.367162, abs=1e-6)


def test_empirical_bernstein_by_hand() -> None:
    # sqrt(2 .25 log(40) / 101) = .135136, 7 2 log(40) / 300 = .172148
    found = bounds.empirical_bernstein_lower(0.5, 0.25, 101, 2.0, LID)
    assert found == pytest.approx(0.5 - 0.135136 - 0.172148, abs=2e-6)


def test_clopper_pearson_is_the_inverse_of_the_binomial_tail() -> None:
    for k, n in ((1, 10), (7, 10), (10, 10), (3, 1000)):
        p = bounds.clopper_pearson_lower(k, n, LID)
        assert stats.binom.sf(k - 1, n, p) == pytest.approx(0.05, rel=1e-9)
    assert bounds.clopper_pearson_lower(0, 10, LID) == 0.0
    assert bounds.clopper_pearson_lower(10, 10, LID) == pytest.approx(0.05**0.1)


def test_clopper_pearson_holds_exactly() -> None:
    for p in (0.01, 0.3, 0.95):
        k = np.arange(41)
        wrong = np.array([bounds.clopper_pearson_lower(int(x), 40, LID) > p for x in k])
        assert stats.binom.pmf(k[wrong], 40, p).sum() <= 0.05


def test_cressie_read_solves_its_quadratic_programme() -> None:
    """The ends are the extremes of sum q w R over sum q = 1, sum q w = 1, sum (n q - 1)^2 <= F
    above the least."""
    rng = np.random.default_rng(2)
    n = 12
    w = rng.uniform(0.2, 2.0, n)
    y = w * rng.random(n)
    found = bounds.cressie_read_interval(
        n, w.sum(), (w * w).sum(), y.sum(), (w * y).sum(), (y * y).sum(), delta=0.1
    )

    def divergence(q: np.ndarray) -> float:
        return float(((n * q - 1) ** 2).sum())

    linear = [
        {"type": "eq", "fun": lambda q: q.sum() - 1},
        {"type": "eq", "fun": lambda q: q @ w - 1},
    ]
    least = optimize.minimize(divergence, np.full(n, 1 / n), constraints=linear).fun
    most = least + stats.f.isf(0.1, 1, n - 1)
    within = [*linear, {"type": "ineq", "fun": lambda q: most - divergence(q)}]
    ends = [
        sign
        * optimize.minimize(
            lambda q, s=sign: s * (q @ y), np.full(n, 1 / n), constraints=within, tol=1e-12
        ).fun
        for sign in (1, -1)
    ]
    assert (found.lower, found.upper) == pytest.approx(ends, abs=1e-5)
    assert found.guarantee == "asymptotic"


def test_cressie_read_without_spread() -> None:
    same = bounds.cressie_read_interval(100, 100.0, 100.0, 100.0, 100.0, 100.0, delta=0.05)
    assert (same.lower, same.upper) == (1.0, 1.0)
    lost = bounds.cressie_read_interval(100, 100.0, math.inf, 100.0, math.inf, math.inf, delta=0.05)
    assert lost.lower is None


@pytest.mark.parametrize("name", ["hoeffding", "empirical-bernstein"])
def test_violations_are_rarer_than_delta_with_the_declared_weight_only(name: str) -> None:
    """Eight rows in a thousand carry nearly all of the value, with a weight of 100 under which
    rewards are rare."""
    rng = np.random.default_rng(4)
    n, logs, chance, delta = 1000, 2000, 1e-3, 0.1
    hits = rng.binomial(n, chance, size=logs)
    y = np.array([0.05, 1 / chance])  # Y is 1000 with probability .001, else .05: mean 1.04995
    value = float(y @ [1 - chance, chance])
    mean = y[0] + hits * (y[1] - y[0]) / n
    variance = hits * (n - hits) * (y[1] - y[0]) ** 2 / (n * (n - 1))

    def lower(m: float, v: float, largest: float) -> float:
        if name == "hoeffding":
            return bounds.hoeffding_lower(m, n, largest, -math.log(delta))
        return bounds.empirical_bernstein_lower(m, v, n, largest, -math.log(delta))

    declared = np.array([lower(m, v, y[1]) for m, v in zip(mean, variance, strict=True)])
    assert (declared > value).mean() <= delta
    # upper bounds by symmetry, b - Y: with the largest value SEEN they are wrong whenever it was
    # not seen at all
    seen = np.where(hits > 0, y[1], y[0])
    upper = np.array(
        [b - lower(max(0.0, b - m), v, b) for m, v, b in zip(mean, variance, seen, strict=True)]
    )
    assert (upper < value).mean() > 0.3


@pytest.mark.parametrize("name", ["hoeffding", "empirical-bernstein"])
def test_on_coins_they_are_wrong_now_and_then_and_with_next_to_no_penalty_too_often(
    name: str,
) -> None:
    n, logs, delta = 4000, 4000, 0.05
    mean = np.random.default_rng(5).binomial(n, 0.5, size=logs) / n

    def wrong(penalty: float) -> float:
        lower = [
            bounds.hoeffding_lower(m, n, 1.0, penalty)
            if name == "hoeffding"
            else bounds.empirical_bernstein_lower(m, m * (1 - m) * n / (n - 1), n, 1.0, penalty)
            for m in mean
        ]
        return float((np.array(lower) > 0.5).mean())

    assert 0 < wrong(-math.log(delta)) <= delta < wrong(-math.log(delta) / 100)


def test_wrong_arguments() -> None:
    with pytest.raises(UsageError, match="at most n"):
        bounds.clopper_pearson_lower(11, 10, LID)
    with pytest.raises(UsageError, match="largest"):
        bounds.hoeffding_lower(0.5, 10, 0.0, LID)
    with pytest.raises(UsageError, match="at least 2"):
        bounds.empirical_bernstein_lower(0.5, 0.1, 1, 1.0, LID)
