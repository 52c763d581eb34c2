"""Sums by block of rows against a naive twin, and what a row's block depends on."""

import math

import numpy as np
import pytest

from piwo.logs import Batch, read
from piwo.policies import Column, Uniform
from piwo.reductions import PolicySums, reduce
from piwo.reductions.bets import BETS
from piwo.reductions.blocks import BLOCK_BETS, BLOCKS, BetSums, Partition, RowBlocks
from piwo.scores import IW

HASHED = Partition("hash")
N = 3000


MASK = 2**64 - 1


def scrambled(x):
    """SplitMix64."""
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def naive_blocks(numbers):
    """The block of each row number: a permutation of each 64, made of the bits of a hash."""
    found = []
    for number in numbers:
        key, x = scrambled((int(number) >> 6) ^ 0x35E0C09408CB9CDB), int(number) % 64
        for shift in (0, 12, 24):
            factor, added = (key >> shift) | 1, key >> (shift + 6)
            x = (x * factor + added) % 64
            if shift < 24:
                x ^= x >> 3
        found.append(x)
    return np.array(found)


def naive_sums(y, blocks, count):
    """Sum Y, sum Y^2 and log sums, block by block, from log Y where Y is too large."""
    made = np.zeros((count, 2 + len(BLOCK_BETS)))
    for one, block in zip(y, blocks, strict=True):
        made[block] += [one, one * one, *np.log1p(BLOCK_BETS * one)]
    return made


