"""Bounds for comparison: by hand, against their definitions, and on bandits that break those of
the sample maximum."""

import math
from typing import Any

import numpy as np
import pytest
from scipy import optimize, stats

from piwo import bounds
from piwo.errors import UsageError
from piwo.intervals.point import cressie_read
from piwo.reductions import MomentState

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


def sums_of(w: np.ndarray, r: np.ndarray) -> dict[str, float]:
    y = w * r
    return {
        "n": len(w),
        "w": float(w.sum()),
        "w2": float((w * w).sum()),
        "wr": float(y.sum()),
        "w2r": float((w * y).sum()),
        "w2r2": float((y * y).sum()),
    }


@pytest.mark.parametrize("mean", ["below 1", "above 1"])
@pytest.mark.parametrize("largest", [5.0, 2e3])
def test_cressie_read_solves_the_published_program(mean: str, largest: float) -> None:
    """Extremes of sum q w R over sum q = 1, sum q w = 1 and sum (N q - 1)^2 <= F + D, over the rows
    and one that was not seen, with weight 0 or M and reward 0 (lower end) or 1 (upper end)."""
    rng = np.random.default_rng(2)
    n = 12
    w = rng.uniform(0.1, 2.0, n) * (0.7 if mean == "below 1" else 1.3)
    r = rng.random(n)
    assert (w.mean() < 1) == (mean == "below 1")
    found = bounds.cressie_read_interval(**sums_of(w, r), delta=0.1, largest=largest)

    def divergence(q: np.ndarray) -> float:
        return float((((n + 1) * q - 1) ** 2).sum())

    def linear(atom: float) -> list[Any]:
        every = np.append(w, atom)
        # the second constraint is scaled, as a weight may be large
        return [
            {"type": "eq", "fun": lambda q: q.sum() - 1},
            {"type": "eq", "fun": lambda q: (q @ every - 1) / max(1.0, atom)},
        ]

    def start(atom: float) -> np.ndarray:
        # the least divergence under both constraints, by linear algebra
        rows = np.vstack([np.ones(n + 1), np.append(w, atom)])
        equal = np.full(n + 1, 1 / (n + 1))
        q: np.ndarray = equal + np.linalg.pinv(rows) @ (np.ones(2) - rows @ equal)
        return q

    most = stats.f.isf(0.1, 1, n) + divergence(start(largest if w.mean() < 1 else 0.0))
    ends = []
    for sign, reward in ((1, 0.0), (-1, 1.0)):
        least = []
        for atom in (0.0, largest):
            if divergence(start(atom)) > most:
                continue
            y = np.append(w * r, atom * reward)
            within = {"type": "ineq", "fun": lambda q: most - divergence(q)}
            solved = optimize.minimize(
                lambda q, y=y, sign=sign: sign * (q @ y),
                start(atom),
                jac=lambda q, y=y, sign=sign: sign * y,
                constraints=[*linear(atom), within],
                method="SLSQP",
                options={"ftol": 1e-14, "maxiter": 1000},
            )
            least.append(solved.fun)
        ends.append(sign * min(least))
    assert (found.lower, found.upper) == pytest.approx(ends, abs=1e-4)
    assert found.guarantee == "asymptotic"


def _golden() -> tuple[np.ndarray, np.ndarray]:
    w = np.array([1 / 0.5, 0.0, 0.5 / 0.02, 0.25 / 0.8, 1 / 0.3, 1 / 0.05])
    return np.tile(w, 100), np.tile([1.0, 0.4, 0.8, 0.0, 0.5, 1.0], 100)


