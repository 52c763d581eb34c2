"""Laws that every policy obeys: one table, three ways to ask for it, and an order that means
nothing."""

import pickle

import numpy as np
import pytest

from piwo.errors import UsageError
from piwo.logs.actions import Actions
from piwo.logs.batch import Batch
from piwo.policies import Policy, aligned


def test_rows_are_distributions(policy: Policy, contexts: np.ndarray) -> None:
    table = policy.probabilities(contexts)
    assert table.shape == (6, len(policy.actions))
    assert table.dtype == np.float64
    assert (table >= 0).all()
    np.testing.assert_allclose(table.sum(axis=1), 1.0, rtol=0, atol=1e-12)


def test_one_action_a_row_is_an_entry_of_the_table(policy: Policy, contexts: np.ndarray) -> None:
    table = policy.probabilities(contexts)
    for code in range(len(policy.actions)):
        asked = policy.probability(contexts, np.full(6, code, np.int32))
        np.testing.assert_allclose(asked, table[:, code], rtol=1e-14, atol=0)


def test_log_probabilities_are_logarithms(policy: Policy, contexts: np.ndarray) -> None:
    table = policy.probabilities(contexts)
    np.testing.assert_allclose(
        np.exp(policy.log_probabilities(contexts)), table, rtol=1e-12, atol=0
    )


def test_a_batch_is_asked_by_its_own_actions(policy: Policy, batch: Batch) -> None:
    table = policy.probabilities(batch.context)
    expected = table[np.arange(6), batch.action]
    np.testing.assert_allclose(policy.logged(batch), expected, rtol=1e-14, atol=0)
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(
            policy.log_logged(batch), np.log(expected), rtol=1e-12, atol=1e-15
        )
    np.testing.assert_allclose(policy.full(batch), table, rtol=1e-14)


def test_rows_do_not_depend_on_each_other(policy: Policy, contexts: np.ndarray) -> None:
    whole = policy.probabilities(contexts)
    parts = np.vstack([policy.probabilities(contexts[i : i + 1]) for i in range(6)])
    np.testing.assert_allclose(parts, whole, rtol=1e-12)


def test_no_rows_give_no_rows(policy: Policy, contexts: np.ndarray) -> None:
    if policy.kind == "classifier":
        pytest.skip("scikit-learn refuses empty input")
    assert policy.probabilities(contexts[:0]).shape == (0, len(policy.actions))
    assert len(policy.act(contexts[:0]).actions) == 0


def test_a_longer_list_in_another_order_changes_no_probability(
    policy: Policy, contexts: np.ndarray
) -> None:
    longer = Actions(["never", *reversed(policy.actions.labels), "0"])
    moved = aligned(policy, longer)
    before, after = policy.probabilities(contexts), moved.probabilities(contexts)
    for label in policy.actions:
        np.testing.assert_array_equal(
            after[:, longer.index(label)], before[:, policy.actions.index(label)], strict=True
        )
    assert (after[:, [0, len(longer) - 1]] == 0).all()
    for code in range(len(longer)):
        asked = moved.probability(contexts, np.full(6, code, np.int32))
        np.testing.assert_allclose(asked, after[:, code], rtol=1e-14)


def test_a_policy_never_changes(policy: Policy) -> None:
    name = next(iter(vars(policy)))
    with pytest.raises(AttributeError, match="make a new policy"):
        setattr(policy, name, None)


def test_asking_and_acting_stores_nothing(policy: Policy, contexts: np.ndarray) -> None:
    before = dict(vars(policy))
    policy.probabilities(contexts)
    policy.act(contexts, 0)
    after = vars(policy)
    assert before.keys() == after.keys()
    assert all(before[name] is after[name] for name in before)


def test_a_policy_can_be_sent_to_another_process(policy: Policy, contexts: np.ndarray) -> None:
    if (
        "rule" in repr(vars(policy))
        or "function" in repr(vars(policy))
        or "Deterministic" in repr(policy)
    ):
        pytest.skip("a lambda cannot be pickled")
    again = pickle.loads(pickle.dumps(policy))
    np.testing.assert_array_equal(again.probabilities(contexts), policy.probabilities(contexts))


def test_codes_are_checked(policy: Policy, contexts: np.ndarray) -> None:
    with pytest.raises(UsageError, match="row 2"):
        policy.probability(contexts, np.array([0, 1, -1, 0, 0, 0]))
    with pytest.raises(UsageError, match="outside"):
        policy.probability(contexts, np.full(6, len(policy.actions)))
    with pytest.raises(UsageError, match="whole numbers"):
        policy.probability(contexts, np.zeros(6))
    if policy.needs_context:
        with pytest.raises(UsageError, match="6 contexts and 5"):
            policy.probability(contexts, np.zeros(5, np.int32))
        with pytest.raises(UsageError, match="needs the context"):
            policy.probability(None, np.zeros(5, np.int32))
