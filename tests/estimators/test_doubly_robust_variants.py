"""SWITCH-DR, DRos, self-normalized DR and MRDR: against their definitions, and by what they are
for."""

import numpy as np
import pytest

import piwo
from piwo.estimators import doubly_robust, mrdr_model
from piwo.scores import IX, Shrinkage, Switch

MU = np.array([0.5, 0.1, 0.02, 0.8, 0.3, 0.05])
PI = np.array([1.0, 0.0, 0.5, 0.25, 1.0, 1.0])
REWARD = np.array([1.0, 0.4, 0.8, 0.0, 0.5, 1.0])
ROWS = piwo.Log.from_arrays(action=[0] * 6, reward=REWARD, propensity=MU, actions=[0, 1])
POLICY = np.column_stack([PI, 1 - PI])
NOTHING = np.zeros((6, 2))
Q = np.random.default_rng(0).random((6, 2))
W = PI / MU


def test_golden_values_without_a_model() -> None:
    assert doubly_robust(ROWS, POLICY, NOTHING, weights=Shrinkage(10.0)).value == pytest.approx(
        0.5034684368, abs=1e-9
    )
    assert doubly_robust(ROWS, POLICY, NOTHING, weights=Switch(5.0)).value == pytest.approx(
        0.6111111111, abs=1e-9
    )
    snips = doubly_robust(ROWS, POLICY, NOTHING, self_normalized=True)
    assert snips.value == pytest.approx(0.8621966269, abs=1e-9)
    reference = piwo.evaluate(ROWS, piwo.policies.RowWise(POLICY, ROWS.actions), estimator="snips")
    # the error of SNIPS divides by n where a mean's divides by n - 1
    assert snips.standard_error == pytest.approx((reference.standard_error or 0) * np.sqrt(6 / 5))


@pytest.mark.parametrize(
    ("arguments", "u", "name"),
    [
        ({}, W, "dr"),
        ({"gamma": 0.1}, PI / (MU + 0.1), "dr"),
        ({"weights": IX(0.1)}, PI / (MU + 0.1), "dr"),
        ({"weights": Switch(5.0)}, np.where(W <= 5, W, 0), "dr-switch"),
        ({"weights": Shrinkage(10.0)}, 10 * W / (W**2 + 10), "dr-shrinkage"),
    ],
)
def test_credits_are_those_of_the_definition(
    arguments: dict[str, object], u: np.ndarray, name: str
) -> None:
    direct = (POLICY * Q).sum(axis=1)
    credit = direct + u * (REWARD - Q[:, 0])
    found = doubly_robust(ROWS, POLICY, Q, **arguments)  # type: ignore[arg-type]
    assert found.value == pytest.approx(credit.mean())
    assert found.standard_error == pytest.approx(credit.std(ddof=1) / np.sqrt(6))
    assert found.direct == pytest.approx(direct.mean())
    assert found.estimator == name
    normal = doubly_robust(ROWS, POLICY, Q, self_normalized=True, **arguments)  # type: ignore[arg-type]
    assert normal.value == pytest.approx(direct.mean() + (u * (REWARD - Q[:, 0])).sum() / u.sum())
    assert normal.estimator == "sndr"


def test_normalizing_stays_within_the_residuals() -> None:
    q = np.full((6, 2), 0.3)
    found = doubly_robust(ROWS, POLICY, q, self_normalized=True)
    assert 0.0 <= found.value <= 1.0
    assert doubly_robust(ROWS, POLICY, q).value > 1.0


def test_wrong_arguments() -> None:
    with pytest.raises(piwo.UsageError, match="one of the two"):
        doubly_robust(ROWS, POLICY, Q, 0.1, weights=Switch(2.0))
    with pytest.raises(piwo.UsageError, match="expected a Score"):
        doubly_robust(ROWS, POLICY, Q, weights=2.0)  # type: ignore[arg-type]
    with pytest.raises(piwo.UsageError, match="expected one number"):
        doubly_robust(ROWS, POLICY, Q, weights=Switch())
    never = np.column_stack([np.zeros(6), np.ones(6)])
    with pytest.raises(piwo.DataError, match="every weight is 0"):
        doubly_robust(ROWS, never, Q, self_normalized=True)


def bandit(n: int, seed: int) -> piwo.Log:
    """A curved reward, and a logger that seldom plays action 1 where x is large."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 1, n)
    of_one = 0.6 - 0.55 * x
    action = (rng.random(n) < of_one) * 1
    reward = (rng.random(n) < np.where(action == 1, x**3, 0.5)) * 1.0
    return piwo.Log.from_arrays(
        context=x[:, None], action=action, reward=reward,
        propensity=np.where(action == 1, of_one, 1 - of_one), actions=[0, 1],
    )  # fmt: skip


def test_mrdr_is_weighted_least_squares() -> None:
    log = bandit(500, 1)
    batch = next(iter(log.each_batch(context=True)))
    assert batch.context is not None
    rows = batch.action == 1
    x = np.column_stack([batch.context[rows], np.ones(rows.sum())])
    c = np.sqrt((1 - batch.propensity[rows]) / batch.propensity[rows] ** 2)
    expected = np.linalg.lstsq(x * c[:, None], batch.reward[rows] * c, rcond=None)[0]
    model = mrdr_model(log, piwo.policies.Constant(1, log.actions), alpha=1e-12)
    assert [model.coef[1, 0], model.intercept[1]] == pytest.approx(expected.tolist(), rel=1e-6)
    assert model.coef[0, 0] == 0.0


def test_mrdr_lowers_the_variance() -> None:
    policy = piwo.policies.Constant(1, [0, 1])
    train, test = bandit(40_000, 2), bandit(40_000, 3)
    batch = next(iter(train.each_batch(context=True)))
    assert batch.context is not None
    fits = []
    for action in (0, 1):  # ordinary regression, action by action
        rows = batch.action == action
        x = np.column_stack([batch.context[rows], np.ones(rows.sum())])
        fits.append(np.linalg.lstsq(x, batch.reward[rows], rcond=None)[0])
    plain = doubly_robust(
        test, policy, lambda x: np.column_stack([x[:, 0] * f[0] + f[1] for f in fits])
    )
    robust = doubly_robust(test, policy, mrdr_model(train, policy))
    assert robust.value == pytest.approx(0.25, abs=0.05)
    assert (robust.standard_error or 1.0) < 0.98 * (plain.standard_error or 0.0)


def test_mrdr_refuses() -> None:
    log = bandit(100, 4)
    with pytest.raises(piwo.UsageError, match="draws its actions"):
        mrdr_model(log, piwo.policies.Uniform(log.actions))
    with pytest.raises(piwo.UsageError, match="needs the context"):
        mrdr_model(ROWS, piwo.policies.Constant(0, [0, 1]))
    with pytest.raises(piwo.UsageError, match="alpha"):
        mrdr_model(log, piwo.policies.Constant(0, [0, 1]), alpha=0.0)
