"""Files whose order follows what was earned: bets on blocks are left out, with a note."""

import math

import numpy as np
import pytest

import piwo
from piwo.bounds.deadline import Blocks, Mixture, deadline_log_e_value, deadline_lower, use_of

N = 2000


def log_of(order: np.ndarray | None = None, *, key: bool = False, rows: int = N) -> piwo.Log:
    rng = np.random.default_rng(5)
    action = rng.integers(0, 2, rows)
    frame = {
        "action": action,
        "reward": (rng.random(rows) < 0.1 + 0.1 * action) * 1.0,
        "propensity": np.full(rows, 0.5),
        "id": np.arange(rows),
    }
    if order is not None:
        frame = {name: column[order] for name, column in frame.items()}
    return piwo.read(frame, actions=[0, 1], **({"key": "id"} if key else {}))


def by_reward(rows: int = N) -> np.ndarray:
    return np.argsort(log_of(rows=rows).first_batch().reward, kind="stable")


def kinds(notes: tuple[str, ...]) -> set[str]:
    return {note.kind for note in notes}


def test_rows_sorted_by_reward() -> None:
    policy = piwo.policies.Constant(1, [0, 1])
    drawn, ordered = piwo.evaluate(log_of(), policy), piwo.evaluate(log_of(by_reward()), policy)
    assert "sorted" not in kinds(drawn.notes)
    assert "sorted" in kinds(ordered.notes)
    assert drawn.value == pytest.approx(ordered.value)
    # what is left is the mixture's part of the wealth, a tenth: its bound at a tenth of delta, but
    # for the bets it has, which are chosen for delta
    tenth = piwo.evaluate(log_of(), policy, interval="mixture", delta=0.005)
    assert ordered.lower == pytest.approx(tenth.lower, rel=0.01)
    assert ordered.lower < drawn.lower
    made = piwo.certify(log_of(by_reward()), {0: policy})[0]
    assert "sorted" in kinds(made.notes)
    assert "sorted" not in kinds(piwo.certify(log_of(), {0: policy})[0].notes)


def test_a_key_makes_the_order_irrelevant() -> None:
    policy = piwo.policies.Constant(1, [0, 1])
    drawn, ordered = (
        piwo.evaluate(log, policy) for log in (log_of(key=True), log_of(by_reward(), key=True))
    )
    assert "sorted" not in kinds(ordered.notes)
    assert (ordered.lower, ordered.upper) == pytest.approx((drawn.lower, drawn.upper), rel=1e-9)


def test_a_drift_of_rewards_is_not_an_order() -> None:
    """Rewards that fall from .3 to .1: no file is sorted by that."""
    rng = np.random.default_rng(1)
    action = rng.integers(0, 2, 20_000)
    reward = (rng.random(20_000) < np.linspace(0.3, 0.1, 20_000)) * 1.0
    log = piwo.Log.from_arrays(action=action, reward=reward, propensity=np.full(20_000, 0.5))
    assert "sorted" not in kinds(piwo.evaluate(log, piwo.policies.Constant(1, [0, 1])).notes)


def test_fewer_rows_than_blocks_are_for_the_mixture() -> None:
    policy = piwo.policies.Constant(1, [0, 1])
    few, plain = (
        piwo.evaluate(log_of(rows=63), policy, interval=name) for name in ("auto", "mixture")
    )
    assert (few.lower, few.upper) == pytest.approx((plain.lower, plain.upper), rel=1e-12)
    # 64 units are bet on: a hash of their names places them
    more, plain = (
        piwo.evaluate(log_of(rows=64), policy, interval=name) for name in ("auto", "mixture")
    )
    assert more.lower != plain.lower


def sums(y: np.ndarray) -> tuple[float, float, float, float, np.ndarray]:
    t = np.arange(float(len(y)))
    return float(len(y)), y.sum(), y @ y, y @ t, np.array([t.sum(), t @ t])


def test_what_lies_at_one_end() -> None:
    y = np.zeros(1000)
    assert use_of(*sums(y)) == "all"
    assert use_of(*sums(y + 1.0)) == "all"
    assert use_of(*sums(y[:50])) == "none"
    for place, expected in ((0, "lost"), (999, "lost"), (500, "all"), (200, "all")):
        one = y.copy()
        one[place] = 7.0
        assert use_of(*sums(one)) == expected
    # a correlation of .5 in 1,000 rows, and of .05
    rng = np.random.default_rng(0)
    for strength, expected in ((0.58, "lost"), (0.05, "all")):
        noise = rng.exponential(size=1000)
        assert use_of(*sums(noise + strength * np.linspace(0, 3.46, 1000))) == expected
    # sums beyond float64 say nothing
    n, _, _, trend, numbers = sums(y + 1.0)
    assert use_of(n, math.inf, math.inf, trend, numbers) == "all"
    assert use_of(n, 1e200, math.inf, 1e200 * 999, numbers) == "lost"


def test_wealth_that_counts_as_lost_makes_statements_weaker() -> None:
    from dataclasses import replace

    y = np.tile([0.0, 1.0], (64, 25))
    blocks, mixture, level = Blocks.of(y), Mixture.of(y), math.log(40)
    lost, none = replace(blocks, use="lost"), replace(blocks, use="none")
    tenth = level + math.log(10)
    assert deadline_lower(lost, mixture, level) == pytest.approx(mixture.lower(tenth), rel=1e-12)
    assert deadline_lower(none, mixture, level) == pytest.approx(mixture.lower(level), rel=1e-12)
    assert deadline_lower(blocks, mixture, level) > deadline_lower(none, mixture, level)
    at = mixture.log_wealth(np.array([0.3]))[0]
    assert deadline_log_e_value(none, mixture, 0.3, [level]) == pytest.approx(at)
    assert deadline_log_e_value(lost, mixture, 0.3, [level]) == pytest.approx(at - math.log(10))
