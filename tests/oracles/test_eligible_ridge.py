"""Ridge of each action where it is eligible: against a loop over rows, and its size."""

from __future__ import annotations

import numpy as np
import pytest

import piwo
from piwo.estimators.mrdr import WeightedSquares
from piwo.oracles.eligible_ridge import EligibleRidge
from piwo.reductions.action_gram import ActionGram
from piwo.reductions.eligible_gram import EligibleGram
from piwo.reductions.gram import Gram
from piwo.reductions.joint_gram import symmetric


def rows(n: int, actions: int, width: int, seed: int = 0) -> dict[str, object]:
    """A log whose lists have 1 to `actions` labels, in any order, with the logged one in them."""
    rng = np.random.default_rng(seed)
    lists = [rng.permutation(actions)[: rng.integers(1, actions + 1)].tolist() for _ in range(n)]
    made: dict[str, object] = {f"x{i}": rng.normal(5.0, 1.0, n) for i in range(width)}
    made["e"] = lists
    made["a"] = [one[int(rng.integers(len(one)))] for one in lists]
    made["p"] = [1.0 / len(one) for one in lists]
    made["r"] = rng.random(n)
    made["u"] = np.arange(n) // 3
    return made


ROLES = {"action": "a", "reward": "r", "propensity": "p", "context": "x*", "eligible": "e"}


@pytest.mark.parametrize("unit", [None, "u"])
def test_sums_and_policies_are_those_of_a_loop_over_rows_and_actions(unit: str | None) -> None:
    given = rows(60, 4, 3)
    log = piwo.read(given, **ROLES, unit=unit, actions=range(5))
    shift = np.array([5.0, 4.0, 6.0])
    found = piwo.reductions.reduce(log, EligibleGram(5, shift))
    x = np.column_stack([given[f"x{i}"] for i in range(3)])
    s = np.ones(60) if unit is None else np.full(60, 1 / 3)
    gain = s * np.array(given["r"]) / (np.array(given["p"]) + 0.1)
    policy = EligibleRidge(0.5).solve(log, piwo.IX(0.1))
    for action in range(5):
        count, first, second = 0.0, np.zeros(3), np.zeros((3, 3))
        # [c, b] of the regression with a column of ones, whose b is not penalized
        normal, right = np.diag([0.5, 0.5, 0.5, 0.0]), np.zeros(4)
        for t in range(60):
            if action not in given["e"][t]:
                continue
            z = x[t] - shift
            count, first, second = count + s[t], first + s[t] * z, second + s[t] * np.outer(z, z)
            one = np.append(x[t], 1.0)
            normal += s[t] * np.outer(one, one)
            right += one * gain[t] * (given["a"][t] == action)
        assert found.rows[action] == pytest.approx(count, rel=1e-12)
        assert np.allclose(found.x[action], first, rtol=1e-12, atol=1e-12)
        assert np.allclose(found.xx[action][symmetric(3)], second, rtol=1e-12, atol=1e-12)
        if count:
            wanted = np.linalg.solve(normal, right)
            assert np.allclose(policy.coef[action], wanted[:3], rtol=1e-8, atol=1e-10)
            assert policy.intercept[action] == pytest.approx(wanted[3], rel=1e-7)
    # never eligible: 0, as an action that is never taken
    assert policy.coef[4].tolist() == [0.0] * 3


def test_without_lists_every_action_is_eligible_in_every_row() -> None:
    given = rows(60, 4, 2)
    every = {**given, "e": [list(range(4))] * 60}
    listed = piwo.reductions.reduce(piwo.read(every, **ROLES), EligibleGram(4, np.full(2, 5.0)))
    plain = {name: one for name, one in ROLES.items() if name != "eligible"}
    free = piwo.reductions.reduce(piwo.read(given, **plain), EligibleGram(4, np.full(2, 5.0)))
    for name in ("rows", "x", "xx"):
        assert np.allclose(getattr(listed, name), getattr(free, name), rtol=1e-12)


def test_many_actions_are_inverted_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    log = piwo.read(rows(300, 200, 3), **ROLES)
    whole = EligibleRidge().solve(log, piwo.IX(0.1))
    monkeypatch.setattr("piwo.oracles.eligible_ridge._INVERSE_BYTES", 1)
    cut = EligibleRidge().solve(log, piwo.IX(0.1))
    assert np.allclose(cut.coef, whole.coef, rtol=1e-12)
    assert np.allclose(cut.intercept, whole.intercept, rtol=1e-12)


@pytest.mark.parametrize(
    "made",
    [
        lambda: EligibleGram(100_000, np.zeros(200)),
        lambda: ActionGram(100_000, np.zeros(200)),
        lambda: WeightedSquares(piwo.policies.Constant(0, [0, 1]), 200, 100_000),
        lambda: Gram(tuple(piwo.IX(0.1 * k) for k in range(1, 31)), 100_000, np.zeros(200)),
    ],
)
def test_sums_that_do_not_fit_are_refused_before_they_are_made(made: object) -> None:
    message = (
        r"regressions? of each of 100,000 actions on 200 columns of context .*needs? [\d.]+ GB, "
        r"the limit is 4.3 GB; name fewer columns \(context=\[...\]\)"
    )
    with pytest.raises(piwo.errors.UsageError, match=message):
        made()  # type: ignore[operator]
