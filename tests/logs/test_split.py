"""Splits: which rows are held out depends on seed and row number alone, and certificates on them
hold."""

import os
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from piwo.bounds import lcb_mean
from piwo.errors import DataError, PiwoWarning, UsageError
from piwo.logs import Log, read
from piwo.logs.hashing import scramble, uniform
from piwo.reductions import ActionTable, reduce
from piwo.sources import source as sources_module


def rows_of(log: Log) -> list[int]:
    return [int(x) for batch in log.each_batch() for x in batch.row_numbers]


def table(n: int, actions: int = 2) -> pa.Table:
    return pa.table(
        {
            "action": np.arange(n) % actions,
            "reward": np.arange(n) / n,
            "propensity": np.full(n, 0.5),
        }
    )


def test_the_parts_are_all_rows_once_and_do_not_depend_on_how_the_log_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = table(3000)
    parts = read(whole).split(0.3, seed=5)
    train, test = rows_of(parts.train), rows_of(parts.test)
    assert sorted(train + test) == list(range(3000))
    assert (
        (len(train), len(test))
        == (parts.train_rows, parts.test_rows)
        == (len(parts.train), len(parts.test))
    )
    assert abs(len(test) - 900) < 4 * np.sqrt(3000 * 0.3 * 0.7)
    monkeypatch.setattr(sources_module, "BATCH_ROWS", 97)
    for half in range(2):
        pq.write_table(
            whole.slice(1500 * half, 1500), tmp_path / f"{half}.parquet", row_group_size=130
        )
    for source in (whole, str(tmp_path / "*.parquet"), f"select * from '{tmp_path}/*.parquet'"):
        assert rows_of(read(source).split(0.3, seed=5).test) == test
    assert rows_of(read(whole).split(0.3, seed=6).test) != test
    # rows that come later change nothing for those that are there
    assert rows_of(read(table(4000)).split(0.3, seed=5).test)[: len(test)] == test
    assert reduce(parts.test, ActionTable(2)).count.sum() == len(test)


def test_the_held_out_rows_do_not_depend_on_the_actions() -> None:
    rare = table(3000).set_column(0, "action", pa.array(["rare"] + ["often"] * 2999))
    with pytest.warns(PiwoWarning, match="1 action has"):
        parts = read(rare).split(0.3, seed=5)
    assert rows_of(parts.test) == rows_of(read(table(3000)).split(0.3, seed=5).test)


def test_actions_that_one_part_lacks_are_named() -> None:
    actions = pa.array(["once"] + ["often"] * 999)
    log = read(table(1000).set_column(0, "action", actions), actions=["never", "often", "once"])
    with pytest.warns(PiwoWarning) as caught:
        parts = log.split(seed=1)
    (note,) = parts.notes
    assert [str(x.message) for x in caught] == [note]
    assert "1 action has" in note
    assert "'once' (1)" in note
    assert "never" not in note
    side = parts.test if "held-out rows only" in note else parts.train
    assert 0 in rows_of(side)


def test_the_tail_is_held_out_for_adaptive_logs() -> None:
    parts = read(table(10)).split(0.35, tail=True)
    assert rows_of(parts.train) == [0, 1, 2, 3, 4, 5, 6]
    assert rows_of(parts.test) == [7, 8, 9]


def test_a_query_is_read_once_because_its_order_may_change() -> None:
    random, connection = np.random.default_rng(0), duckdb.connect()
    # a query may call what DuckDB does not know to be random
    connection.create_function("drawn", lambda _: int(random.integers(10**6)), ["BIGINT"], "BIGINT")  # type: ignore[list-item, arg-type]
    sql = "select drawn(x) as action, 0 as reward, 1 as propensity from range(1000) t(x)"
    log = Log.from_sql(sql, connection=connection)
    assert replace(log).actions != replace(log).actions
    with pytest.warns(PiwoWarning):
        parts = log.split()
    twice = [
        [parts.train.actions.take(b.action).tolist() for b in parts.train.each_batch()]
        for _ in range(2)
    ]
    assert twice[0] == twice[1]
    assert not log.source.steady


@pytest.mark.parametrize("holdout", [0, 1, -0.5, 1.5, float("nan")])
def test_a_wrong_fraction_is_refused(holdout: float) -> None:
    with pytest.raises(UsageError, match="above 0 and below 1"):
        read(table(10)).split(holdout)


def test_a_split_needs_rows_on_both_sides() -> None:
    with pytest.raises(DataError, match="expected at least 1 on each side"):
        read(table(1)).split()
    with pytest.raises(DataError, match="expected at least 600 on each side"):
        read(table(1000)).split(min_rows=600)
    with pytest.raises(UsageError, match="already part of a split"):
        read(table(100)).split().train.split()


