"""Frames with types that are not numbers or text: S06."""

import gc
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import piwo
from piwo.policies import Uniform

N = 40
PRICE = np.random.default_rng(0).random(N) * 30
BASE: dict[str, Any] = {"action": ["a", "b"] * 20, "reward": [1, 0] * 20, "propensity": [0.5] * N}
DAYS = pd.Categorical(pd.to_datetime(["2026-01-01", "2026-01-02"] * 20))


@pytest.mark.parametrize(
    ("values", "level"),
    [
        (pd.cut(PRICE, [0, 10, 20, 30]), "(0, 10]"),
        (pd.qcut(PRICE, 2, labels=["low", "high"]), "high"),
        (pd.arrays.IntervalArray.from_breaks(np.arange(N + 1)), "(0, 1]"),
        (DAYS, "2026-01-01 00:00:00"),
    ],
)
def test_categories_of_intervals_and_times_are_their_text(values: Any, level: str) -> None:
    as_context = piwo.read(pd.DataFrame({**BASE, "x": values}), context="x")
    assert as_context.features is not None
    assert level in as_context.features.items[0].levels
    as_action = piwo.read(pd.DataFrame({**BASE, "action": values}))
    assert level in as_action.actions.labels
    assert piwo.evaluate(as_action, Uniform(as_action.actions)).value is not None


def test_missing_intervals_stay_missing() -> None:
    cut = pd.cut(np.where(PRICE < 5, np.nan, PRICE), [0, 10, 30])
    log = piwo.read(pd.DataFrame({**BASE, "action": cut}))
    with pytest.raises(piwo.DataError, match="is missing"):
        piwo.evaluate(log, Uniform(log.actions))


def test_categories_in_arrow_that_are_no_labels_are_named() -> None:
    days = pa.array(DAYS.astype("datetime64[us]")).dictionary_encode()
    table = pa.table({**BASE, "action": days})
    with pytest.raises(piwo.DataError, match="column 'action' has"):
        piwo.read(table).actions  # noqa: B018


def test_sparse_columns_and_matrices_are_read() -> None:
    sparse = pytest.importorskip("scipy.sparse")
    dense = np.eye(N)[:, :3]
    frame = pd.DataFrame({**BASE, "x": pd.arrays.SparseArray(dense[:, 0])})
    (batch,) = piwo.read(frame, context="x").each_batch(context=True)
    assert (batch.context[:, 0] == dense[:, 0]).all()
    (batch,) = piwo.Log.from_arrays(**BASE, context=sparse.csr_matrix(dense)).each_batch(
        context=True
    )
    assert (batch.context == dense).all()
    with pytest.raises(piwo.UsageError, match="a sparse matrix of 40 x 10000000"):
        piwo.Log.from_arrays(**BASE, context=sparse.csr_matrix((N, 10_000_000)))


def test_a_column_of_several_types_matters_only_if_it_is_used() -> None:
    frame = pd.DataFrame({**BASE, "x": [1, "a"] * 20})
    assert piwo.evaluate(piwo.read(frame), Uniform(["a", "b"])).value == 0.5
    with pytest.raises(piwo.UsageError, match="'x' has values of several types"):
        piwo.read(frame, context="x").features  # noqa: B018


def test_a_dataset_is_read_file_by_file(tmp_path: Path) -> None:
    for day in (1, 2):
        (tmp_path / f"day={day}").mkdir()
        table = pa.table({**BASE, "x": PRICE + day})
        pq.write_table(table, tmp_path / f"day={day}" / "rows.parquet", row_group_size=7)
    log = piwo.read(ds.dataset(tmp_path, partitioning="hive"), context=["x", "day"])
    assert len(log) == 2 * N
    found = piwo.evaluate(log, Uniform(["a", "b"]))
    assert (found.rows, found.value) == (2 * N, 0.5)
    numbers = np.concatenate([b.row_numbers for b in log.each_batch(context=True)])
    assert numbers.tolist() == list(range(2 * N))
    kept = piwo.read(ds.dataset(tmp_path, partitioning="hive").filter(ds.field("day") == 2))
    assert len(kept) == N
    parts = log.split(0.5, seed=1)
    assert parts.train_rows + parts.test_rows == 2 * N


def test_an_arrow_dataset_in_memory() -> None:
    log = piwo.read(ds.dataset(pa.table({**BASE, "x": PRICE})), context="x")
    assert (len(log), piwo.evaluate(log, Uniform(["a", "b"])).value) == (N, 0.5)


def test_messages_about_things_that_are_no_frames() -> None:
    with pytest.raises(piwo.DataError, match=r"no column 'action' .*; there are no columns"):
        piwo.read({})
    with pytest.raises(piwo.UsageError, match="action is of type int, expected an array"):
        piwo.Log.from_arrays(action=1, reward=[1], propensity=[1.0])


