"""D08, at the door: negative rewards need a declared range, and costs are declared as costs."""

from typing import Any

import numpy as np
import pytest

from piwo.errors import DataError
from piwo.logs import Log, read
from piwo.policies import Constant

ACTION = np.array(["bad"] * 100 + ["good"] * 900)
REWARD = np.where(ACTION == "bad", -1.0, 0.0)
MU = np.where(ACTION == "bad", 0.1, 0.9)


def test_negative_rewards_without_a_range_are_refused(value: Any) -> None:
    log = Log.from_arrays(action=ACTION, reward=REWARD, propensity=MU)
    with pytest.raises(
        DataError,
        match=r"outside the declared range \[0, 1\] in 100 rows .*reward_range=.*\(cost\)",
    ):
        value(log, Constant("bad", log.actions), 0.1)


def test_the_declared_range_puts_zero_at_the_floor(value: Any) -> None:
    log = Log.from_arrays(action=ACTION, reward=REWARD, propensity=MU, reward_range=(-1, 0))
    bad = Constant("bad", log.actions)
    naive = np.mean((ACTION == "bad") * REWARD / (MU + 0.1))
    assert naive == pytest.approx(-0.5)  # above the truth, -1: "pessimism" towards 0 is optimism
    assert value(log, bad, 0.1) == -1.0


def test_costs_are_negative_rewards(value: Any) -> None:
    frame = {"action": ACTION, "cost": -REWARD, "propensity": MU}
    with pytest.raises(
        DataError,
        match=r"reward \(the negative cost\) outside the declared range \[0, 1\] in 100 rows",
    ):
        value(read(frame, cost="cost"), Constant("bad", ["bad", "good"]))
    log = read(frame, cost="cost", reward_range=(-1, 0))
    assert value(log, Constant("bad", log.actions), 0.1) == -1.0
    assert log.columns.cost
