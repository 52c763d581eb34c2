"""Empirical likelihood: by hand, against its definition, and on logs of known value."""

import math

import numpy as np
import pytest
from scipy import optimize, stats

from piwo import bounds
from piwo.errors import UsageError


def test_by_hand() -> None:
    # n rows of weight 1 and reward 1: sum log(n q) >= -F/2 with sum q = v gives v = exp(-F / (2
    # n)); no loss was seen
    n = 100
    limit = stats.f.isf(0.05, 1, n - 1)
    found = bounds.empirical_likelihood_interval([1.0], [1.0], 0.05, count=[n])
    assert found.lower == pytest.approx(math.exp(-limit / (2 * n)), abs=1e-9)
    assert found.upper == 1.0
    assert found.guarantee == "asymptotic"


@pytest.mark.filterwarnings(
    "ignore:Values in x were outside bounds"
)  # the optimizer of older versions of SciPy
@pytest.mark.parametrize("largest", [4.0, 12.0])
@pytest.mark.parametrize("side", [1, -1])
def test_the_ends_are_extremes_over_laws(largest: float, side: int) -> None:
    """Laws with mass on the rows and on the corners of [0, M] x [0, 1], within F / 2 of the best
    law with E w = 1."""
    rng = np.random.default_rng(5)
    n = 7
    w, r = rng.uniform(0.1, 3.0, n), rng.random(n)
    corners = np.array([[0.0, 0.0], [0.0, 1.0], [largest, 0.0], [largest, 1.0]])
    all_w, all_r = np.concatenate([w, corners[:, 0]]), np.concatenate([r, corners[:, 1]])
    start = np.concatenate([np.full(n, 0.9 / n), np.full(4, 0.025)])
    limits = [(1e-12, 1.0)] * n + [(0.0, 1.0)] * 4
    linear = [
        {"type": "eq", "fun": lambda q: q.sum() - 1},
        {"type": "eq", "fun": lambda q: q @ all_w - 1},
    ]

    def ratio(q: np.ndarray) -> float:
        return float(np.log(n * np.maximum(q[:n], 1e-300)).sum())

    options = {"maxiter": 300, "ftol": 1e-12}
    best = optimize.minimize(
        lambda q: -ratio(q), start, bounds=limits, constraints=linear, options=options
    )
    least = ratio(best.x) - stats.f.isf(0.1, 1, n - 1) / 2
    likely = [*linear, {"type": "ineq", "fun": lambda q: ratio(q) - least}]
    solved = optimize.minimize(
        lambda q: side * (q @ (all_w * all_r)),
        best.x,
        bounds=limits,
        constraints=likely,
        options=options,
    )
    found = bounds.empirical_likelihood_interval(w, r, 0.1, largest=largest)
    assert (found.lower if side == 1 else found.upper) == pytest.approx(side * solved.fun, abs=1e-4)


def test_a_largest_weight_makes_it_narrower_and_infinity_is_its_limit() -> None:
    rng = np.random.default_rng(6)
    w, r = np.where(rng.random(500) < 0.1, 10.0, 0.0), (rng.random(500) < 0.4) * 1.0
    ends = [
        bounds.empirical_likelihood_interval(w, r, 0.05, largest=x)
        for x in (10.0, 100.0, 1e9, math.inf)
    ]
    widths = [one.upper - one.lower for one in ends]
    assert widths == sorted(widths)
    assert widths[2] == pytest.approx(widths[3], abs=1e-6)


def test_repeated_pairs_are_counted() -> None:
    rng = np.random.default_rng(7)
    w, r = rng.choice([0.0, 0.5, 3.0], 200), rng.choice([0.0, 1.0], 200)
    pairs, count = np.unique(np.stack([w, r]), axis=1, return_counts=True)
    one = bounds.empirical_likelihood_interval(w, r, 0.05)
    other = bounds.empirical_likelihood_interval(*pairs, 0.05, count=count)
    assert (one.lower, one.upper) == pytest.approx((other.lower, other.upper), abs=1e-9)


@pytest.mark.parametrize(
    ("mu", "chance", "most"), [(0.5, 0.5, 0.09), (0.05, 0.5, 0.12), (0.002, 0.9, 0.12)]
)
def test_with_the_largest_weight_it_is_wrong_about_as_often_as_it_says(
    mu: float, chance: float, most: float
) -> None:
    rng = np.random.default_rng(8)
    logs, wrong = 150, 0
    cells = [mu * chance, mu * (1 - chance), 1 - mu]
    for counts in rng.multinomial(2000, cells, size=logs):
        kept = counts > 0
        w, r = np.array([1 / mu, 1 / mu, 0.0])[kept], np.array([1.0, 0.0, 0.0])[kept]
        found = bounds.empirical_likelihood_interval(w, r, 0.05, count=counts[kept], largest=1 / mu)
        wrong += not found.lower <= chance <= found.upper
    assert wrong / logs <= most


def test_what_is_no_row_is_refused() -> None:
    few = bounds.empirical_likelihood_interval([1.0, 1.0], [0.0, 1.0], 0.05)
    assert (few.lower, few.upper) == (None, None)
    lost = bounds.empirical_likelihood_interval([1.0, math.inf, 1.0], [0.0, 1.0, 1.0], 0.05)
    assert (lost.lower, lost.upper) == (None, None)
    with pytest.raises(UsageError, match="above largest=2"):
        bounds.empirical_likelihood_interval([1.0, 3.0], [0.0, 1.0], 0.05, largest=2.0)
    with pytest.raises(UsageError, match="rewards in"):
        bounds.empirical_likelihood_interval([1.0], [2.0], 0.05)
    with pytest.raises(UsageError, match="shape"):
        bounds.empirical_likelihood_interval([1.0], [1.0, 0.0], 0.05)
    with pytest.raises(UsageError, match="not numbers"):
        bounds.empirical_likelihood_interval(["x"], [1.0], 0.05)
