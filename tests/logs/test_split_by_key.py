"""Splits by a key: the same rows are held out wherever and in whatever order they are read."""

import warnings
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import piwo
from piwo.bounds import lcb_mean
from piwo.errors import DataError, UsageError
from piwo.logs import Log, read
from piwo.logs.hashing import key_numbers
from piwo.sources import source as sources_module


def table(n: int = 3000, key: Any = None) -> pa.Table:
    rng = np.random.default_rng(0)
    columns = {
        "action": rng.integers(0, 3, n),
        "reward": rng.random(n),
        "propensity": np.full(n, 1 / 3),
    }
    return pa.table({**columns, "event": [f"event-{i}" for i in range(n)] if key is None else key})


def rewards(log: Log) -> list[float]:
    return sorted(float(x) for batch in log.each_batch() for x in batch.reward)


def test_the_same_rows_are_held_out_in_any_order_and_any_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = table()
    parts = read(rows, key="event").split(0.3, seed=5)
    held = rewards(parts.test)
    assert sorted(held + rewards(parts.train)) == sorted(rows["reward"].to_pylist())
    assert abs(len(held) - 900) < 4 * np.sqrt(3000 * 0.3 * 0.7)
    assert (len(parts.train), len(parts.test)) == (parts.train_rows, parts.test_rows)
    monkeypatch.setattr(sources_module, "BATCH_ROWS", 97)
    mixed = rows.take(np.random.default_rng(1).permutation(3000))
    assert rewards(read(mixed, key="event").split(0.3, seed=5).test) == held
    coded = mixed.set_column(3, "event", mixed["event"].dictionary_encode())
    assert rewards(read(coded, key="event").split(0.3, seed=5).test) == held
    assert rewards(read(rows, key="event").split(0.3, seed=6).test) != held
    # without the key it is the row numbers that count
    assert rewards(read(mixed).split(0.3, seed=5).test) != rewards(
        read(rows).split(0.3, seed=5).test
    )


def test_whole_numbers_are_keys_of_any_width() -> None:
    held = [
        rewards(read(table(key=pa.array(range(3000), kind)), key="event").split(0.5).test)
        for kind in (pa.int16(), pa.int64(), pa.uint64())
    ]
    assert held[0] == held[1] == held[2]
    assert len(set(key_numbers(pa.array(range(100_000)), "k").tolist())) == 100_000
    assert (
        len(set(key_numbers(pa.array([f"{i}" for i in range(100_000)]), "k").tolist())) == 100_000
    )


def test_texts_are_the_halves_of_two_hashes() -> None:
    """By hand, from scikit-learn's MurmurHash3."""
    from sklearn.utils import murmurhash3_32

    low, top = (
        int(murmurhash3_32(half + "event-7", 0, positive=True)) for half in ("low:", "top:")
    )
    x = (low + (top << 32) + 0x9E3779B97F4A7C15) % 2**64
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB % 2**64
    assert key_numbers(pa.array(["event-7"]), "event").tolist() == [(x ^ (x >> 31)) >> 1]


def test_a_tail_goes_by_row_numbers() -> None:
    parts = read(table(), key="event").split(0.25, tail=True)
    assert [int(x) for batch in parts.test.each_batch() for x in batch.row_numbers] == list(
        range(2250, 3000)
    )


@pytest.mark.parametrize(
    ("key", "kind", "words"),
    [
        ([i // 40 for i in range(3000)], UsageError, "has about 40 rows a value"),
        ([None, *range(2999)], DataError, "key column 'event' is missing in some rows"),
        (np.arange(3000) / 2, DataError, "has type double, expected whole numbers or text"),
    ],
)
def test_keys_that_are_none_are_refused(key: Any, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        read(table(key=pa.array(key)), key="event").split(0.5)


def test_a_few_events_that_came_twice_are_no_matter() -> None:
    key = list(range(3000))
    key[1] = key[0]
    assert read(table(key=key), key="event").split(0.5).train_rows > 0


def test_a_key_says_nothing_of_what_was_decided() -> None:
    with pytest.raises(UsageError, match="key column 'action' has another role too"):
        read(table(), key="action")
    with pytest.raises(DataError, match="no column 'evnt' for the key; did you mean 'event'"):
        read(table(), key="evnt")


@pytest.mark.statistics
def test_certificates_on_rows_held_out_by_key_hold() -> None:
    """Equal rows, which a hash of their content would hold out together; the truth is known."""
    missed, runs, delta = 0, 300, 0.1
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        action = rng.integers(0, 2, 120)
        rows = {
            "action": action,
            "reward": rng.random(120) < 0.3,
            "propensity": np.full(120, 0.5),
            "n": np.arange(120),
        }
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            parts = read({**rows, "reward": rows["reward"] * 1.0}, key="n", actions=[0, 1]).split(
                0.5, seed=1
            )
        (batch,) = parts.test.each_batch()
        (seen,) = parts.train.each_batch()
        best = int(seen.reward[seen.action == 1].sum() > seen.reward[seen.action == 0].sum())
        missed += lcb_mean(2.0 * batch.reward * (batch.action == best), delta) > 0.3
    assert missed <= delta * runs + 3 * np.sqrt(runs * delta * (1 - delta))


def test_learners_say_by_what_was_split() -> None:
    learner = piwo.PIWO(score=piwo.IX(0.1), oracle=piwo.oracles.Exhaustive(
        [piwo.policies.Constant(a, [0, 1, 2]) for a in range(3)]
    ), certificate="held-out").fit(read(table(), key="event"))  # fmt: skip
    assert learner.certificate_.split["key"] == "event"
