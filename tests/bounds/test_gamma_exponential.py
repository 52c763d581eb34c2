"""The gamma-exponential mixture: by hand, against its integral, and looked at again and again."""

import math

import numpy as np
import pytest
from scipy import integrate, optimize

from piwo import bounds
from piwo.errors import UsageError
from piwo.simulate import Bandit, adversarial_bandits


def log_wealth(y: np.ndarray, mean: float) -> float:
    """The mixture over lam as an integral, row after row."""

    def wealth(u: float) -> float:  # lam = 1 - u
        lam = 1.0 - u
        growth = sum(lam * (x - mean) + (math.log(u) + lam) * (x - mean) ** 2 for x in y)
        return math.exp(growth - u)

    mass = 1.0 - math.exp(-1.0)  # of exp(-u) over [0, 1]
    return math.log(integrate.quad(wealth, 0.0, 1.0, limit=200)[0] / mass)


def test_by_hand() -> None:
    # n rows of 1: s = n d, V = n d^2 at the mean 1 - d. With n = 1 and m = 0: s = V = 1, W =
    # integral of u exp(2 (1 - u)) exp(-u) du / (1 - 1/e) = e^2 (1/9)(1 - 4 e^-3) / (1 - 1/e) =
    # 1.040156
    assert log_wealth(np.array([1.0]), 0.0) == pytest.approx(math.log(1.040156), abs=1e-6)
    assert bounds.gamma_exponential_lower(1.0, 1.0, 1, math.log(1.0401)) > 0.0
    assert bounds.gamma_exponential_lower(1.0, 1.0, 1, math.log(1.0402)) == 0.0


@pytest.mark.parametrize("n", [60, 200])
@pytest.mark.parametrize("scale", [1.0, 2.0])
def test_the_bound_is_where_the_wealth_is_one_over_delta(n: int, scale: float) -> None:
    rng = np.random.default_rng(3)
    y = scale * rng.random(n) * (rng.random(n) < 0.9)
    expected = optimize.brentq(lambda m: log_wealth(y, m) - 1.5, 0.0, y.mean())
    found = bounds.gamma_exponential_lower(y.sum(), (y * y).sum(), n, 1.5)
    assert found == pytest.approx(expected, abs=1e-7)


def test_the_means_ruled_out_are_one_stretch_that_begins_at_0() -> None:
    """So that halving finds its end: the wealth rises at most once, then falls."""
    from piwo.bounds.gamma_exponential import _log_mixture

    for n in (1, 2, 5, 20, 100, 1000):
        for mean in (0.1, 0.5, 0.9, 1.0, 1.5, 3.0, 10.0):
            for variance in (0.0, 1e-3, 0.1, 1.0, 10.0):
                means = np.linspace(0.0, min(1.0, mean), 60)
                wealth = [_log_mixture(m, n * mean, n * (variance + mean**2), n) for m in means]
                signs = np.sign(np.diff(wealth))[np.abs(np.diff(wealth)) > 1e-9]
                assert (np.diff(signs) <= 0).all()


def test_more_rows_and_a_larger_delta_make_it_narrower() -> None:
    found = [
        bounds.gamma_exponential_lower(0.5 * n, 0.5 * n, n, 3.0) for n in (100, 1000, 10**4, 10**9)
    ]
    assert found == sorted(found)
    assert 0.4999 < found[-1] < 0.5
    assert bounds.gamma_exponential_lower(500.0, 500.0, 1000, 2.0) > bounds.gamma_exponential_lower(
        500.0, 500.0, 1000, 3.0
    )


def test_what_leaves_float64_says_nothing() -> None:
    assert bounds.gamma_exponential_lower(1e200, math.inf, 10, 3.0) == 0.0
    assert bounds.gamma_exponential_lower(0.0, 0.0, 10, 3.0) == 0.0
    assert bounds.gamma_exponential_lower(1e100, 1e200, 10, 3.0) == 0.0
    with pytest.raises(UsageError, match="at least 0"):
        bounds.gamma_exponential_lower(-1.0, 1.0, 10, 3.0)


@pytest.mark.parametrize(
    "bandit", [x for x in adversarial_bandits() if min(x.log_mu) > -500], ids=lambda one: one.name
)
def test_the_bound_exceeds_the_value_at_any_look_with_probability_delta_at_most(
    bandit: Bandit,
) -> None:
    rng = np.random.default_rng(12)
    logs, n, delta = 100, 600, 0.2
    kinds = bandit.cells
    w = np.asarray(bandit.pi)[kinds.action] / np.exp(kinds.log_propensity)
    y = (w * kinds.reward)[rng.choice(len(w), size=(logs, n), p=kinds.chance)]
    sums, squares = y.cumsum(axis=1), (y * y).cumsum(axis=1)
    wrong = 0
    for i in range(logs):
        looks = (
            bounds.gamma_exponential_lower(sums[i, t], squares[i, t], t + 1, -math.log(delta))
            for t in LOOKS
        )
        wrong += any(lower > bandit.value for lower in looks)
    assert wrong / logs <= delta


LOOKS = (4, 9, 19, 39, 79, 149, 299, 599)
