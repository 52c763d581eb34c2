"""The upper end under a cap on rates: numbers by hand, a naive twin, its level."""

import math

import numpy as np
import numpy.typing as npt
import pytest
from scipy.special import logsumexp

from piwo import bounds
from piwo.bounds.rate_cap import _bet_sum
from piwo.bounds.truncated import useful_bets
from piwo.errors import UsageError
from piwo.logs.batch import Batch
from piwo.policies import Column
from piwo.reductions.bets import CAPS, THETA
from piwo.reductions.rate_cells import RateCells

Floats = npt.NDArray[np.float64]

WEIGHTS = np.tile([2.0, 0.0, 0.5, 2.5, 0.25, 0.75], 100)
REWARDS = (np.arange(600) % 60 == 2) * 1.0


def cells_of(w: Floats, rewards: Floats, count: Floats | None = None) -> Floats:
    """The sums by power of two, one row at a time."""
    cells, times = np.zeros((80, 4)), count
    if times is None:
        times = np.ones(len(w))
    for weight, reward, number in zip(w, rewards, times, strict=True):
        place = 0
        if weight > 0:
            place = min(79, max(0, math.floor(math.log2(weight)) + 32))
        sums = (1 - reward, weight * (1 - reward), reward, weight * reward)
        cells[place] += number * np.array(sums)
    return cells


def exact_upper(w: Floats, rewards: Floats, rho: float, log_inv_delta: float) -> float:
    """The bound from the bet sums themselves, searched on a grid of means."""
    n = len(w)
    size = math.floor(math.log2(THETA * rho * n / ((1 - rho) * log_inv_delta))) + 2
    size = max(1, size)
    caps = 2.0 ** np.arange(-1, size - 1)
    bets = THETA * rho / ((1 - rho) * caps)
    sums = [
        np.log1p(b * np.minimum(w, c) * (1 - rewards / rho)).sum()
        for b, c in zip(bets, caps, strict=True)
    ]
    least = 0.0
    for mean in np.linspace(0.0, 2.0, 4001):
        if logsumexp(sums - n * np.log1p(bets * mean)) - math.log(size) >= log_inv_delta:
            least = mean
    return rho * (1 - least)


def test_numbers_by_hand() -> None:
    cells = cells_of(WEIGHTS, REWARDS)
    upper = bounds.rate_cap_upper(cells, 600, 0.2, math.log(20))
    assert upper == pytest.approx(0.0449005468, abs=1e-10)
    expected = {0.2: -0.8312624273, 0.01: 2.5539618533, 0.005: 8.2924324729, 0.002: 16.7835132722}
    for rho, log_e in expected.items():
        logs = bounds.rate_cap_log_e_values(cells, rho)
        assert logsumexp(logs) == pytest.approx(log_e, abs=1e-9)
    # 100 (2^-1 <= w < 1, w = .75) and 100 of w = .5: 10 of 200 rows have a reward
    assert bounds.rate_cap_log_e_values(cells, 0.005).argmax() == 10


def test_weights_on_the_edges_of_cells_lose_nothing() -> None:
    """There the sums by cell are the bet sums."""
    w = np.tile([2.0, 0.0, 0.5, 4.0, 0.25, 1.0], 100)
    cells = cells_of(w, REWARDS)
    upper = bounds.rate_cap_upper(cells, 600, 0.2, math.log(20))
    assert upper == pytest.approx(exact_upper(w, REWARDS, 0.2, math.log(20)), abs=2e-4)


@pytest.mark.parametrize("rho", [0.02, 0.2, 0.6])
@pytest.mark.parametrize("seed", range(4))
def test_cells_are_never_better_than_the_rows_and_hardly_worse(rho: float, seed: int) -> None:
    """A reward of 1/2 counts as half a row with a reward of 1, which is wider."""
    random = np.random.default_rng(seed)
    w = random.lognormal(-1.0, 1.5, 2000)
    rewards: Floats = (random.random(2000) < rho / 3) * 1.0
    if seed % 2:
        rewards *= random.random(2000)
    cells = cells_of(w, rewards)
    upper = bounds.rate_cap_upper(cells, 2000, rho, math.log(40))
    exact = exact_upper(w, rewards, rho, math.log(40))
    loss = 1.2 if seed % 2 else 1.05
    # the grid of the twin is 1/2000 wide
    assert exact - rho * 5e-4 < upper < loss * exact + rho * 5e-4


def test_the_reduction_has_the_same_cells() -> None:
    random = np.random.default_rng(0)
    w = np.append(random.lognormal(0.0, 8.0, 500), [0.0, 1e-300, 1e300])
    rewards = random.random(503)
    batch = Batch(0, np.zeros(503, np.int32), rewards, np.ones(503), policies={"pi": w})
    reduction = RateCells(Column("pi", ["a"]))
    found = reduction.update(reduction.empty(), batch).cells
    capped = np.minimum(w, 2.0**47)
    assert found == pytest.approx(cells_of(capped, rewards), rel=1e-12)


