"""What is found out about context columns in the first pass: levels up to a limit, and where
values are missing."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import piwo
from piwo.errors import DataError, PiwoWarning, UsageError
from piwo.logs import Feature, Log, read
from piwo.logs.encoding import _Facts
from piwo.sources import source as sources_module
from piwo.sources.table import TableSource


def log_of(count: int, options: dict[str, Any] | None = None, **context: Any) -> Log:
    rows = {
        "action": ["a", "b"] * (count // 2),
        "reward": [0.0, 1.0] * (count // 2),
        "propensity": [0.5] * count,
    }
    return read({**rows, **context}, context=list(context), **(options or {}))


def learned(log: Log) -> tuple[Feature, ...]:
    assert log.features is not None
    return log.features.items


# --- levels


def test_one_hot_up_to_the_limit_and_hashed_above() -> None:
    city = [f"c{i}" for i in range(10)]
    (at,) = learned(log_of(10, {"max_levels": 10}, city=city))
    assert (at.kind, at.width) == ("levels", 10)
    with pytest.warns(
        PiwoWarning, match=r"more than 9 levels: 'city'; each is hashed into 16 columns"
    ) as told:
        (above,) = learned(log_of(10, {"max_levels": 9, "hash_size": 16}, city=city))
    assert above == Feature("city", "hashed", size=16)
    assert len(told) == 1
    with pytest.warns(PiwoWarning, match="more than 0 levels"):
        learned(log_of(10, {"max_levels": 0}, city=city))


@pytest.mark.parametrize("batch", [1, 3, 1000])
def test_levels_are_the_same_however_the_rows_are_cut(
    batch: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    city = [None if x == 0 else f"c{x}" for x in rng.integers(0, 8, 60)]
    path = tmp_path / "log.parquet"
    rows = {"action": ["a", "b"] * 30, "reward": [0.0, 1.0] * 30, "propensity": [0.5] * 60}
    pq.write_table(
        pa.table({**rows, "city": city, "v": [[1.0, float(i)] for i in range(60)]}),
        path,
        row_group_size=7,
    )
    monkeypatch.setattr(sources_module, "BATCH_ROWS", batch)
    for most, kind in ((7, "levels"), (6, "hashed")):
        log = read(path, context=["city", "v"], missing="indicator", max_levels=most)
        with pytest.warns(PiwoWarning) as told:
            found, vector = learned(log)
        assert f"'city' in {city.count(None)} rows; there" in str(told[-1].message)
        assert len(told) == (2 if kind == "hashed" else 1)
        assert (found.kind, found.missing) == (kind, True)
        assert found.levels == (tuple(f"c{i}" for i in range(1, 8)) if kind == "levels" else ())
        assert vector == Feature("v", "vector", size=2)


def test_levels_of_a_split_are_those_of_its_own_rows() -> None:
    log = log_of(200, city=[f"c{i}" for i in range(200)])
    train = log.split(0.5, seed=1).train
    (found,) = learned(train)
    assert len(found.levels) == len(train) < 200


@pytest.mark.parametrize("text", ["user {} with quite a long name", "{:060}"])
def test_memory_does_not_grow_with_the_levels(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    n, kept = 150_000, []
    rows = {"action": np.arange(n) % 2, "reward": np.zeros(n), "propensity": np.full(n, 0.5)}
    log = read({**rows, "user": pa.array([text.format(i) for i in range(n)])}, context="user")
    merge = _Facts.merge

    def watched(self: _Facts, other: _Facts, most: int) -> _Facts:
        kept.append(merge(self, other, most))
        return kept[-1]

    monkeypatch.setattr(_Facts, "merge", watched)
    with pytest.warns(PiwoWarning, match="hashed"):
        learned(log)
    assert max(len(facts.levels) for facts in kept) == 257


def test_numbers_with_a_mark_are_not_hashed_for_being_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources_module, "BATCH_ROWS", 500)
    age = [str(i) for i in range(600)]
    with pytest.raises(DataError, match=r"'age' holds numbers and 'NA'"):
        learned(log_of(600, age=[*age[:-1], "NA"]))
    with pytest.warns(PiwoWarning, match="hashed"):
        assert learned(log_of(600, age=age))[0].kind == "hashed"  # postal codes may be text


def test_missing_values_are_counted_over_all_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources_module, "BATCH_ROWS", 2)
    x = pa.array([1.0, np.nan, None, np.nan, None, None, np.nan, 2.0])
    with pytest.warns(PiwoWarning, match=r"'x' in 6 rows \(3 of them NaN\)"):
        learned(log_of(8, {"missing": "indicator"}, x=x))


@pytest.mark.parametrize(
    "options",
    [
        {"max_levels": -1},
        {"max_levels": 2.5},
        {"max_levels": True},
        {"max_levels": "9"},
        {"hash_size": 0},
        {"hash_size": 3},
        {"hash_size": 1},
        {"hash_size": 2**21},
        {"hash_size": 16.0},
        {"missing": "zero"},
        {"missing": None},
        {"missing": True},
    ],
)
def test_wrong_choices_end_in_one_line(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(options))) as refused:
        log_of(2, options, x=[1.0, 2.0])
    assert "\n" not in str(refused.value)


# --- missing values


FRAMES = {
    "arrow": lambda: pa.table(
        {"age": [1.0, None, 3.0, 4.0], "city": ["x", None, "y", None], "old": [1, 2, 3, 4]}
    ),
    "pandas": lambda: pd.DataFrame(
        {"age": [1.0, np.nan, 3.0, 4.0], "city": ["x", None, "y", np.nan], "old": [1, 2, 3, 4]}
    ),
    "pandas categorical": lambda: FRAMES["pandas"]().astype({"city": "category"}),
    "pandas nullable": lambda: FRAMES["pandas"]().convert_dtypes(),
    "polars": lambda: pl.DataFrame(
        {"age": [1.0, None, 3.0, 4.0], "city": ["x", None, "y", None], "old": [1, 2, 3, 4]}
    ),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_missing_values_are_learned_from_every_frame(kind: str) -> None:
    rows = {"action": ["a", "b"] * 2, "reward": [0, 1] * 2, "propensity": [0.5] * 4}
    log = Log.from_arrays(**rows, context=FRAMES[kind](), missing="indicator")
    with pytest.warns(
        PiwoWarning,
        match=r"^context values are missing: 'age' in 1 row, 'city' in 2 rows; .*'age is mis",
    ):
        names = log.features.names  # type: ignore[union-attr]
    assert names == ("age", "age is missing", "city=x", "city=y", "city is missing", "old")
    (batch,) = log.each_batch(context=True)
    assert batch.context is not None
    assert batch.context.tolist() == [
        [1, 0, 1, 0, 0, 1],
        [0, 1, 0, 0, 1, 2],
        [3, 0, 0, 1, 0, 3],
        [4, 0, 0, 0, 1, 4],
    ]


def test_null_and_nan_are_told_apart() -> None:
    log = log_of(4, x=pa.array([np.nan, None, 1.0, np.inf]))
    with pytest.raises(DataError) as refused:
        list(log.each_batch(context=True))
    for words in (
        "'x' has missing context values in 1 row (row numbers from 0: 1)",
        "'x' has context values that are NaN in 1 row (row numbers from 0: 0)",
        "'x' has infinite context values in 1 row (row numbers from 0: 3)",
        "missing='indicator'",
    ):
        assert words in str(refused.value)
    log = log_of(4, {"missing": "indicator"}, x=pa.array([np.nan, None, 1.0, np.inf]))
    with (
        pytest.warns(PiwoWarning, match=r"'x' in 2 rows \(1 of them NaN\)"),
        pytest.raises(DataError) as refused,
    ):
        list(log.each_batch(context=True))
    assert str(refused.value).startswith(
        "column 'x' has infinite context values in 1 row (row numbers from 0: 3);"
    )


def test_arrays_with_nan() -> None:
    context = np.array([[1.0, np.nan], [2.0, 3.0]])
    log = Log.from_arrays(
        action=[0, 1], reward=[0, 1], propensity=[0.5, 0.5], context=context, missing="indicator"
    )
    with pytest.warns(PiwoWarning, match="'x1' in 1 row"):
        items = learned(log)
    assert items == (Feature("x0"), Feature("x1", missing=True))


def test_nothing_is_missing_and_nothing_is_said() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert learned(log_of(2, {"missing": "indicator"}, x=[1.0, 2.0])) == (Feature("x"),)


def test_numbers_need_no_first_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    log = log_of(2, x=[1.0, 2.0])

    def a_pass(*_: object) -> None:
        raise AssertionError("the rows were read")

    monkeypatch.setattr(TableSource, "fragments", a_pass)
    assert learned(log) == (Feature("x"),)


# --- from the log to serving


def test_a_policy_is_learned_saved_and_serves_with_missing_and_many_values(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    n = 4000
    age = np.where(rng.random(n) < 0.3, np.nan, rng.random(n))
    user = rng.integers(0, 500, n)
    action = rng.integers(0, 2, n)
    # action 1 is right where the age is missing, action 0 elsewhere
    reward = (action == np.isnan(age)).astype(float)
    frame = pa.table({
        "action": action, "reward": reward, "propensity": np.full(n, 0.5),
        "age": pa.array(age, from_pandas=True), "user": [f"u{i}" for i in user],
    })  # fmt: skip
    log = read(frame, context=["age", "user"], missing="indicator", hash_size=16)
    with pytest.warns(PiwoWarning) as told:
        learned_policy = piwo.PIWO(piwo.IX(0.05), oracle=piwo.oracles.Ridge()).fit(log).policy_
    assert any("'user'" in str(x.message) for x in told)
    learned_policy.save(tmp_path / "p.piwo")
    policy = piwo.load(tmp_path / "p.piwo")
    assert policy.features == learned_policy.features
    assert [(x.kind, x.missing) for x in policy.features.items] == [
        ("number", True),
        ("hashed", False),
    ]  # type: ignore[union-attr]
    fresh = pa.table({"user": ["never seen"] * 3, "age": [0.2, None, 0.9]})
    assert policy.act(fresh).actions.tolist() == [0, 1, 0]
    with pytest.raises(DataError, match="'user' is missing at row 1"):
        policy.act(pa.table({"user": ["x", None], "age": [0.2, 0.3]}))
    value = piwo.evaluate(read(frame, context=["age", "user"]), policy)
    assert value.value > 0.95
