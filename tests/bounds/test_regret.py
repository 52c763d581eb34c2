"""Regret bounds against hand-worked numbers."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from piwo import bounds
from piwo.errors import UsageError

PLAN = {"n": 100, "gamma": 0.1, "coverage": 2.0, "log_class_size": math.log(50), "delta": 0.05}

plans = st.fixed_dictionaries(
    {
        "n": st.integers(1, 10**9),
        "gamma": st.floats(1e-4, 1.0),
        "coverage": st.floats(0.0, 1e3),
        "log_class_size": st.floats(0.0, 1e4),
        "delta": st.floats(1e-9, 0.5),
    }
)


def test_by_hand():
    # log(2 * 50/.05) = 7.600902;  7.600902/(.1 * 100) + 2 * .1 * 2
    assert bounds.regret_bound(**PLAN) == pytest.approx(0.7600902 + 0.4, abs=1e-7)
    # log(50/.05) = 6.907755
    assert bounds.regret_bound_alone(**PLAN) == pytest.approx(0.6907755 + 0.4, abs=1e-7)
    # log(50)/2 + log(20) = 1.956012 + 2.995732
    assert bounds.regret_bound_one_comparator(**PLAN) == pytest.approx(0.4951744 + 0.4, abs=1e-7)
    assert bounds.regret_bound_ls(**{**PLAN, "coverage": 1.5}) == pytest.approx(
        0.6907755 + 0.3, abs=1e-7
    )


@given(plans)
def test_each_sharper_statement_is_sharper(plan):
    joint, alone = bounds.regret_bound(**plan), bounds.regret_bound_alone(**plan)
    assert bounds.regret_bound_one_comparator(**plan) <= alone <= joint
    assert joint > 0


@given(plans)
def test_rises_with_coverage_and_class_and_falls_with_rows_and_delta(plan):
    for bound in (
        bounds.regret_bound,
        bounds.regret_bound_alone,
        bounds.regret_bound_one_comparator,
    ):
        middle = bound(**plan)
        assert bound(**{**plan, "coverage": plan["coverage"] + 1}) > middle
        assert bound(**{**plan, "log_class_size": plan["log_class_size"] + 1}) > middle
        assert bound(**{**plan, "n": 2 * plan["n"]}) < middle
        assert bound(**{**plan, "delta": 1.9 * plan["delta"]}) < middle


def test_gamma_by_hand():
    assert bounds.gamma_auto(100, math.log(50), 0.05) == pytest.approx(
        math.sqrt(0.07600902), abs=1e-8
    )
    assert bounds.gamma_auto(100, 1e4, 0.05) == pytest.approx(math.sqrt((1e4 + math.log(40)) / 100))
    assert bounds.gamma_linear(1_000_000, 17) == pytest.approx(math.sqrt(17e-6))


def test_no_coverage_no_regret_bound():
    assert bounds.regret_bound(100, 0.1, math.inf, 1.0, 0.05) == math.inf


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"n": 0}, "n is 0"),
        ({"gamma": 0.0}, "gamma is 0.0"),
        ({"coverage": math.nan}, "coverage is nan"),
        ({"log_class_size": -0.1}, "log_class_size is"),
        ({"delta": 1.0}, "delta is 1.0"),
    ],
)
def test_refuses(change, said):
    for bound in (
        bounds.regret_bound,
        bounds.regret_bound_alone,
        bounds.regret_bound_one_comparator,
    ):
        with pytest.raises(UsageError, match=said):
            bound(**{**PLAN, **change})


def test_plans_refuse():
    with pytest.raises(UsageError, match="width is 0"):
        bounds.gamma_linear(10, 0)
