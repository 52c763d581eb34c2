"""lcb_mean, the bound for a plain array."""

import numpy as np
import pytest

from piwo.bounds import lcb_mean
from piwo.errors import UsageError

SIX = np.array([2.0, 0.0, 20.0, 0.0, 0.5 / 0.3, 20.0])


def test_golden_value():
    assert lcb_mean(np.tile(SIX, 100), 0.05) == pytest.approx(6.11626306, abs=1e-8)


def test_order_type_and_container_do_not_matter():
    y = np.tile(SIX, 100)
    bound = lcb_mean(y, 0.05)
    assert lcb_mean(np.random.default_rng(0).permutation(y), 0.05) == pytest.approx(
        bound, rel=1e-12
    )
    assert lcb_mean(y.tolist(), 0.05) == bound
    assert lcb_mean(np.repeat(y, 2)[::2], 0.05) == bound
    assert lcb_mean(np.tile([1, 0, 3], 50), 0.05) == lcb_mean(np.tile([1.0, 0.0, 3.0], 50), 0.05)
    assert lcb_mean(np.tile([True, False], 50), 0.05) == lcb_mean(np.tile([1.0, 0.0], 50), 0.05)


def test_a_declared_horizon_costs_little_and_more_rows_help():
    y = np.tile(SIX, 100)
    assert lcb_mean(y, 0.05, "universal") < lcb_mean(y, 0.05, 10_000) < lcb_mean(y, 0.05) < y.mean()
    assert lcb_mean(np.tile(y, 10), 0.05) > lcb_mean(y, 0.05)
    assert lcb_mean(y, 0.2) > lcb_mean(y, 0.05) > lcb_mean(y, 1e-300) > 0.0


def test_degenerate_logs():
    assert lcb_mean([], 0.05) == 0.0
    assert lcb_mean([1.0], 0.05) < 1.0
    assert lcb_mean(np.zeros(1000), 0.05) == 0.0


def test_values_whose_sum_overflows():
    # with every y equal, a large bet proves y delta^(1/n) of it, but for the share of the grid
    assert 0.85 * 1e308 < lcb_mean([1e308] * 50, 0.05) < 0.95 * 1e308


@pytest.mark.parametrize(
    ("y", "said"),
    [
        ([1.0, np.nan, 0.0, np.nan], r"2 of 4 values .*row 1: nan, row 3: nan"),
        ([1.0, np.inf], "row 1: inf"),
        ([-0.5, 1.0], "row 0: -0.5"),
        ([[1.0, 2.0]], r"shape \(1, 2\)"),
        (np.array(3.0), r"shape \(\)"),
        (["a", "b"], "cannot be read as numbers"),
        ([1.0, {}], "cannot be read as numbers"),
        ([1.0, None], "row 1: nan"),
    ],
)
def test_bad_values_are_named(y, said):
    with pytest.raises(UsageError, match=said):
        lcb_mean(y, 0.05)


@pytest.mark.parametrize("delta", [0.0, 1.0, -0.1, 5.0, np.nan])
def test_bad_delta(delta):
    with pytest.raises(UsageError, match="delta is"):
        lcb_mean([1.0], delta)
