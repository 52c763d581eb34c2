"""Acting: labels, exact propensities, and frequencies that agree with them."""

from typing import Any

import numpy as np
import pytest

from piwo.errors import UsageError
from piwo.logs import Features
from piwo.policies import (
    Column,
    Deterministic,
    Function,
    LinearSoftmax,
    Policy,
    Tabular,
    Uniform,
)
from piwo.policies.sampling import draw_rows, running_sums


def test_propensities_are_the_probabilities_of_the_actions(
    policy: Policy, contexts: np.ndarray
) -> None:
    many = np.repeat(contexts, 50, axis=0)
    actions, propensities = policy.act(many, random_state=1)
    codes = policy.actions.codes(actions)
    expected = policy.probabilities(many)[np.arange(len(many)), codes]
    np.testing.assert_allclose(propensities, expected, rtol=1e-14)
    assert (propensities > 0).all()


def test_frequencies_agree_with_propensities(policy: Policy, contexts: np.ndarray) -> None:
    # Pearson's statistic has here at most 24 degrees of freedom; 70 is beyond 1 in 10^6.
    rows = 4_000
    table = policy.probabilities(contexts)
    codes = policy.actions.codes(
        policy.act(np.repeat(contexts, rows, axis=0), random_state=7).actions
    )
    seen = np.stack([np.bincount(x, minlength=table.shape[1]) for x in codes.reshape(6, rows)])
    possible = table > 0
    assert (seen[~possible] == 0).all()
    expected = rows * table[possible]
    assert ((seen[possible] - expected) ** 2 / expected).sum() < 70


def test_the_same_seed_gives_the_same_actions(policy: Policy, contexts: np.ndarray) -> None:
    many = np.repeat(contexts, 20, axis=0)
    np.testing.assert_array_equal(policy.act(many, 3).actions, policy.act(many, 3).actions)
    rng = np.random.default_rng(3)
    np.testing.assert_array_equal(policy.act(many, rng).actions, policy.act(many, 3).actions)


def test_a_generator_advances_and_the_global_state_does_not() -> None:
    policy, rng = Uniform(range(1000)), np.random.default_rng(0)
    np.random.seed(5)  # noqa: NPY002
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    first, second = (
        policy.act(n=50, random_state=rng).actions,
        policy.act(n=50, random_state=rng).actions,
    )
    assert (first != second).any()
    assert (policy.act(n=50).actions != policy.act(n=50).actions).any()
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


def test_draws_do_not_depend_on_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(0).normal(size=(500, 2))
    policy = LinearSoftmax([[1, 0], [0, 1], [1, 1]], [0, 0, 0], ["a", "b", "c"])
    whole = policy.act(x, 0)
    monkeypatch.setattr("piwo.policies.blocks._BLOCK_BYTES", 1)
    parts = policy.act(x, 0)
    np.testing.assert_array_equal(parts.actions, whole.actions)
    np.testing.assert_allclose(parts.propensities, whole.propensities, rtol=1e-12)


def test_labels_keep_the_type_of_the_log() -> None:
    big = 1582218195625938945
    actions, _ = Uniform([big, big - 1]).act(n=100, random_state=0)
    assert actions.dtype == np.int64
    assert set(actions.tolist()) == {big, big - 1}
    assert Uniform(["01", "1"]).act(n=100, random_state=0).actions.dtype.kind == "U"


def test_rows_without_contexts_are_counted_by_n_or_by_x(contexts: np.ndarray) -> None:
    assert len(Uniform(["a"]).act(n=3).actions) == 3
    assert len(Uniform(["a"]).act(contexts).actions) == 6
    assert len(Uniform(["a"]).act({"x": [1.0, 2.0]}).actions) == 2
    with pytest.raises(UsageError, match="neither"):
        Uniform(["a"]).act()
    with pytest.raises(UsageError, match="n=4"):
        Uniform(["a"]).act(contexts, n=4)
    with pytest.raises(UsageError, match="whole number"):
        Uniform(["a"]).act(n=-1)


def test_random_state_is_checked() -> None:
    with pytest.raises(UsageError, match="random_state"):
        Uniform(["a"]).act(n=1, random_state=-1)


@pytest.mark.usefixtures("wrong_types")
def test_arguments_of_another_type() -> None:
    with pytest.raises(UsageError, match="random_state"):
        Uniform(["a"]).act(n=1, random_state="seed")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="whole number"):
        Uniform(["a"]).act(n=1.5)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="function"):
        Deterministic([1, 2], [1, 2])  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="RowWise"):
        Column([0.5])  # type: ignore[arg-type]


class Last(np.random.Generator):
    """The largest number that a generator can return."""

    def random(self, size: int) -> np.ndarray:  # type: ignore[override]
        return np.full(size, 1.0 - 2.0**-53)


class First(np.random.Generator):
    """The smallest number that a generator can return."""

    def random(self, size: int) -> np.ndarray:  # type: ignore[override]
        return np.zeros(size)


def test_the_smallest_random_number_passes_by_impossible_actions() -> None:
    assert draw_rows(
        np.array([[0.0, 0.0, 1.0], [0.5, 0.5, 0.0]]), First(np.random.PCG64(0))
    ).tolist() == [
        2,
        0,
    ]


def test_the_largest_random_number_still_finds_a_possible_action() -> None:
    table = np.array([[0.0, 0.1, 0.2, 0.0], [0.7, 0.2, 0.1, 0.0], [1 / 3, 1 / 3, 1 / 3, 0.0]])
    assert draw_rows(table, Last(np.random.PCG64(0))).tolist() == [2, 2, 2]


@pytest.mark.parametrize("shape", [(3, 40), (40, 3), (1, 1)])
def test_running_sums_are_those_of_numpy_bit_for_bit(shape: tuple[int, int]) -> None:
    weights = np.random.default_rng(0).random(shape)
    expected = np.cumsum(weights, axis=0)
    assert (running_sums(weights) == expected).all()


def test_tables_are_drawn_by_hand_worked_thresholds() -> None:
    rng = np.random.default_rng(4)
    u = np.random.default_rng(4).random(200)
    expected = np.where(u < 0.25, "b", np.where(u < 0.5, "a", "10"))
    actions, _ = Tabular([0.25, 0.25, 0.5], ["b", "a", "10"]).act(n=200, random_state=rng)
    np.testing.assert_array_equal(actions, expected)


@pytest.mark.parametrize("kind", [Deterministic, Function])
def test_a_function_may_have_features(kind: Any) -> None:
    def always(x: np.ndarray) -> Any:
        return np.tile([0.0, 1.0], (len(x), 1)) if kind is Function else ["b"] * len(x)

    policy = kind(always, ["a", "b"], Features.numeric(["x"]))
    assert policy.act({"x": [1.0, 2.0]}).actions.tolist() == ["b", "b"]
    assert policy.width == 1
