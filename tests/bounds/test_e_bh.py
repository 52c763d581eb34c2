"""e-BH against hand-worked numbers, the definition written out, and a simulation with dependent
e-values."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from piwo import bounds
from piwo.errors import UsageError

logs = st.lists(st.floats(-5.0, 15.0), min_size=1, max_size=12)


def naive(log_e, rate):
    """The definition, hypothesis by hypothesis."""
    e, n, kept = [math.exp(x) for x in log_e], len(log_e), 0
    for k in range(1, n + 1):
        if sum(x >= n / (rate * k) for x in e) >= k:
            kept = k
    return [kept > 0 and x >= n / (rate * kept) for x in e]


def test_by_hand():
    # N / (rate k) is 40, 20, 13.33, 10: the third largest reaches 13.33, the fourth not 10
    assert bounds.e_bh(np.log([15.0, 1.0, 39.0, 14.0]), 0.1).tolist() == [True, False, True, True]
    assert bounds.e_bh(np.log([19.0, 19.0, 1.0, 1.0]), 0.1).tolist() == [False] * 4
    assert bounds.e_bh([], 0.1).tolist() == []
    assert bounds.e_bh([-math.inf, 1e4], 0.1).tolist() == [False, True]


@given(logs, st.floats(0.01, 0.5))
def test_definition(log_e, rate):
    assert bounds.e_bh(log_e, rate).tolist() == naive(log_e, rate)


@given(logs, st.floats(0.01, 0.25))
def test_rejects_more_with_a_larger_rate_and_at_least_what_a_union_bound_does(log_e, rate):
    some = bounds.e_bh(log_e, rate)
    assert np.all(some <= bounds.e_bh(log_e, 2 * rate))
    assert np.all(some[np.asarray(log_e) > math.log(len(log_e) / rate) + 1e-9])


def test_false_discoveries_under_the_worst_dependence():
    """All true hypotheses share one e-value, 1/p where a uniform number is below p: none is
    worse."""
    rng, n, true, rate = np.random.default_rng(0), 20, 15, 0.1
    shares = []
    for _ in range(4000):
        level = rate  # evidence that just suffices for all of them together
        shared = math.log(1 / level) if rng.random() < level else -math.inf
        rejected = bounds.e_bh([shared] * true + [6.0] * (n - true), rate)
        shares.append(rejected[:true].sum() / max(1, rejected.sum()))
    assert 0.06 < np.mean(shares) <= rate + 3 * np.std(shares) / math.sqrt(len(shares))


def test_refuses():
    with pytest.raises(UsageError, match="NaN"):
        bounds.e_bh([math.nan], 0.1)
    with pytest.raises(UsageError, match=r"delta is 1\.5"):
        bounds.e_bh([0.0], 1.5)
