"""The bandit over items: its values by a loop over situations, and by logs that it draws."""

import numpy as np
import pytest

import piwo
from piwo.policies import JointLinear, JointModel, Uniform
from piwo.simulate import ItemBandit

BANDIT = ItemBandit(items=12, candidates=4, context=2, features=3, situations=50, wave=0.5)


def chance(situation: int, item: int) -> float:
    x, z = BANDIT.users[situation], BANDIT.table[item]
    logit = x @ BANDIT.weights @ z + 0.5 * np.sin(2.0 * x[0] * z[0])
    return float(1.0 / (1.0 + np.exp(-logit)))


def test_values_are_those_of_a_loop() -> None:
    best, even, mine = 0.0, 0.0, 0.0
    model = JointModel(BANDIT.weights, np.zeros(3), BANDIT.table)
    for i in range(50):
        could = BANDIT.eligible.codes[4 * i : 4 * i + 4]
        chances = [chance(i, a) for a in could]
        best += max(chances) / 50
        even += float(np.mean(chances)) / 50
        scores = [BANDIT.users[i] @ BANDIT.weights @ BANDIT.table[a] for a in could]
        mine += chances[int(np.argmax(scores))] / 50
    assert BANDIT.optimal_value == pytest.approx(best)
    assert BANDIT.value(Uniform(BANDIT.actions)) == pytest.approx(even)
    assert BANDIT.value(JointLinear(model, BANDIT.actions)) == pytest.approx(mine)
    assert even < BANDIT.logging_value < best


def test_logs_have_these_values() -> None:
    log = BANDIT.log(20_000, random_state=0)
    result = piwo.evaluate(log, Uniform(log.actions))
    truth = BANDIT.value(Uniform(BANDIT.actions))
    assert abs(result.value - truth) < 4.0 * result.standard_error
    assert piwo.check(log).verdict != "unfit"
    plain = BANDIT.log(100, random_state=0, eligible=False)
    assert plain.columns.eligible is None
    everything = ItemBandit(items=3, candidates=None, situations=5)
    assert everything.eligible.sizes.tolist() == [3] * 5


def test_a_joint_model_is_better_than_one_a_item() -> None:
    bandit = ItemBandit(items=200, candidates=10, situations=1000)
    log = bandit.log(8_000, random_state=1)
    joint = piwo.oracles.JointRidge().solve(log, piwo.IX(0.05))
    single = piwo.oracles.Ridge().solve(bandit.log(8_000, 1, eligible=False), piwo.IX(0.05))
    assert bandit.value(joint) > bandit.value(single) + 0.05
    assert bandit.value(joint) > 0.97 * bandit.optimal_value
