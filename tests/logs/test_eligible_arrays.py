"""Eligible actions in arrays: propensities are lists in the order of each row's actions."""

import numpy as np
import pandas as pd
import pytest

from piwo import check
from piwo.errors import DataError, UsageError
from piwo.logs import Log


def test_propensities_of_eligible_actions_are_lists_in_their_order() -> None:
    lists = [[0.2, 0.3, 0.5], [1.0]]
    eligible = [["c", "a", "b"], ["b"]]
    log = Log.from_arrays(action=["a", "b"], reward=[1, 0], eligible=eligible, propensities=lists)
    (batch,) = log.each_batch(propensities=True)
    assert batch.propensity.tolist() == [0.3, 1.0]
    # Columns would have to be matched by name, and a row may lack some of them.
    for columns in (np.full((2, 3), 1 / 3), pd.DataFrame(np.full((2, 3), 1 / 3), columns=[*"abc"])):
        with pytest.raises(
            UsageError, match=r"propensities has columns, expected lists: with elig"
        ):
            Log.from_arrays(
                action=["a", "b"], reward=[1, 0], eligible=eligible, propensities=columns
            )


def test_lists_are_divided_by_their_sums_where_that_was_asked() -> None:
    given = {"action": ["a", "b"], "reward": [1, 0], "eligible": [["a", "b"], ["b"]]}
    lists = [[3.0, 1.0], [1.0]]
    with pytest.raises(DataError, match=r"does not sum to 1 .*normalize=True to divide by it"):
        check(Log.from_arrays(**given, propensities=lists))
    log = Log.from_arrays(**given, propensities=lists, normalize=True)
    with pytest.warns(UserWarning, match=r"does not sum to 1 within .* in 1 row.* as asked"):
        (batch,) = log.each_batch(propensities=True)
    assert batch.propensity.tolist() == [0.75, 1.0]
    with pytest.raises(DataError, match="sums to 0"):
        check(Log.from_arrays(**given, propensities=[[0.0, 0.0], [1.0]], normalize=True))