def test_nothing_is_known_without_rows_and_declared_sizes_are_wider() -> None:
    assert bounds.rate_cap_upper(np.zeros((80, 4)), 0, 0.1, 3.0) == 0.1
    cells = cells_of(WEIGHTS, REWARDS)
    now, planned, always = (
        bounds.rate_cap_upper(cells, 600, 0.2, 3.0, horizon=x) for x in (None, 6000, "universal")
    )
    assert now < planned < always < 0.2
    assert bounds.rate_cap_upper(cells, 600, 0.2, 3.0, horizon=600) == now


def test_rows_for_a_target_are_rows_like_these() -> None:
    cells = cells_of(WEIGHTS, REWARDS)
    rows = bounds.rate_cap_rows(cells, 600, 0.2, math.log(20), 0.02)
    assert rows is not None
    at, before = (
        bounds.rate_cap_upper(cells * some / 600, some, 0.2, math.log(20))
        for some in (rows, rows - 10)
    )
    assert at <= 0.02 < before
    # the value of these rows is .0083
    assert bounds.rate_cap_rows(cells, 600, 0.2, math.log(20), 0.0083) is None
    assert bounds.rate_cap_rows(cells, 600, 0.2, math.log(20), 0.2) == 0
    assert bounds.rate_cap_rows(cells, 600, 0.2, math.log(20), 0.05) <= 600


@pytest.mark.parametrize("rho", [0.0, 1.0, -1.0, math.nan])
def test_a_cap_is_between_0_and_1(rho: float) -> None:
    with pytest.raises(UsageError, match="rho"):
        bounds.rate_cap_upper(np.zeros((80, 4)), 5, rho, 3.0)


# (probability under the logger, weight, rate): laws built to hurt. Rates are at most the cap, and
# exactly the cap where it matters. No two weights are in one cell: sums by cell are sums of rows.
def laws(n: int, rho: float) -> dict[str, list[tuple[float, float, float]]]:
    rare, few = 1 / n, min(0.5, 3 / n)
    return {
        "the logger itself": [(1.0, 1.0, rho)],
        "heavy rows at the cap": [(0.005, 100.0, rho), (0.995, 0.5 / 0.995, 0.0)],
        "one row decides": [(rare, 0.3 * n, rho), (1 - rare, 0.7 / (1 - rare), 0.0)],
        "three rows decide": [(few, 0.9 / few, rho), (1 - few, 0.1 / (1 - few), 0.0)],
        "missing mass": [(1.0, 0.7, 0.0)],
        "one action of ten": [(0.1, 10.0, rho), (0.9, 0.0, 0.0)],
        "one action of a thousand": [(0.001, 1000.0, rho), (0.999, 0.0, 0.0)],
        "one in a million": [(1e-6, 5e5, rho), (1 - 1e-6, 0.5, rho)],
        "geometric": [(2.0**-k, 2.0 ** (k - 1) / 5, rho) for k in range(1, 11)]
        + [(2.0**-10, 0, 0)],
        "geometric, heavy half at the cap": [
            (2.0**-k, 2.0 ** (k - 1) / 5, rho * (k > 5)) for k in range(1, 11)
        ]
        + [(2.0**-10, 0, 0)],
        "light rows at the cap": [(0.5, 0.5, rho), (0.5, 1.5, 0.0)],
        "far below the cap": [(0.5, 2.0, rho / 10), (0.5, 0.0, 0.0)],
    }


def bets_of(n: int, rho: float, delta: float) -> Floats:
    """The bets lambda_k that are useful for n rows."""
    bets = THETA * rho / ((1 - rho) * CAPS)
    return bets[: useful_bets(float(bets[1]), n, -math.log(delta), None)]


def factors_of(cells: Floats, rho: float, bets: Floats) -> Floats:
    """What one row adds to the sums of the bets."""
    return np.array([_bet_sum(cells, rho, float(bet), k) for k, bet in enumerate(bets)])


@pytest.mark.statistics
@pytest.mark.parametrize("rho", [0.05, 0.3])
@pytest.mark.parametrize("n", [5, 100, 1000, 5000])
@pytest.mark.parametrize("delta", [0.025, 0.2])
def test_level(rho: float, n: int, delta: float) -> None:
    """The upper end is below the value in at most a share delta of 20,000 logs of every law."""
    logs, bets = 20_000, bets_of(n, rho, delta)
    error = 3 * math.sqrt(delta * (1 - delta) / logs)
    for name, law in laws(n, rho).items():
        chance, w, rate = (np.array(x, dtype=float) for x in zip(*law, strict=True))
        value = float((chance * w * rate).sum()) + rho * (name == "missing mass") * 0.3
        split = np.concatenate([chance * (1 - rate), chance * rate])
        both, rewards = np.concatenate([w, w]), np.repeat([0.0, 1.0], len(w))
        random = np.random.default_rng([n, int(100 * rho), int(1000 * delta)])
        counts = random.multinomial(n, split / split.sum(), size=logs).astype(float)
        rows = np.stack([cells_of(both[[i]], rewards[[i]]) for i in range(len(both))])
        factors = np.stack([factors_of(row, rho, bets) for row in rows])
        log_wealth = logsumexp(counts @ factors - n * np.log1p(bets * (1 - value / rho)), axis=1)
        refuted = log_wealth - math.log(len(bets)) > -math.log(delta)
        assert refuted.mean() <= delta + error, name
        # the bound is below the value in just these logs
        for i in [*range(0, logs, 2000), *np.flatnonzero(refuted)[:3]]:
            cells = np.einsum("i,ijk->jk", counts[i], rows)
            below = bounds.rate_cap_upper(cells, n, rho, -math.log(delta)) < value - 1e-12
            assert below == refuted[i] or abs(log_wealth[i] - math.log(len(bets) / delta)) < 1e-9


