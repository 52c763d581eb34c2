"""D03: float32 probabilities are accepted within 1e-4 on float64 sums, and not beyond, whatever K
is."""

from typing import Any

import numpy as np
import pytest

from piwo.errors import DataError, PiwoWarning
from piwo.logs import Batch, Log


def only(log: Log) -> Batch:
    (batch,) = log.each_batch(propensities=True)
    return batch


def test_a_hair_above_one_is_one_and_is_counted_once() -> None:
    log = Log.from_arrays(
        action=["a"] * 3, reward=[1] * 3, propensity=[1.00000978, 0.5, 1.00000978]
    )
    with pytest.warns(PiwoWarning, match=r"above 1 by no more than 0.0001 in 2 rows") as caught:
        assert only(log).propensity.tolist() == [1.0, 0.5, 1.0]
    assert len(caught) == 1


def test_more_than_a_hair_is_refused() -> None:
    with pytest.raises(DataError, match=r"above 1 by more than 0.0001 in 1 row"):
        only(Log.from_arrays(action=["a"], reward=[1], propensity=[1.01]))


def test_row_sums_of_float32_vectors_are_taken_in_float64() -> None:
    k = 100_000
    row = np.full((1, k), 1 / k, np.float32)
    assert float(np.cumsum(row[0])[-1]) > 1 + 1e-4  # a running float32 sum would refuse it
    log = Log.from_arrays(action=[5], reward=[1], propensities=row, actions=range(k))
    assert only(log).propensity[0] == pytest.approx(1 / k)


@pytest.mark.parametrize("k", [2, 7, 100_000])
def test_a_row_of_zeros_is_refused_for_every_k(k: int) -> None:
    log = Log.from_arrays(
        action=[1], reward=[1], propensity=[0.5], propensities=np.zeros((1, k)), actions=range(k)
    )
    with pytest.raises(DataError, match="does not sum to 1"):
        only(log)


def test_rounded_vectors_are_normalized_only_when_asked() -> None:
    given: dict[str, Any] = {
        "action": [0],
        "reward": [1],
        "propensities": np.array([[0.15] * 6 + [0.12]]),
        "actions": range(7),
    }
    with pytest.raises(DataError, match=r"sum of 1.02; .*normalize=True"):
        only(Log.from_arrays(**given))
    with pytest.warns(PiwoWarning, match="divided by its sum as asked"):
        assert only(Log.from_arrays(**given, normalize=True)).propensity[0] == pytest.approx(
            0.15 / 1.02
        )