def test_refusals_in_a_part_count_rows_of_the_whole_log() -> None:
    bad = table(100).set_column(2, "propensity", pa.array([0.0] * 5 + [0.5] * 95))
    with pytest.raises(DataError, match=r"in 5 rows \(row numbers from 0: 0, 1, 2, 3, 4\)"):
        list(read(bad).split().train.each_batch())


def test_scramble_is_splitmix64() -> None:
    # first numbers of SplitMix64 started at 0: its state moves by the golden gamma
    state = (np.arange(3, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)).astype(np.uint64)
    assert [hex(x) for x in scramble(state).tolist()] == [
        "0xe220a8397b1dcdaf",
        "0x6e789e6aa1b965f4",
        "0x6c45d188009454f",
    ]


@given(seed=st.integers(-(2**70), 2**70), start=st.integers(0, 2**40))
def test_uniform_depends_on_seed_and_row_alone(seed: int, start: int) -> None:
    rows = np.arange(start, start + 64)
    whole = uniform(seed, rows)
    assert ((whole >= 0) & (whole < 1)).all()
    assert np.array_equal(np.concatenate([uniform(seed, rows[:7]), uniform(seed, rows[7:])]), whole)


def test_uniform_is_uniform_and_seeds_are_unrelated() -> None:
    n = 100_000
    for seed in (0, 1, 2**63, -1):
        u = uniform(seed, np.arange(n))
        counts = np.histogram(u, 100, (0, 1))[0]
        # chi-squared with 99 degrees of freedom: mean 99, standard deviation 14
        assert abs(((counts - n / 100) ** 2).sum() / (n / 100) - 99) < 5 * 14.1
        assert abs(np.corrcoef(u[1:], u[:-1])[0, 1]) < 5 / np.sqrt(n)
        assert abs(np.corrcoef(u, uniform(seed + 1, np.arange(n)))[0, 1]) < 5 / np.sqrt(n)


def test_the_hash_seed_of_python_changes_nothing() -> None:
    code = (
        "from piwo.logs import Log;log = Log.from_arrays(action=list('abcab') * 9, reward=[0] * "
        "45, propensity=[1] * 45);print([int(x) for b in log.split().test.each_batch() for x in "
        "b.row_numbers], log.actions.labels)"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "12345")
    }
    assert len(seen) == 1


# --- why it is not stratified


def by_action(random: np.random.Generator, action: np.ndarray, fraction: float) -> np.ndarray:
    """Hold out floor or ceiling of `fraction` of the rows of each action, chosen at random."""
    _, code, count = np.unique(action, return_inverse=True, return_counts=True)
    order = np.lexsort((random.random(len(action)), code))
    rank = np.empty(len(action), int)
    rank[order] = np.arange(len(action)) - np.repeat(np.cumsum(count) - count, count)
    quota = np.floor(fraction * count) + (random.random(len(count)) < (fraction * count) % 1)
    return rank < quota[code]


def certified(random: np.random.Generator, stratified: bool) -> float:
    """Lower bound on the value of "play evenly what was seen in training", which is 1, as every
    reward is."""
    actions, n = 10_000, 2_000
    action = random.integers(0, actions, n)
    held = (
        by_action(random, action, 0.5)
        if stratified
        else uniform(int(random.integers(2**62)), np.arange(n)) < 0.5
    )
    learned = np.unique(action[~held])
    weight = np.isin(action[held], learned) * (actions / len(learned))
    return float(lcb_mean(weight, 0.05))


def test_certificates_hold_on_a_split_by_row_number_and_fail_on_one_by_action() -> None:
    random = np.random.default_rng(0)
    assert np.mean([certified(random, stratified=False) > 1 for _ in range(100)]) <= 0.05
    # with one row of an action in training, its twin is in the holdout: the policy knows what will
    # come
    assert np.mean([certified(random, stratified=True) > 1 for _ in range(20)]) >= 0.9


def test_certificates_of_a_learned_policy_hold_on_a_bandit_with_rare_actions() -> None:
    random = np.random.default_rng(1)
    mu = np.concatenate([[0.97], np.full(30, 0.001)])
    truth = np.concatenate([[0.1], np.full(30, 0.2)])
    failures, repetitions, n = 0, 300, 600
    for seed in range(repetitions):
        action = random.choice(31, n, p=mu)
        reward = (random.random(n) < truth[action]).astype(float)
        held = uniform(seed, np.arange(n)) < 0.5
        value = np.bincount(action[~held], (reward / mu[action])[~held], minlength=31)
        best = int(value.argmax())
        y = (action == best) * reward / mu[action]
        failures += lcb_mean(y[held], 0.05) > truth[best]
    assert failures <= 0.05 * repetitions


def test_no_warning_without_a_reason() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read(table(1000)).split().notes == ()
