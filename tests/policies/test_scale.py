"""D23: the table of rows x actions that nobody needs is not made, and says so before it is."""

import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest

from piwo.errors import UsageError
from piwo.logs.batch import Batch
from piwo.policies import (
    Deterministic,
    EpsilonGreedy,
    LinearGreedy,
    LinearSoftmax,
    Mixture,
    Uniform,
    aligned,
)
from piwo.policies.blocks import row_blocks

N, K = 200_000, 20_000
MEGABYTE = 10**6


def peak(work: Callable[[], object]) -> float:
    """Most memory that the work held at one time, in bytes."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.fixture(scope="module")
def log() -> Batch:
    action = (np.arange(N) % K).astype(np.int32)
    rows = np.arange(N, dtype=np.float64)[:, None]
    return Batch(0, action, np.ones(N), np.full(N, 1 / K), context=rows)


def rule(x: np.ndarray) -> np.ndarray:
    """The logged action on even rows, its neighbor on odd ones."""
    row = x[:, 0].astype(np.int64)
    return (row + row % 2) % K


def test_d23_epsilon_greedy_around_a_rule(log: Batch) -> None:
    found = {}

    def value() -> None:
        policy = EpsilonGreedy(Deterministic(rule, range(K)), 0.1)
        pi = policy.logged(log)
        found["g = 0"] = np.mean(pi * K)
        found["g = 1/K"] = np.mean(pi * K / 2)

    assert peak(value) < 100 * MEGABYTE
    assert found["g = 0"] == pytest.approx(9000.1, rel=1e-9)
    assert found["g = 1/K"] == pytest.approx(4500.05, rel=1e-9)


def test_d23_acting_needs_no_table(log: Batch) -> None:
    policy = EpsilonGreedy(Deterministic(rule, range(K)), 0.1)
    assert peak(lambda: policy.act(log.context, 0)) < 100 * MEGABYTE
    assert peak(lambda: aligned(policy, Uniform(range(K + 1)).actions).logged(log)) < 100 * MEGABYTE
    assert (
        peak(lambda: Mixture([policy, Uniform(range(K))], [0.5, 0.5]).act(log.context, 0))
        < 100 * MEGABYTE
    )


@pytest.mark.parametrize("kind", [LinearGreedy, LinearSoftmax])
def test_d23_linear_policies_work_in_blocks(kind: type[LinearGreedy] | type[LinearSoftmax]) -> None:
    rng = np.random.default_rng(0)
    policy = kind(rng.normal(size=(K, 3)), np.zeros(K), range(K))
    x = rng.normal(size=(2_000, 3))
    assert peak(lambda: policy.probability(x, np.zeros(2_000, np.int32))) < 100 * MEGABYTE
    assert peak(lambda: policy.act(x, 0)) < 100 * MEGABYTE


def test_d23_a_dense_table_is_refused_before_it_is_made(log: Batch) -> None:
    policy = Uniform(range(50_000))

    def ask() -> None:
        with pytest.raises(UsageError, match=r"400\.0 GB.*probability\(X, codes\)"):
            policy.probabilities(n=1_000_000)

    assert peak(ask) < MEGABYTE
    with pytest.raises(UsageError, match=r"32\.0 GB"):
        EpsilonGreedy(Deterministic(rule, range(K)), 0.1).full(log)
    with pytest.raises(UsageError, match=r"32\.0 GB"):
        LinearSoftmax(np.zeros((K, 1)), np.zeros(K), range(K)).log_probabilities(log.context)


def test_blocks_cover_every_row_once_and_stay_small() -> None:
    for rows in (0, 1, 63, 64, 65, 65_536):
        for actions in (1, 26, 20_000, 10**7, 10**8):
            blocks = list(row_blocks(rows, actions))
            if rows * actions < 10**8:
                assert [i for x in blocks for i in range(x.start, x.stop)] == list(range(rows))
            assert all(
                (x.stop - x.start) * actions * 8 <= 2**26 or x.stop - x.start == 1 for x in blocks
            )
