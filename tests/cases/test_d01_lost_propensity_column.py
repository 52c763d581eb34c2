"""D01: a propensity column that was renamed is missed; it never becomes a default of 1."""

from typing import Any

import numpy as np
import pytest

from piwo.errors import DataError, UsageError
from piwo.logs import Log, read
from piwo.policies import Constant

ROWS = {"action": ["a", "b", "a", "b"], "propensity": [0.8, 0.2, 0.8, 0.2], "reward": [1, 1, 0, 0]}


def test_a_missing_propensity_is_refused_and_the_columns_are_listed() -> None:
    with pytest.raises(
        DataError,
        match=r"no column 'pscore' for the propensity; .*'action', 'propensity', 'reward'",
    ):
        read(ROWS, propensity="pscore")
    with pytest.raises(DataError, match="no column 'propensity'"):
        read({x: ROWS[x] for x in ("action", "reward")})
    with pytest.raises(UsageError, match="needs a propensity"):
        Log.from_arrays(action=ROWS["action"], reward=ROWS["reward"])


def test_the_right_column_gives_the_right_value(value: Any) -> None:
    log = read(ROWS, propensity="propensity")
    always_b = Constant("b", log.actions)
    assert value(log, always_b) == pytest.approx(1.25, abs=1e-6)
    assert value(log, always_b, 0.1) == pytest.approx(0.833333, abs=1e-6)
    filled_in = Log.from_arrays(action=ROWS["action"], reward=ROWS["reward"], propensity=np.ones(4))
    assert value(filled_in, always_b) == pytest.approx(0.25)  # the naive answer is another number
    assert value(filled_in, always_b, 0.1) == pytest.approx(0.227273, abs=1e-6)
