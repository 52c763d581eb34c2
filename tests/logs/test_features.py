"""How one context column becomes numbers: texts hashed as scikit-learn does it, missing values
marked."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction import FeatureHasher

from piwo.errors import DataError, FileError, PiwoWarning, UsageError
from piwo.logs import Feature, Features
from piwo.logs.hashing import hashed_places

HOSTILE = [
    "",
    "a\0b",
    "\0",
    "Łódź −5 %",
    "🦊",
    "L" * 100_003,
    "</script>",
    "=",
    "c=c",
    "a",
    "ab",
    "abc",
    "abcd",
]


def block(feature: Feature, values: Any) -> list[list[float]]:
    array = values if isinstance(values, pa.Array) else pa.array(values)
    out = np.full((len(array), feature.width), 7.0)
    feature.fill(array, out)
    return out.tolist()


# --- hashing


def sklearn_block(column: str, values: list[str], size: int) -> list[list[float]]:
    return (
        FeatureHasher(size, input_type="dict")
        .transform([{column: x} for x in values])
        .toarray()
        .tolist()
    )


@pytest.mark.parametrize("size", [2, 8, 256, 1024])
@pytest.mark.parametrize("column", ["c", "", "city\0ł"])
def test_texts_are_hashed_as_scikit_learn_does(size: int, column: str) -> None:
    values = [*HOSTILE, *map(str, range(500)), *HOSTILE]
    assert block(Feature(column, "hashed", size=size), values) == sklearn_block(
        column, values, size
    )


@settings(max_examples=100, deadline=None)
@given(st.lists(st.text(), min_size=1, max_size=5), st.sampled_from([2, 64]))
def test_any_text_is_hashed_as_scikit_learn_does(values: list[str], size: int) -> None:
    assert block(Feature("x", "hashed", size=size), values) == sklearn_block("x", values, size)


@pytest.mark.parametrize(
    "kind",
    [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())],
)
def test_every_kind_of_text_is_hashed_alike(kind: pa.DataType) -> None:
    values = pa.array(["red", "", "blue", "red"])
    values = values.dictionary_encode() if pa.types.is_dictionary(kind) else values.cast(kind)
    feature = Feature("color", "hashed", size=8)
    assert block(feature, values.slice(1)) == sklearn_block("color", ["", "blue", "red"], 8)


def test_a_hash_worked_by_hand() -> None:
    # MurmurHash3 of the four bytes "a=bc" (one block): k = 0x63623d61 through the two
    # multiplications
    k = 0x63623D61 * 0xCC9E2D51 & 0xFFFFFFFF
    k = (k << 15 | k >> 17) & 0xFFFFFFFF
    h = k * 0x1B873593 & 0xFFFFFFFF
    h = ((h << 13 | h >> 19) & 0xFFFFFFFF) * 5 + 0xE6546B64 & 0xFFFFFFFF
    h ^= 4
    h = (h ^ h >> 16) * 0x85EBCA6B & 0xFFFFFFFF
    h = (h ^ h >> 13) * 0xC2B2AE35 & 0xFFFFFFFF
    h ^= h >> 16
    signed = h - 2**32 if h >= 2**31 else h
    place, sign = hashed_places("a", pa.array(["bc"], pa.large_string()), 2**20)
    assert (place.tolist(), sign.tolist()) == (
        [abs(signed) % 2**20],
        [1.0 if signed >= 0 else -1.0],
    )


def test_hashed_columns_have_no_unseen_values() -> None:
    features = Features((Feature("c", "hashed", size=4),))
    assert np.abs(features.encode({"c": ["never", "seen"]})).sum(axis=1).tolist() == [1.0, 1.0]
    assert features.names == ("c#0", "c#1", "c#2", "c#3")


def test_nothing_to_hash() -> None:
    assert block(Feature("c", "hashed", size=4), pa.array([], pa.string())) == []
    assert block(Feature("c", "hashed", size=2, missing=True), pa.nulls(1, pa.string())) == [
        [0, 0, 1]
    ]


# --- missing values


@pytest.mark.parametrize(
    ("feature", "values", "expected"),
    [
        (Feature("x", missing=True), pa.array([2.5, None, np.nan]), [[2.5, 0], [0, 1], [0, 1]]),
        (Feature("x", missing=True), pa.array([None, 3], pa.int8()), [[0, 1], [3, 0]]),
        (Feature("x", missing=True), pa.array([True, None]), [[1, 0], [0, 1]]),
        (Feature("x", missing=True), pa.nulls(1), [[0, 1]]),
        (Feature("x", missing=True), pa.array(np.array([np.nan, 1], np.float16)), [[0, 1], [1, 0]]),
        (
            Feature("c", "levels", ("a", "b"), missing=True),
            ["b", None, "a", "new"],
            [[0, 1, 0], [0, 0, 1], [1, 0, 0], [0, 0, 0]],
        ),
        (
            Feature("c", "levels", ("a", "b"), missing=True),
            pa.array(["b", None]).dictionary_encode(),
            [[0, 1, 0], [0, 0, 1]],
        ),
        (
            Feature("c", "levels", ("a",), missing=True),
            pa.DictionaryArray.from_arrays([0, 1], ["a", None]),
            [[1, 0], [0, 1]],
        ),
        (
            Feature("v", "vector", size=2, missing=True),
            [[1.0, 2.0], None, [3.0, None], [np.nan, 4.0]],
            [[1, 2, 0], [0, 0, 1], [0, 0, 1], [0, 0, 1]],
        ),
        (
            Feature("v", "vector", size=1, missing=True),
            pa.array([[1.0], None], pa.list_(pa.float64(), 1)),
            [[1, 0], [0, 1]],
        ),
    ],
)
def test_a_missing_value_has_a_column_of_its_own(
    feature: Feature, values: Any, expected: list[list[float]]
) -> None:
    assert block(feature, values) == expected
    assert len(feature.names()) == feature.width
    assert feature.names()[-1] == f"{feature.column} is missing"


@pytest.mark.parametrize("missing", [True, False])
@pytest.mark.parametrize(
    ("kind", "size", "values"),
    [
        ("number", 1, [1.0, np.inf]),
        ("vector", 2, [[1.0, 2.0], [-np.inf, None]]),
        ("vector", 2, [[1.0, 2.0], [3.0]]),
    ],
)
def test_infinite_values_and_wrong_lists_stay_refused(
    missing: bool, kind: Any, size: int, values: list[Any]
) -> None:
    with pytest.raises(DataError, match="at row 1") as refused:
        Features((Feature("x", kind, size=size, missing=missing),)).encode({"x": values})
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("kind", ["number", "levels", "hashed", "vector"])
def test_a_policy_that_learned_from_none_refuses_missing_values(kind: Any) -> None:
    values = {"number": [1.0, None], "vector": [[1.0, 2.0], None]}.get(kind, ["a", None])
    with pytest.raises(DataError, match=r"is missing at row 1 .*missing=.indicator.") as refused:
        Features((Feature("x", kind, ("a",), size=2),)).encode({"x": values})
    assert "\n" not in str(refused.value)


def test_missing_is_not_unseen() -> None:
    features = Features((Feature("c", "levels", ("a", "b"), missing=True),))
    with pytest.warns(PiwoWarning, match="^1 context values were never seen"):
        assert features.encode({"c": ["z", None]}).tolist() == [[0, 0, 0], [0, 0, 1]]


def test_arrays_of_numbers_come_encoded_or_as_one_column_each() -> None:
    features = Features((Feature("a", missing=True), Feature("b")))
    assert features.encode(np.array([[np.nan, 2.0]])).tolist() == [[0, 1, 2]]
    assert features.encode(np.array([[0.0, 1.0, 2.0]])).tolist() == [[0, 1, 2]]
    with pytest.raises(DataError, match="NaN or infinite at row 0"):
        features.encode(np.array([[np.nan, 0.0, 2.0]]))
    with pytest.raises(DataError, match=r"expected \(n, 3\)"):
        features.encode(np.zeros((1, 4)))


# --- descriptions


def test_descriptions_come_back_and_older_ones_are_read() -> None:
    items = (
        Feature("a", missing=True),
        Feature("c", "hashed", size=64),
        Feature("d", "levels", ("", "x"), 1, True),
    )
    assert Features.from_spec(Features(items).to_spec()) == Features(items)
    old = [{"column": "a", "kind": "number", "levels": [], "size": 1}]
    assert Features.from_spec(old) == Features((Feature("a"),))


@pytest.mark.usefixtures("wrong_types")
@pytest.mark.parametrize(
    "change",
    [
        {"missing": 1},
        {"missing": None},
        {"size": 3},
        {"size": 0},
        {"size": 2**21},
        {"kind": "magic"},
    ],
)
def test_damaged_descriptions(change: dict[str, Any]) -> None:
    (spec,) = Features((Feature("c", "hashed", size=64),)).to_spec()
    with pytest.raises((FileError, UsageError)):
        Features.from_spec([{**spec, **change}])


@pytest.mark.parametrize(
    "values",
    [
        pa.array([1.5, 2.5, 1.5, None, float("nan"), float("inf")]),
        pa.array(["a", "b", "a", None, "", "1.5"]),
        pa.array(["a", "b", "a", None, "", "1.5"]).dictionary_encode(),
        pa.array([True, False, True, None, None, None]),
        pa.array([[1.0, 2.0], [2.0, 1.0], [1.0, 2.0], None, [3.0, 3.0], [float("inf"), 0.0]]),
        pa.array([[1.0], [1.0, 0.0], [1.0], None, [], [0.0, 1.0]]),
        pa.array([2**60, 2**61, 2**60, None, 0, -1]),
    ],
    ids=lambda values: str(values.type),
)
def test_digests_are_equal_for_equal_values_and_finite(values: pa.Array) -> None:
    encoded = Features.gaps(["x"]).with_digests().encode(pa.table({"x": values}))
    found = encoded[:, 3]
    assert found[0] == found[2]
    assert found[0] != found[1]
    assert np.isfinite(found).all()
    # with the marks of what is missing, rows are equal if and only if values are
    assert len(np.unique(encoded, axis=0)) == len(set(map(str, values)))


def test_zeros_of_either_sign_have_one_digest() -> None:
    features = Features.gaps(["x"]).with_digests()
    one, other = features.encode({"x": [0.0, -0.0]})[:, 3]
    assert one == other
