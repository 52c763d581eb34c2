"""D04: labels are mapped through the action list, never used as positions."""

from typing import Any

import numpy as np
import pytest

from piwo.errors import DataError
from piwo.logs import Log
from piwo.policies import Tabular

PI = np.array([0.7, 0.2, 0.1])
GIVEN: dict[str, Any] = {"reward": [1, 0, 1], "propensity": [0.5, 0.25, 0.25]}


def log_of(labels: list[int], actions: Any, scale: float = 1.0) -> Log:
    return Log.from_arrays(
        action=labels,
        reward=[1, 0, 2],
        propensity=[0.5, 0.25, 0.25],
        actions=actions,
        reward_range=(0, 2),
    )


@pytest.mark.parametrize("labels", [[1, 2, 3], [0, 1, 2], [30, 10, 20]])
def test_labels_of_any_base(labels: list[int], value: Any) -> None:
    log = log_of(labels, labels)
    assert value(log, Tabular(PI[None, :], actions=labels)) == pytest.approx(0.733333, abs=1e-6)
    assert value(log, Tabular(PI[None, :], actions=labels), 0.1) == pytest.approx(
        0.579365, abs=1e-6
    )


def test_the_wrapped_position_is_another_number() -> None:
    zero_based, mu, reward = np.array([0, 1, 2]), np.array([0.5, 0.25, 0.25]), np.array([1, 0, 2])
    assert np.mean(PI[zero_based - 1] / mu * reward) == pytest.approx(
        0.2 / 3 + 1.6 / 3
    )  # the naive answer, 0.6
    with pytest.raises(DataError, match="not among the 3 actions"):
        list(log_of([0, 1, 2], [1, 2, 3]).each_batch())
