"""Rows with thousands of numbers: batches are cut by their bytes too, and nothing depends on
where."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import piwo
from piwo.logs import Feature, Features, read
from piwo.sources import source as sources_module
from piwo.sources.parquet import ParquetSource
from piwo.sources.source import cut

N, K = 300, 40


def vectors() -> np.ndarray:
    mu = np.random.default_rng(0).random((N, K)) + 0.1
    return mu / mu.sum(axis=1, keepdims=True)


def rows(kind: pa.DataType) -> pa.Table:
    rng = np.random.default_rng(1)
    drawn = [rng.choice(K, p=mu) for mu in vectors()]
    return pa.table({
        "action": drawn, "reward": rng.random(N), "a.b": pa.array(list(vectors()), kind),
        "x": rng.normal(size=N), "user": [f"u{i}" for i in range(N)],
    })  # fmt: skip


LISTS = {
    "list": pa.list_(pa.float64()),
    "large": pa.large_list(pa.float64()),
    "fixed": pa.list_(pa.float64(), K),
}
SOURCES: dict[str, Callable[[pa.Table, Path], Any]] = {
    "table": lambda table, _: table,
    "parquet": lambda table, path: _written(table, path, 7),
    "one row group": lambda table, path: _written(table, path, N),
    "query": lambda table, path: f"select * from '{_written(table, path, 50)}'",
}


def _written(table: pa.Table, path: Path, size: int) -> str:
    pq.write_table(table, path / "log.parquet", row_group_size=size)
    return str(path / "log.parquet")


@pytest.mark.parametrize("rows_at_once", [1, 10, 10**6])
def test_rows_are_cut_once_each(rows_at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources_module, "BATCH_BYTES", 8 * K * rows_at_once)
    for kind in LISTS.values():
        (record,) = rows(kind).select(["x", "a.b"]).to_batches()
        parts = list(cut(record.slice(5)))
        assert pa.Table.from_batches(parts).equals(pa.Table.from_batches([record.slice(5)]))
        assert max(len(x) for x in parts) == min(rows_at_once, N - 5)
    assert [len(x) for x in cut(pa.record_batch({"v": pa.array([], LISTS["list"])}))] == [0]
    assert [len(x) for x in cut(pa.record_batch({"v": pa.array([None, []], LISTS["list"])}))] == [2]


@pytest.mark.parametrize("where", SOURCES)
@pytest.mark.parametrize("kind", LISTS)
def test_wide_rows_say_the_same_in_small_batches(
    where: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = read(
        SOURCES[where](rows(LISTS[kind]), tmp_path),
        propensities="a.b",
        context=["x"],
        actions=range(K),
    )
    policy = piwo.policies.EpsilonGreedy(piwo.policies.Constant(3, log.actions), 0.5)
    whole = piwo.evaluate(log, policy).to_dict()
    monkeypatch.setattr(sources_module, "BATCH_BYTES", 8 * K * 10)
    batches = list(log.each_batch(context=True, propensities=True))
    assert max(len(x) for x in batches) <= 10
    assert [int(x) for batch in batches for x in batch.row_numbers] == list(range(N))
    again = piwo.evaluate(log, policy).to_dict()
    for name in ("value", "lower", "upper", "improvement_lower", "ess", "max_weight"):
        assert again[name] == pytest.approx(whole[name], rel=1e-12, abs=1e-12), name


def test_parquet_decodes_few_wide_rows_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources_module, "BATCH_BYTES", 8 * K * 10)
    for kind in LISTS.values():
        source = ParquetSource([_written(rows(kind), tmp_path, N)])
        for columns, most in ((["x", "a.b"], 10), (["x", "user"], N)):
            assert max(len(x) for part in source.fragments(columns) for x in part.records()) == most


def test_a_wide_context_and_a_behavior_policy_count_too(monkeypatch: pytest.MonkeyPatch) -> None:
    features = Features((Feature("user", "hashed", size=256),))
    table = rows(LISTS["list"])
    monkeypatch.setattr(sources_module, "BATCH_BYTES", 8 * 256 * 20)
    log = read(table, propensities="a.b", actions=range(K), context=["user"]).encoded_by(features)
    assert max(len(x) for x in log.each_batch(context=True)) == 17  # 256 + 40 numbers a row
    plain = read(
        {"action": [0] * N, "reward": [0.0] * N, "x": np.zeros(N)},
        behavior=piwo.policies.Uniform(range(216)),
        actions=range(216),
        context=["x"],
    )
    monkeypatch.setattr(sources_module, "BATCH_BYTES", 8 * 217 * 20)
    assert max(len(x) for x in plain.each_batch(context=True)) == 20


def test_a_split_of_wide_rows_keeps_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    table = rows(LISTS["fixed"]).drop_columns("action").append_column("action", [np.arange(N) % 4])
    log = read(table, propensities="a.b", actions=range(K))
    parts = log.split(0.5, seed=3)
    before = [
        [int(i) for x in part.each_batch() for i in x.row_numbers]
        for part in (parts.train, parts.test)
    ]
    monkeypatch.setattr(sources_module, "BATCH_BYTES", 8 * K * 7)
    after = [
        [int(i) for x in part.each_batch(propensities=True) for i in x.row_numbers]
        for part in (parts.train, parts.test)
    ]
    assert after == before


MEASURED = """
import resource, sys
import piwo
def megabytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
few = piwo.Log.from_arrays(
    action=[0, 1], reward=[0, 1], propensities=[[0.5, 0.5]] * 2, actions=[0, 1]
)
# imports and compiled code are not counted below
piwo.evaluate(few, piwo.policies.Uniform(few.actions))
before = megabytes()
log = piwo.read(sys.argv[1], propensities="mu", actions=range(20_000))
found = piwo.evaluate(log, piwo.policies.Uniform(log.actions))
print(found.interval, found.value, megabytes() - before)
"""


def test_d23_vectors_of_20000_actions_are_never_all_there(tmp_path: Path) -> None:
    """2,500 rows in one row group are 400 MB as numbers."""
    n, actions = 2500, 20_000
    kind = pa.list_(pa.float64(), actions)
    one = pa.FixedSizeListArray.from_arrays(pa.array(np.full(100 * actions, 1 / actions)), actions)
    table = pa.table({
        "action": np.arange(n) * 7 % actions, "reward": np.arange(n) % 2 * 1.0,
        "mu": pa.chunked_array([one] * (n // 100), kind),
    })  # fmt: skip
    pq.write_table(table, tmp_path / "log.parquet", row_group_size=n)
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, tmp_path / "log.parquet"], capture_output=True, check=True
    )
    method, value, extra = done.stdout.decode().split()
    assert (method, float(value)) == ("deadline-cv", 0.5)
    assert float(extra) < 350