def _drawn(mu: float, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    taken = rng.random(n) < mu
    return np.where(taken, 1 / mu, 0.0), (rng.random(n) < 0.3) * 1.0


@pytest.mark.parametrize(
    ("rows", "largest", "value", "ends"),
    [
        (_golden(), math.inf, 0.7085407033108612, (0.5984152131338474, 1.0)),
        (_golden(), 50.0, 0.7085407033108612, (0.5984152131338474, 0.8188060776316903)),
        (_drawn(0.5, 200, 0), math.inf, 0.2012, (0.09261567454997939, 0.4227782759270362)),
        (_drawn(0.5, 200, 0), 25.0, None, (0.09268379737861329, 0.41672924137910794)),
        (_drawn(0.5, 200, 1), math.inf, 0.35, (0.2564144721964965, 0.4620127370633297)),
        (_drawn(0.5, 200, 1), 25.0, 0.35, (0.2458566315764456, 0.48221536002035226)),
        (_drawn(0.05, 300, 0), math.inf, 0.23733333333333334, (0.0, 0.7398754667939549)),
        (_drawn(0.05, 300, 0), 25.0, None, (0.008468351369016913, 0.5305255800255713)),
        (_drawn(0.05, 300, 1), math.inf, 0.1875, (0.0, 0.5343536939983853)),
        (_drawn(0.05, 300, 1), 25.0, 0.1875, (0.0, 0.4772661167142618)),
        ((np.zeros(8), np.ones(8)), math.inf, 1.0, (0.0, 1.0)),
        ((np.ones(8), np.arange(8) % 7 == 0), math.inf, 0.25, (0.0, 0.5638074153332332)),
    ],
)
def test_cressie_read_is_that_of_its_authors(
    rows: tuple[np.ndarray, np.ndarray], largest: float, value: float | None, ends: Any
) -> None:
    """Values of vw-estimators 0.2.2 (estimators.bandits.cressieread), whose ends are cut to 0..1.

    Its estimate uses the largest weight, too; ours is the one for an unknown weight.
    """
    w, r = rows[0], rows[1] * 1.0
    sums = sums_of(w, r)
    found = bounds.cressie_read_interval(**sums, delta=0.05, largest=largest)
    assert found.lower is not None
    assert found.upper is not None
    assert (max(0.0, found.lower), min(1.0, found.upper)) == pytest.approx(ends, abs=1e-9)
    if value is not None:
        sums["rows"] = sums.pop("n")
        state = MomentState(**sums, total=float(len(w)), reward=float(r.sum()))  # type: ignore[arg-type]
        assert cressie_read(state).value == pytest.approx(value, abs=1e-12)


@pytest.mark.parametrize("declared", [True, False])
@pytest.mark.parametrize("rare", ["rewards", "losses"])
def test_cressie_read_knows_that_something_was_not_seen(rare: str, declared: bool) -> None:
    """A bandit made to hurt it: the policy takes what the log holds 4 times in 1000, and earns or
    loses everything there. Without the row that was not seen, an end is wrong in 1 log of 5."""
    rng = np.random.default_rng(0)
    n, logs, mu = 1000, 2000, 0.004
    chance = 0.1 if rare == "rewards" else 0.9
    wrong = np.zeros(2)
    for _ in range(logs):
        hits = rng.binomial(n, mu)
        w = np.zeros(n)
        w[:hits] = 1 / mu
        r = (rng.random(n) < chance) * 1.0
        found = bounds.cressie_read_interval(
            **sums_of(w, r), delta=0.05, largest=1 / mu if declared else math.inf
        )
        assert found.lower is not None
        assert found.upper is not None
        wrong += [found.lower > chance, found.upper < chance]
    assert wrong.max() / logs <= 0.04


def test_cressie_read_without_spread() -> None:
    same = bounds.cressie_read_interval(100, 100.0, 100.0, 100.0, 100.0, 100.0, delta=0.05)
    assert (same.lower, same.upper) == pytest.approx((1.0, 1.0))
    one = bounds.cressie_read_interval(
        100, 100 - 1e-14, 100.0, 50.0, 50.0, 50.0, delta=0.05, largest=1.0
    )
    assert one.lower is not None
    assert 0.3 < one.lower < 0.5
    lost = bounds.cressie_read_interval(100, 100.0, math.inf, 100.0, math.inf, math.inf, delta=0.05)
    assert lost.lower is None


def test_cressie_read_without_an_upper_end_of_the_rewards() -> None:
    w, r = _drawn(0.5, 200, 1)
    found = bounds.cressie_read_interval(**sums_of(w, 100.0 * r), delta=0.05, bounded=False)
    within = bounds.cressie_read_interval(**sums_of(w, r), delta=0.1)
    assert found.upper is None
    # all of delta is on one side, and the rewards may be in any unit
    assert found.lower == pytest.approx(100.0 * (within.lower or 0.0), rel=1e-9)


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
