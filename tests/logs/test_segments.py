"""Segments of a log: labels, counts that merge in any order, and codes."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import piwo
from piwo.logs.reader import MOST_COUNTED, CountSegments, Reader
from piwo.logs.segments import Segments, segment_labels

LOG = piwo.Log.from_arrays(action=["a"], reward=[1], propensity=[1.0])
TASK = CountSegments(Reader(LOG.unlabeled), "part")
COUNTS = st.dictionaries(st.none() | st.text(max_size=3), st.integers(1, 9), max_size=4)


@given(COUNTS, COUNTS, COUNTS)
def test_counts_merge_in_any_order_and_cross_machines(one, two, three) -> None:
    together = TASK.merge(TASK.merge(one, two), three)
    assert together == TASK.merge(one, TASK.merge(three, two))
    assert TASK.merge(TASK.empty(), one) == one
    assert sum(together.values()) == sum(sum(each.values()) for each in (one, two, three))
    assert TASK.from_bytes(TASK.to_bytes(together)) == together


def test_more_labels_than_are_counted_end_the_pass() -> None:
    many = {str(i): 1 for i in range(MOST_COUNTED + 5)}
    assert not TASK.settled({"a": 1})
    assert TASK.settled(TASK.merge(TASK.empty(), many))


def test_codes_are_places_in_the_list() -> None:
    values = pa.array(["FR", None, "DE", "FR"])
    segments = Segments("country", ("DE", None, "FR"), (1, 1, 2))
    assert segments.codes(values).tolist() == [2, 1, 0, 2]
    assert segments.codes(values.dictionary_encode()).tolist() == [2, 1, 0, 2]
    assert segments.codes(values[:0]).dtype == np.int32
    with pytest.raises(piwo.DataError, match="other values at one pass than at another"):
        segments.codes(pa.array(["IT"]))


def test_numbers_that_are_not_whole_are_no_labels() -> None:
    assert segment_labels(pa.array([2.0, float("nan")]), "age").to_pylist() == ["2", None]
    for value in (0.5, float("inf"), 1e300):
        with pytest.raises(piwo.DataError, match="numbers that are not whole, or too large"):
            segment_labels(pa.array([value]), "age")