def columns(n=N):
    random = np.random.default_rng(11)
    return {
        "action": np.zeros(n, int),
        "reward": np.where(random.random(n) < 0.5, 0.0, random.random(n)),
        "propensity": np.full(n, 1 / 64),
        "pi": random.exponential(2.0, n).clip(0, 60) / 64,
        "id": random.permutation(10**6)[:n],
        "visitor": np.sort(random.integers(0, n // 3, n)),
        "day": random.integers(0, 500, n),
    }


def sums_of(table, partition, **names):
    log = read(table, policy_columns="pi", actions=[0], **names)
    return reduce(log, PolicySums(Column("pi", [0]), IW(), partition=partition)).blocks


def quantities(table):
    w, r = table["pi"] * 64, table["reward"]
    return {"value": w * r, "loss": w * (1 - r), "improvement": w * r + 1 - r, "weight": w}


@pytest.mark.parametrize("binary", [False, True])
def test_hashed_blocks_of_a_naive_twin(binary):
    table = columns()
    if binary:
        table["reward"] = (table["reward"] > 0.3).astype(float)
    blocks = naive_blocks(range(N))
    found = sums_of(table, HASHED)
    assert found.rows.tolist() == np.bincount(blocks, minlength=BLOCKS).tolist()
    for name, y in quantities(table).items():
        naive = naive_sums(y, blocks, BLOCKS)
        assert getattr(found, name) == pytest.approx(naive, rel=1e-12, abs=1e-300)
        assert found.trend(name) == pytest.approx(y @ np.arange(N), rel=1e-12)
    assert found.numbers == pytest.approx([N * (N - 1) / 2, (N - 1) * N * (2 * N - 1) / 6])
    # a key places rows, not their numbers
    keyed = sums_of(table, HASHED, key="id")
    assert not keyed.numbers.any()
    assert not keyed.trends.any()


def test_blocks_in_time_of_a_naive_twin():
    table = columns()
    cuts = (100, 500, 2000)
    blocks = np.searchsorted(cuts, np.arange(N), side="right")
    found = sums_of(table, Partition("time", cuts))
    assert found.rows.tolist() == [100.0, 400.0, 1500.0, 1000.0]
    for name, y in quantities(table).items():
        naive = naive_sums(y, blocks, 4)
        assert getattr(found, name) == pytest.approx(naive, rel=1e-12, abs=1e-300)


def test_by_unit_a_block_holds_whole_units():
    table = columns()
    found = sums_of(table, HASHED, unit="visitor")
    assert found.rows.sum() == len(np.unique(table["visitor"]))
    means = [
        quantities(table)["value"][table["visitor"] == unit].mean()
        for unit in np.unique(table["visitor"])
    ]
    assert found.value[:, 0].sum() == pytest.approx(sum(means), rel=1e-12)
    assert found.value[:, 1].sum() == pytest.approx(sum(m * m for m in means), rel=1e-12)
    # the same visitors, their rows in another order
    order = np.argsort(table["visitor"][::-1], kind="stable")
    other = sums_of({k: v[::-1][order] for k, v in table.items()}, HASHED, unit="visitor")
    assert other.value == pytest.approx(found.value, rel=1e-12, abs=1e-300)


@pytest.mark.parametrize("names", [{"key": "id"}, {"key": "id", "time": "day"}])
def test_with_keys_the_order_of_the_file_does_not_matter(names):
    table = columns()
    first = sums_of(table, HASHED, **names)
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(N)
        other = sums_of({k: v[order] for k, v in table.items()}, HASHED, **names)
        assert other.rows.tolist() == first.rows.tolist()
        for name in quantities(table):
            assert getattr(other, name) == pytest.approx(
                getattr(first, name), rel=1e-12, abs=1e-300
            )


def test_with_times_the_order_of_the_file_does_not_matter():
    table = columns()
    partition = Partition("time", (20, 300))
    first = sums_of(table, partition, time="day")
    order = np.random.default_rng(0).permutation(N)
    other = sums_of({k: v[order] for k, v in table.items()}, partition, time="day")
    assert other.value == pytest.approx(first.value, rel=1e-12, abs=1e-300)


def test_a_block_depends_on_the_number_alone():
    table = columns()
    first = sums_of(table, HASHED)
    changed = dict(table, reward=table["reward"][::-1], pi=table["pi"][::-1])
    assert sums_of(changed, HASHED).rows.tolist() == first.rows.tolist()


def test_every_block_has_rows_from_all_over_the_file():
    """Each 64 consecutive rows are in the 64 blocks, wherever batches begin; places are even."""
    rows = Batch(10, np.zeros(64_000, np.int32), np.ones(64_000), np.ones(64_000))
    blocks = HASHED.of(rows).places
    groups = blocks[54 : 54 + 64 * 999].reshape(999, 64)
    assert (np.sort(groups, axis=1) == np.arange(64)).all()
    # chi-square of place in the group against block, 63^2 degrees of freedom
    table = np.zeros((64, 64))
    for place in range(64):
        table[place] = np.bincount(groups[:, place], minlength=64)
    expected = 999 / 64
    assert ((table - expected) ** 2 / expected).sum() < 63**2 + 5 * math.sqrt(2 * 63**2)


def test_keys_are_spread_evenly():
    """Of 64,000 keys each block has a 64th, within five standard errors."""
    table = {**columns(64_000), "id": np.arange(64_000)}
    counts = sums_of(table, HASHED, key="id").rows
    assert (np.abs(counts - 1000) < 5 * np.sqrt(1000)).all()


@pytest.mark.parametrize("partition", [HASHED, Partition("time", (3, 5))], ids=["hash", "time"])
def test_rows_beyond_float64_add_their_logarithms(partition):
    """w = 1e320 in two rows of eight; rewards 1/4 and 0 there."""
    n, huge = 8, [2, 6]
    log_mu = np.full(n, math.log(0.5))
    log_mu[huge] = -320 * math.log(10)
    reward = np.array([1.0, 0.0, 0.25, 1.0, 0.5, 1.0, 0.0, 1.0])
    reduction = PolicySums(Uniform([0]), IW(), partition=partition)
    with np.errstate(divide="ignore", under="ignore"):
        rows = Batch(0, np.zeros(n, np.int32), reward, np.exp(log_mu), log_propensity=log_mu)
    state = reduction.update(reduction.empty(), rows)
    blocks = partition.of(rows).places
    expected = np.zeros((partition.count, len(BLOCK_BETS)))
    for t in range(n):
        if reward[t] > 0:
            log_y = math.log(reward[t]) - log_mu[t]
            expected[blocks[t]] += np.logaddexp(0.0, np.log(BLOCK_BETS) + log_y)
    assert state.blocks.value[:, 2:] == pytest.approx(expected, rel=1e-12, abs=1e-300)
    assert np.isinf(state.blocks.value[blocks[2], :2]).all()
    assert state.bets.value[:32:2] == pytest.approx(expected.sum(axis=0), rel=1e-12)
    # the row whose reward is 0 adds nothing
    if partition.by == "time":
        assert np.isfinite(state.blocks.value[2]).all()


def test_sampling_weights_stay_with_their_rows():
    """Moments of a thinned log are the same with blocks and without."""
    table = columns()
    table["weight"] = 1.0 + np.arange(N) / N
    log = read(table, policy_columns="pi", actions=[0], weight="weight")
    policy = Column("pi", [0])
    plain = reduce(log, PolicySums(policy, IW())).moments
    blocked = reduce(log, PolicySums(policy, IW(), partition=HASHED)).moments
    assert blocked.w == pytest.approx(plain.w, rel=1e-12)
    assert blocked.w2r2 == pytest.approx(plain.w2r2, rel=1e-12)


LAYOUTS = {
    "spread, from the middle of 64 rows": lambda rng, n: np.concatenate(
        [rng.permutation(64)[:37], *[rng.permutation(64) for _ in range(n // 64 + 1)]]
    )[:n],
    "drawn": lambda rng, n: rng.integers(0, 64, n),
    "three in turn": lambda rng, n: np.arange(n) % 3,
    "in runs": lambda rng, n: np.sort(rng.integers(0, 5, n)),
    "runs that come again": lambda rng, n: np.arange(n) // 300 % 4,
    "in one": lambda rng, n: np.full(n, 63),
    "a plan, and rows beyond it": lambda rng, n: np.arange(n) * 65 // max(n, 1),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("n", [0, 1, 63, 300, 3000])
def test_sums_by_block_are_those_of_the_formula(layout, n):
    """Dense rows, rare ones, tiny, large and huge ones, in blocks that lie in different ways."""
    rng = np.random.default_rng(n)
    y = rng.exponential(size=n)
    third = n // 3
    y[third : 2 * third][rng.random(third) < 0.9] = 0.0
    y[2 * third :] *= np.exp(rng.normal(0, 8, n - 2 * third))
    if n > 300:
        y[[70, 1500, 2900]] = 1e13, 3e150, 1e-300
        y[1000:1600][:256] = 0.0
    places = LAYOUTS[layout](rng, n).astype(np.uint8)
    # a plan has a block for the rows beyond it, too
    count = max(64, int(places.max(initial=0)) + 1)
    found = BetSums.of(y, RowBlocks(places, count))
    expected = np.zeros((count, 2 + len(BLOCK_BETS)))
    with np.errstate(over="ignore"):
        terms = np.column_stack([y, y * y, np.log1p(np.outer(y, BLOCK_BETS))])
    np.add.at(expected, places, terms)
    assert found.blocks == pytest.approx(expected, rel=1e-11, abs=1e-300)
    assert found.bets == pytest.approx(np.log1p(np.outer(y, BETS)).sum(axis=0), rel=1e-12)
    rows = RowBlocks(places, count)
    assert rows.rows.tolist() == np.bincount(places, minlength=count).tolist()
    some = y > 1.0
    assert rows.rows_of(some).tolist() == np.bincount(places[some], minlength=count).tolist()