def test_a_lazy_frame_is_run_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    polars = pytest.importorskip("polars")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    ran = []
    frame = polars.DataFrame(
        {
            "action": ["a", "b"] * N,
            "reward": np.linspace(0, 1, 2 * N),
            "propensity": [0.5] * 2 * N,
            "shop": polars.Series(["x", "y", "y", "x"] * (N // 2), dtype=polars.Categorical),
            "unused": [1] * 2 * N,
            "id": [2**62 + i for i in range(2 * N)],
        }
    )

    def counted(part: Any) -> Any:
        ran.append(len(part))
        return part

    lazy = frame.lazy().map_batches(counted, streamable=False)
    options: Any = {"context": "shop"}
    for where in (None, f"id <> {2**62 + 3}"):
        ran.clear()
        log = piwo.read(lazy, where=where, **options)
        expected = piwo.read(frame.drop("unused"), where=where, **options)
        policy = piwo.policies.Uniform(log.actions)
        assert piwo.evaluate(log, policy).to_dict() == piwo.evaluate(expected, policy).to_dict()
        assert log.features == expected.features
        assert "unused" not in log.source.schema.names
        assert len(log.split(0.5).test) > N // 3
        assert ran == [2 * N]
    del log
    gc.collect()
    assert not list(tmp_path.iterdir())
    with pytest.raises(piwo.DataError, match="no column 'propensity'"):
        piwo.read(lazy.drop("propensity"))
    with pytest.raises(piwo.DataError, match=r"polars could not run the lazy frame .*collect\(\)"):
        piwo.read(frame.lazy().with_columns(reward=polars.col("action").cast(polars.Float64)))


def test_items_may_be_a_lazy_frame(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    polars = pytest.importorskip("polars")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    items = polars.DataFrame({"warmth": [1.0, 0.5], "action": ["b", "a"]})
    log = piwo.Log.from_arrays(**BASE, context=PRICE[:, None], items=items.lazy())
    assert log.actions.labels == ("b", "a")
    assert log.actions.items is not None
    assert log.actions.items.table["warmth"].to_pylist() == [1.0, 0.5]
    table = polars.DataFrame(BASE | {"price": PRICE})
    log = piwo.read(table.lazy(), context="price", items=items.lazy())
    policy = piwo.PIWO(oracle=piwo.oracles.JointRidge()).fit(log).policy_
    new = polars.DataFrame({"action": ["c", "d"], "warmth": [0.1, 2.0]})
    found = policy.act(PRICE[:5, None], items=new.lazy(), random_state=0)
    expected = policy.act(PRICE[:5, None], items=new, random_state=0)
    assert found.actions.tolist() == expected.actions.tolist()
    with pytest.raises(piwo.DataError, match="no column 'action' for the label of items"):
        piwo.read(table, context="price", items=items.lazy().drop("action"))
    del log, policy, found, expected
    gc.collect()
    assert not list(tmp_path.iterdir())


def test_lazy_frames_are_joined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    polars = pytest.importorskip("polars")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    shown = polars.DataFrame({"id": [1, 2], "time": [0, 5]})
    clicks = polars.DataFrame({"id": [1], "time": [9], "reward": [0.5]})
    found = piwo.join(shown.lazy(), clicks.lazy(), on="id", window=9, until=20)
    assert found.rows["reward"].to_pylist() == [0.5, 0.0]
    assert found.to_dict() == piwo.join(shown, clicks, on="id", window=9, until=20).to_dict()
    gc.collect()
    assert not list(tmp_path.iterdir())


def test_what_polars_says_of_a_lazy_frame_is_one_line(tmp_path: Path) -> None:
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"action": ["a"] * 9, "reward": [1] * 9, "propensity": [0.5] * 9})

    def fails(value: int) -> float:
        raise ZeroDivisionError(f"no {value}\nand more")

    broken = polars.col("reward").map_elements(fails, return_dtype=polars.Float64)
    wrong = {
        "unable to find column": frame.lazy().select("action", "nope"),
        r"\(no 1\)": frame.lazy().with_columns(reward=broken),
    }
    for words, lazy in wrong.items():
        with pytest.raises(piwo.DataError, match=words) as refused:
            piwo.read(lazy)
        assert "\n" not in str(refused.value)
        assert "FAILED HERE" not in str(refused.value)
    with pytest.raises(piwo.FileError, match=r"nowhere.parquet.*check the path"):
        piwo.read(polars.scan_parquet(tmp_path / "nowhere.parquet"))


@pytest.mark.parametrize(
    ("values", "level"),
    [
        (pd.cut(PRICE, [0, 10, 30]), "(0, 10]"),
        (pd.arrays.IntervalArray.from_breaks(range(N + 1)), "(0, 1]"),
        (pd.period_range("2026-01", periods=N, freq="M"), "2026-02"),
        (pd.Categorical(pd.period_range("2026-01", periods=N, freq="M")), "2026-02"),
        (pd.Categorical([(1, 2), (3, 4)] * (N // 2)), "(1, 2)"),
        (pd.arrays.SparseArray([0, 7] * (N // 2)), 7),
    ],
)
def test_columns_of_mappings_and_frames_have_the_same_labels(values: Any, level: Any) -> None:
    of_frame = piwo.read(pd.DataFrame({**BASE, "action": values})).actions.labels
    assert level in of_frame
    assert piwo.read({**BASE, "action": values}).actions.labels == of_frame
    assert piwo.Log.from_arrays(**{**BASE, "action": values}).actions.labels == of_frame


def test_frames_without_rows_and_columns_of_several_types_are_named_as_that() -> None:
    pd = pytest.importorskip("pandas")
    empty = pd.DataFrame({"action": [], "reward": [], "propensity": []})
    uniform = piwo.policies.Uniform(["a", "b"])
    with pytest.raises(piwo.DataError, match="no rows in the data frame, expected at least one"):
        piwo.evaluate(piwo.read(empty), uniform)
    good = {"action": ["a", "b", "a"], "reward": [1, 0, 1], "propensity": [0.5] * 3}
    for name, values in (("action", ["a", 1, "b"]), ("reward", [1, "x", 0])):
        frame = pd.DataFrame({**good, name: values})
        with pytest.raises(piwo.DataError, match=f"'{name}' has values of several types, exp"):
            piwo.evaluate(piwo.read(frame), uniform)
