"""ESLB and models on logs with eligible actions give what the same full vectors give.

A fixed list whose propensities and probabilities are 0 where an action is not eligible is the same
log, so that every number must be equal.
"""

import numpy as np
import pytest

import piwo
from piwo.estimators import direct_method, doubly_robust
from piwo.policies import Uniform

LABELS = ["a", "b", "c", "d"]
N = 3000


def made() -> tuple[piwo.Log, piwo.Log, np.ndarray]:
    """Return a log with lists, the same with full vectors, and the uniform policy on the latter."""
    random = np.random.default_rng(4)
    rows: dict[str, list] = {x: [] for x in ("action", "reward", "could", "mu", "full")}
    for _ in range(N):
        could = random.permutation(4)[: random.integers(1, 5)]
        p = random.uniform(1.0, 3.0, len(could))
        p /= p.sum()
        place = random.choice(len(could), p=p)
        full = np.zeros(4)
        full[could] = p
        rows["action"].append(LABELS[could[place]])
        rows["reward"].append(int(random.random() < 0.3 + 0.15 * could[place]))
        rows["could"].append([LABELS[a] for a in could])
        rows["mu"].append(p.tolist())
        rows["full"].append(full.tolist())
    plain = {x: rows[x] for x in ("action", "reward")}
    declared = {"actions": LABELS, "logger": "fixed"}
    lists = piwo.read(
        {**plain, "could": rows["could"], "mu": rows["mu"]},
        eligible="could",
        propensities="mu",
        **declared,
    )
    full = piwo.read({**plain, "full": rows["full"]}, propensities="full", **declared)
    sizes = np.array([len(could) for could in rows["could"]])
    return lists, full, (np.array(rows["full"]) > 0.0) / sizes[:, None]


def test_eslb_is_that_of_full_vectors() -> None:
    lists, full, even = made()
    found = piwo.evaluate(lists, Uniform(LABELS), interval="eslb")
    same = piwo.evaluate(full, even, interval="eslb")
    assert found.value == pytest.approx(same.value, rel=1e-12)
    assert (found.lower, found.upper) == pytest.approx((same.lower, same.upper), rel=1e-9)
    assert 0.0 < found.lower < found.value < found.upper < 1.0


def test_models_give_estimates_on_lists_as_on_a_fixed_list() -> None:
    lists, full, even = made()
    q = np.random.default_rng(5).random((N, 4))
    for estimate in (direct_method, doubly_robust):
        found, same = estimate(lists, Uniform(LABELS), q), estimate(full, even, q)
        assert found.value == pytest.approx(same.value, rel=1e-12)
    with pytest.raises(piwo.UsageError, match="q is str, expected lists of the predicted rewards"):
        piwo.evaluate(lists, Uniform(LABELS), q="cross-fit")
