"""A policy that several reductions need is asked once a row."""

from typing import Any

import numpy as np
import pytest

import piwo
from piwo.logs.batch import Floats
from piwo.policies.policy import Policy
from piwo.reductions import ControlVariates, Joint, ModelVariates, PolicySums
from piwo.reductions.shared_policy import CachedPolicy, SharedPolicy


class Counting(Policy):
    """A context-free policy that counts the rows it was asked for."""

    kind = "counting"

    def __init__(self, pi: Any, actions: Any) -> None:
        self.listed, self.pi, self.asked = piwo.logs.Actions(actions), np.asarray(pi), []

    def distribution(self, context: Floats | None, n: int) -> Floats:
        self.asked.append(n)
        return np.tile(self.pi, (n, 1))


def log(n: int = 500) -> piwo.Log:
    rng = np.random.default_rng(0)
    mu = rng.dirichlet(np.ones(3), n)
    action = (rng.random(n)[:, None] > np.cumsum(mu, axis=1)).sum(axis=1).clip(0, 2)
    reward = rng.random(n)
    return piwo.Log.from_arrays(action=action, reward=reward, propensities=mu, actions=range(3))


def test_the_same_sums_with_half_the_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    # blocks of several sizes, so that parts ask for pieces of what is known
    monkeypatch.setattr(
        "piwo.reductions.shared_policy.in_blocks",
        lambda batch, _: (batch.take(slice(at, at + 200)) for at in range(0, len(batch), 200)),
    )
    monkeypatch.setattr("piwo.reductions.vector_sums._BLOCK_BYTES", 70 * 3 * 8)
    policy, model = (
        Counting([0.2, 0.3, 0.5], range(3)),
        piwo.estimators.ForwardModel(np.full((3, 3, 1), 0.4)),
    )
    parts = (PolicySums(policy, piwo.IW()), ControlVariates(policy), ModelVariates(policy, model))
    apart = piwo.reductions.reduce(log(), Joint(parts))
    assert sum(policy.asked) == 1500
    policy.asked.clear()
    together = piwo.reductions.reduce(log(), SharedPolicy(parts, policy))
    assert sum(policy.asked) == 500
    np.testing.assert_allclose(together[0].bets.value, apart[0].bets.value, rtol=1e-12)
    np.testing.assert_allclose(together[1].value, apart[1].value, rtol=1e-12)
    np.testing.assert_allclose(together[2].loss, apart[2].loss, rtol=1e-12)


def test_evaluate_asks_once() -> None:
    policy = Counting([0.2, 0.3, 0.5], range(3))
    assert piwo.evaluate(log(), policy).interval == "deadline-cv"
    assert sum(policy.asked) == 500


def test_rows_in_another_order_are_looked_up() -> None:
    (batch,) = log(6).each_batch()
    policy = Counting([0.2, 0.3, 0.5], range(3))
    table = np.arange(18.0).reshape(6, 3)
    policy.distribution = lambda _context, _n: table  # type: ignore[method-assign]
    mixed = batch.take(np.array([3, 0, 5, 1, 4, 2]))
    cached = CachedPolicy(policy, mixed)
    assert cached.full(mixed).tolist() == table.tolist()
    ordered = mixed.take(np.argsort(mixed.row_numbers))
    assert cached.full(ordered)[3].tolist() == table[0].tolist()