@pytest.mark.statistics
@pytest.mark.parametrize("rho", [0.05, 0.3])
@pytest.mark.parametrize("n", [100, 5000])
def test_level_of_the_test_of_the_cap(rho: float, n: int) -> None:
    """A cap that holds is contradicted with p < .2 and p < .01 in at most so many logs."""
    logs = 1000
    for name, law in laws(n, rho).items():
        chance, w, rate = (np.array(x, dtype=float) for x in zip(*law, strict=True))
        split = np.concatenate([chance * (1 - rate), chance * rate])
        both, rewards = np.concatenate([w, w]), np.repeat([0.0, 1.0], len(w))
        rows = np.stack([cells_of(both[[i]], rewards[[i]]) for i in range(len(both))])
        random = np.random.default_rng([n, int(100 * rho)])
        counts = random.multinomial(n, split / split.sum(), size=logs).astype(float)
        cells = np.einsum("li,ijk->ljk", counts, rows)
        log_e = np.array([logsumexp(bounds.rate_cap_log_e_values(one, rho)) for one in cells])
        for delta in (0.01, 0.2):
            error = 3 * math.sqrt(delta * (1 - delta) / logs)
            assert (log_e > -math.log(delta)).mean() <= delta + error, name


@pytest.mark.statistics
@pytest.mark.parametrize("rule", ["rare when ahead", "rare when behind", "rare at the end"])
@pytest.mark.parametrize("rho", [0.05, 0.3])
def test_level_with_loggers_that_learn_and_know_the_wealth(rho: float, rule: str) -> None:
    """The action that pays, at the rate of the cap, is logged rarely or not as the logger sees
    fit. At the end, and at every fifth row before it with bets for any number of rows."""
    n, logs, delta = 300, 20_000, 0.2
    bets = THETA * rho / ((1 - rho) * CAPS[:12])
    size = len(bets_of(n, rho, delta))
    random = np.random.default_rng(5)
    sums = np.zeros((logs, len(bets)))
    ever = np.zeros(logs, dtype=bool)
    for t in range(n):
        # the value is rho: at the mean 1 - value / rho = 0 the wealth is exp(S)
        log_wealth = logsumexp(sums[:, :size], axis=1) - math.log(size)
        rare = {
            "rare when ahead": log_wealth > 0,
            "rare when behind": log_wealth < 0,
            "rare at the end": np.full(logs, t > n / 2),
        }[rule]
        mu = np.where(rare, 0.01, 0.5)
        w = np.where(random.random(logs) < mu, 1 / mu, 0.0)
        reward = (random.random(logs) < rho) & (w > 0)
        y = np.minimum(w[:, None], CAPS[: len(bets)]) * (1 - reward[:, None] / rho)
        sums += np.log1p(bets * y)
        if t % 5:
            continue
        ever |= logsumexp(sums, axis=1) - math.log(len(bets)) >= -math.log(delta)
    at_the_end = logsumexp(sums[:, :size], axis=1) - math.log(size) >= -math.log(delta)
    error = 3 * math.sqrt(delta * (1 - delta) / logs)
    assert at_the_end.mean() <= delta + error
    assert ever.mean() <= delta + error


@pytest.mark.statistics
@pytest.mark.parametrize("rho", [0.05, 0.3])
def test_level_by_unit(rho: float) -> None:
    """Rewards of a unit are all the same, the worst dependence; each of its rows counts a part."""
    units, size, delta, logs = 300, 5, 0.2, 500
    random = np.random.default_rng(int(100 * rho))
    wrong = refused = 0
    for _ in range(logs):
        # one row in ten has weight 10, so that w is 1 on average
        w = 10.0 * (random.random((units, size)) < 0.1)
        rewards = np.repeat(random.random(units) < rho, size) * 1.0
        cells = cells_of(w.ravel(), rewards, np.full(units * size, 1 / size))
        wrong += bounds.rate_cap_upper(cells, units, rho, -math.log(delta)) < rho - 1e-12
        refused += logsumexp(bounds.rate_cap_log_e_values(cells, rho)) > -math.log(delta)
    error = 3 * math.sqrt(delta * (1 - delta) / logs)
    assert wrong / logs <= delta + error
    assert refused / logs <= delta + error
