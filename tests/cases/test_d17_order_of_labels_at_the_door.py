"""D17, at the door: meaning goes by the name of an action, never by the alphabetical order of
names."""

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from piwo.errors import DataError, UsageError
from piwo.logs import Actions, Log

LABELS = ["2", "9", "10"]
ROW = [0.7, 0.2, 0.1]


def propensities_of(log: Log) -> Any:
    (batch,) = log.each_batch(propensities=True)
    assert batch.propensities is not None
    return batch, batch.propensities


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
@given(order=st.permutations(LABELS), columns=st.permutations(LABELS))
def test_named_columns_are_matched_by_name(
    frame: Any, order: list[str], columns: list[str]
) -> None:
    named = frame({name: [ROW[LABELS.index(name)]] for name in columns})
    log = Log.from_arrays(action=["10"], reward=[1], propensities=named, actions=order)
    batch, vectors = propensities_of(log)
    assert batch.propensity.tolist() == [0.1]
    assert vectors[0].tolist() == [ROW[LABELS.index(name)] for name in order]
    by_sorted_position = dict(zip(sorted(LABELS), ROW, strict=True))
    assert by_sorted_position["10"] == 0.7  # the naive answer


def test_arrays_without_names_need_the_action_list() -> None:
    with pytest.raises(UsageError, match=r"need actions=\[...\]"):
        Log.from_arrays(action=["10"], reward=[1], propensities=np.array([ROW]))
    batch, _ = propensities_of(
        Log.from_arrays(action=["10"], reward=[1], propensities=np.array([ROW]), actions=LABELS)
    )
    assert batch.propensity.tolist() == [0.1]


@pytest.mark.parametrize("columns", [["2", "9"], ["2", "9", "10", "11"], ["2", "9", "x"]])
def test_a_missing_or_extra_name_is_refused(columns: list[str]) -> None:
    named = pd.DataFrame({name: [0.1] for name in columns})
    with pytest.raises(DataError, match="expected exactly the actions"):
        Log.from_arrays(action=["10"], reward=[1], propensities=named, actions=LABELS)


def test_numbers_sort_as_numbers_and_codes_follow_the_list() -> None:
    log = Log.from_arrays(action=[10, 2, 9], reward=[1, 1, 1], propensity=[0.5] * 3)
    assert log.actions.labels == (2, 9, 10)
    assert Actions(LABELS).codes(["10", "2", "9"]).tolist() == [2, 0, 1]
