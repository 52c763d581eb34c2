"""D02: a logged action with propensity 0 cannot have happened, and gamma must not hide it."""

from typing import Any

import numpy as np
import pytest

from piwo.errors import DataError
from piwo.logs import Log
from piwo.policies import Constant


@pytest.mark.parametrize("bad", [0.0, -0.0, np.nan, np.inf, -0.1, None])
@pytest.mark.parametrize("gamma", [0.0, 0.1])
def test_an_impossible_propensity_is_refused_with_its_row(
    bad: float | None, gamma: float, value: Any
) -> None:
    log = Log.from_arrays(
        action=["a", "a"], reward=[1, 1], propensity=[0.5, bad], actions=["a", "b"]
    )
    with pytest.raises(
        DataError, match=r"column 'propensity' .* in 1 row \(row numbers from 0: 1\)"
    ):
        value(log, Constant("a", log.actions), gamma)
    naive = (1 / 0.6 + 1 / 0.1) / 2
    assert naive == pytest.approx(5.833333, abs=1e-6)


def test_a_zero_of_an_action_that_was_not_taken_is_legal(value: Any) -> None:
    log = Log.from_arrays(
        action=["a", "b"],
        reward=[1, 1],
        propensities=np.array([[1.0, 0.0], [0.5, 0.5]]),
        actions=["a", "b"],
    )
    assert value(log, Constant("b", log.actions)) == 1.0
    taken = Log.from_arrays(
        action=["b"], reward=[1], propensities=np.array([[1.0, 0.0]]), actions=["a", "b"]
    )
    with pytest.raises(DataError, match="gives probability 0 to an action that was taken"):
        value(taken, Constant("b", log.actions), 0.1)
