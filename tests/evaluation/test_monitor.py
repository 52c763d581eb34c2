"""Monitors: their sums are those of the whole log, looks hold at every n, and files and mistakes
are handled."""

import math

import numpy as np
import pytest

import piwo
from piwo import bounds
from piwo.errors import UsageError
from piwo.reductions.bets import BETS
from piwo.simulate import adversarial_bandits

COIN = next(bandit for bandit in adversarial_bandits() if bandit.name == "clicks")


def test_pieces_give_what_the_whole_log_gives(tmp_path):
    rows = np.random.default_rng(0).choice(len(COIN.cells.chance), 500, p=COIN.cells.chance)
    whole = piwo.evaluate(COIN.log_of(rows), COIN.policy, horizon=10_000)
    start = piwo.Monitor(COIN.policy, horizon=10_000)
    one = start.update(COIN.log_of(rows[:200]))
    other = start.update(COIN.log_of(rows[200:])).merge(start)
    other.save(tmp_path / "monitor.json")
    other = piwo.Monitor.load(tmp_path / "monitor.json", COIN.policy)
    for monitor in (
        one.update(COIN.log_of(rows[200:])),
        one.merge(other),
        other.merge(one),
        start.merge(one).merge(other),
    ):
        look = monitor.look()
        for name in ("value", "lower", "upper", "improvement_lower", "logging_value"):
            assert getattr(look, name) == pytest.approx(getattr(whole, name), rel=1e-10), name
        assert look.better_p == pytest.approx(math.exp(min(0.0, -whole.log_e_better)))
        assert look.rows == 500


def test_a_file_holds_every_digit_and_what_is_beyond_them(tmp_path):
    tiny = next(
        bandit for bandit in adversarial_bandits() if bandit.name == "underflowing propensity"
    )
    made = piwo.Monitor(tiny.policy).update(tiny.log_of(np.arange(len(tiny.cells.chance))))
    made.save(tmp_path / "monitor.json")
    loaded = piwo.Monitor.load(tmp_path / "monitor.json", tiny.policy)
    assert math.isinf(loaded.state.moments.w)
    assert loaded.look() == made.look()
    assert "Infinity" not in (tmp_path / "monitor.json").read_text()


def test_reward_ranges(tmp_path):
    log = piwo.Log.from_arrays(
        action=["a", "b"] * 50,
        reward=[3.0, -2.0] * 50,
        propensity=[0.5] * 100,
        actions=["a", "b"],
        reward_range=(-2, math.inf),
    )
    policy = piwo.policies.Constant("a", ["a", "b"])
    made = piwo.Monitor(policy).update(log)
    made.save(tmp_path / "monitor.json")
    look = piwo.Monitor.load(tmp_path / "monitor.json", policy).look()
    assert look == made.look()
    assert (look.value, look.upper, look.improvement_lower, look.better_p) == (
        3.0,
        None,
        None,
        None,
    )
    assert look.lower > -2


def test_no_bounds_on_rows_that_contradict_their_propensities():
    log = piwo.Log.from_arrays(
        action=["a"] * 500, reward=[1] * 500, propensity=[0.1] * 500, actions=["a", "b"]
    )
    look = piwo.Monitor(piwo.policies.Constant("a", log.actions)).update(log).look()
    assert (look.lower, look.upper, look.improvement_lower) == (None, None, None)
    assert look.propensity_p < 1e-9


@pytest.mark.parametrize("horizon", [None, "hourly", True])
def test_a_horizon_has_to_be_declared(horizon):
    with pytest.raises(UsageError, match="horizon is"):
        piwo.Monitor(piwo.policies.Constant("a", ["a", "b"]), horizon=horizon)


def test_mistakes_are_refused():
    policy = piwo.policies.Constant("a", ["a", "b"])
    log = piwo.Log.from_arrays(action=["a", "b"], reward=[1, 0], propensity=[0.5, 0.5])
    with pytest.raises(UsageError, match="horizon is 0"):
        piwo.Monitor(policy, horizon=0)
    made = piwo.Monitor(policy, horizon=100)
    with pytest.raises(AttributeError):
        made.horizon = 200
    with pytest.raises(UsageError, match="horizon 100 and 200"):
        made.merge(piwo.Monitor(policy, horizon=200))
    with pytest.raises(UsageError, match=r"delta 0\.05 and 0\.1"):
        made.merge(piwo.Monitor(policy, delta=0.1, horizon=100))
    with pytest.raises(UsageError, match="no rows"):
        made.look()
    with pytest.raises(UsageError, match="reward range"):
        made.update(log).update(
            piwo.Log.from_arrays(action=["a"], reward=[1], propensity=[1.0], reward_range=(0, 2))
        )
    with pytest.raises(UsageError, match="thinned"):
        made.update(piwo.Log.from_arrays(action=["a"], reward=[1], propensity=[1.0], weight=[2.0]))
    with pytest.raises(UsageError, match="whatever labels"):
        piwo.Monitor(piwo.policies.Uniform(log.actions)).update(log)


# --- looking at every n


def crossings(bandit, delta, rows, logs, size):
    """Whether LCB_t > v at any t; `size(t)` is the number of bets used at t."""
    rng, cells = np.random.default_rng(4), bandit.cells
    w = np.asarray(bandit.pi)[cells.action] / np.exp(cells.log_propensity)
    steps = np.log1p(np.outer(w * cells.reward, BETS)) - np.log1p(BETS * bandit.value)
    sizes = np.array([size(t) for t in range(1, rows + 1)])
    used = np.arange(BETS.size) < sizes[:, None]
    crossed = []
    for _ in range(logs):
        path = np.where(
            used,
            np.cumsum(steps[rng.choice(len(cells.chance), rows, p=cells.chance)], axis=0),
            -np.inf,
        )
        # LCB > v exactly where the average wealth at v is above 1/delta
        wealth = np.logaddexp.reduce(path, axis=1) - np.log(sizes)
        crossed.append(bool((wealth > -math.log(delta)).any()))
    return np.array(crossed)


@pytest.mark.parametrize("name", ["clicks", "uniform on a peaked logger"])
def test_looking_at_every_n(name):
    bandit, delta, rows, logs = (
        next(x for x in adversarial_bandits() if x.name == name),
        0.1,
        800,
        250,
    )
    fixed = bounds.grid_size(rows, -math.log(delta))
    for size in (fixed, BETS.size):
        crossed = crossings(bandit, delta, rows, logs, lambda _, size=size: size)
        assert crossed.mean() <= delta + 3 * math.sqrt(delta * (1 - delta) / logs)
    assert crossed.shape == (logs,)


def test_the_simulation_is_that_of_a_monitor():
    rng, bandit = np.random.default_rng(4), COIN
    rows = rng.choice(len(bandit.cells.chance), 800, p=bandit.cells.chance)
    crossed = crossings(bandit, 0.3, 800, 1, lambda t: bounds.grid_size(800, -math.log(0.3)))
    monitor, looks = piwo.Monitor(bandit.policy, delta=0.6, horizon=800), []  # .3 a side
    size = bounds.grid_size(800, -math.log(0.3))
    assert bounds.grid_size(800, bounds.log_inv_delta(0.6, statements=2)) == size
    for start in range(0, 800, 20):
        monitor = monitor.update(bandit.log_of(rows[start : start + 20]))
        looks.append(monitor.look().lower)
    assert crossed[0] >= any(low > bandit.value for low in looks)
