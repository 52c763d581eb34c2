"""A sample of rows knows the rows of a log again, and how often others are taken for them."""

import struct

import numpy as np

from piwo import Log
from piwo.reductions import reduce
from piwo.reductions.row_sample import SAMPLED, RowSample, RowSampleState, context_hashes

LABELS = ["a", "b", "c"]


def sample(log: Log, *, context: bool = True) -> RowSampleState:
    return reduce(log, RowSample(tuple(log.actions), with_context=context, with_propensity=False))


def drawn(n: int, seed: int, values: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2)) if values is None else rng.integers(0, values, (n, 2)).astype(float)
    return x, rng.choice(LABELS, n)


def log_of(x: np.ndarray, a: np.ndarray, labels: list[str] = LABELS, reward: float = 0.0) -> Log:
    return Log.from_arrays(
        context=x,
        action=a,
        reward=np.full(len(a), reward),
        propensity=np.full(len(a), 1 / 3),
        actions=labels,
    )


def test_by_hand() -> None:
    x = np.array([[1.0], [1.0], [2.0], [2.0], [3.0]])
    made = sample(log_of(x, np.array(["a", "a", "a", "b", "b"])))
    assert sorted(made.counts) == [1, 1, 1, 2]
    assert (made.rows, made.repeated) == (5, 1 - 3 / 5)
    # what is looked for goes by labels, not by codes; rewards do not count
    again = sample(
        log_of(x[::-1], np.array(["b", "b", "a", "a", "a"]), ["b", "c", "a"], reward=1.0)
    )
    assert again.hashes.tolist() == made.hashes.tolist()
    assert again.within(made) == (5, 5)
    assert sample(log_of(x, np.array(["b", "b", "b", "a", "a"]))).within(made) == (5, 2)
    assert sample(log_of(-0.0 * x, np.array(["a"] * 5))).within(
        sample(log_of(0.0 * x, np.array(["a"] * 5)))
    ) == (5, 5)
    assert RowSampleState().within(made) == made.within(RowSampleState()) == (0, 0)


def test_a_share_is_found_in_the_sample_as_it_is_in_the_log() -> None:
    x, a = drawn(20_000, 0)
    whole = sample(log_of(x, a))
    assert len(whole.hashes) == SAMPLED
    y, b = drawn(20_000, 1)
    looked, found = sample(
        log_of(np.concatenate([x[:5000], y[:15_000]]), np.concatenate([a[:5000], b[:15_000]]))
    ).within(whole)
    assert abs(found / looked - 0.25) < 4 * np.sqrt(0.25 * 0.75 / looked)
    looked, found = sample(log_of(y, b)).within(whole)
    assert looked > 0.8 * SAMPLED
    assert found == 0
    looked, found = sample(log_of(x[:1000], a[:1000])).within(whole)  # few of many
    assert found == looked > 50


def test_how_often_others_are_taken_for_them_is_told_beforehand() -> None:
    """Good's estimate, on rows of which many are the same: contexts of 60 x 60 values."""
    told, seen = [], []
    for seed in range(8):
        first, second = (sample(log_of(*drawn(6000, 2 * seed + i, 60))) for i in (0, 1))
        looked, found = second.within(first)
        told.append(first.repeated)
        seen.append(found / looked)
    assert 0.3 < np.mean(told) < 0.6
    assert abs(np.mean(told) - np.mean(seen)) < 0.04


def test_the_hash_of_a_context_is_splitmix64_of_its_numbers_by_column() -> None:
    x = np.array([[1.0, -0.0, 3.5], [np.nan, 1e300, -7.0], [0.0, 0.0, 0.0]])

    def mixed(number: int) -> int:
        whole = 2**64 - 1
        number = (number + 0x9E3779B97F4A7C15) & whole
        number = (number ^ number >> 30) * 0xBF58476D1CE4E5B9 & whole
        number = (number ^ number >> 27) * 0x94D049BB133111EB & whole
        return number ^ number >> 31

    expected = []
    for row in x:
        total = 0
        for place, number in enumerate(row):
            (bits,) = struct.unpack("<Q", struct.pack("<d", number + 0.0))
            total += mixed(bits) * (mixed(place) | 1)
        expected.append(total % 2**64)
    assert context_hashes(x).tolist() == expected
    assert context_hashes(np.asfortranarray(x)).tolist() == expected
    assert context_hashes(np.hstack([x, x])[:, :3]).tolist() == expected
    assert context_hashes(x[:, :0]).tolist() == [0, 0, 0]
