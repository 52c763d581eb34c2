"""D20: Series whose indexes differ are not lined up by guess."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from piwo.errors import DataError
from piwo.logs import Log
from piwo.policies import Column

PI, MU, R = [1, 0, 0.5], [0.5, 0.5, 0.25], [1, 0, 1]


def log_of(pi: Any, mu: Any, reward: Any, **more: Any) -> Log:
    return Log.from_arrays(
        action=["a"] * 3, reward=reward, propensity=mu, policies={"pi": pi}, **more
    )


@pytest.mark.parametrize("index", [([0, 1, 2], [2, 1, 0]), ([5, 3, 9], [7, 3, 5])])
def test_different_indexes_are_refused(index: tuple[list[int], list[int]]) -> None:
    first, second = index
    with pytest.raises(DataError, match="have different indexes"):
        log_of(pd.Series(PI, index=first), pd.Series(MU, index=second), pd.Series(R, index=second))


def test_a_context_frame_with_another_index_is_refused() -> None:
    with pytest.raises(DataError, match="'context' have different indexes"):
        log_of(PI, pd.Series(MU), R, context=pd.DataFrame({"x": [1, 2, 3]}, index=[2, 1, 0]))


def test_the_user_chooses_by_position_or_by_label(value: Any) -> None:
    pi, mu, reward = (
        pd.Series(PI, index=[0, 1, 2]),
        pd.Series(MU, index=[2, 1, 0]),
        pd.Series(R, index=[2, 1, 0]),
    )
    by_position = log_of(pi.to_numpy(), mu.to_numpy(), reward.to_numpy())
    assert value(by_position, Column("pi", ["a"])) == pytest.approx(1.333333, abs=1e-6)
    by_label = log_of(pi, mu.loc[pi.index], reward.loc[pi.index])
    assert value(by_label, Column("pi", ["a"])) == pytest.approx(1.666667, abs=1e-6)


def test_partly_overlapping_labels_would_have_been_dropped() -> None:
    pi, mu, reward = (
        pd.Series(PI, index=[5, 3, 9]),
        pd.Series(MU, index=[7, 3, 5]),
        pd.Series(R, index=[7, 3, 5]),
    )
    assert (pi / mu * reward).mean() == pytest.approx(
        2.0
    )  # the naive answer, from two of four rows


def test_the_same_odd_labels_in_the_same_order_pass(value: Any) -> None:
    index = ["x", "x", "y"]
    log = log_of(*(pd.Series(x, index=index) for x in (PI, MU, R)))
    assert value(log, Column("pi", ["a"])) == pytest.approx(1.333333, abs=1e-6)
    assert value(
        log_of(pd.Series(PI, index=index), np.array(MU), R), Column("pi", ["a"])
    ) == pytest.approx(4 / 3)
