"""The union bound, the interval record, the normal interval, and what importing them costs."""

import math
import subprocess
import sys

import pytest

from piwo import bounds
from piwo.errors import UsageError


def test_union_by_hand():
    assert bounds.log_inv_delta(0.05) == pytest.approx(math.log(20))
    assert bounds.log_inv_delta(0.05, statements=2, log_class_size=math.log(50)) == pytest.approx(
        math.log(2000)
    )


def test_class_too_large_for_floating_point():
    log_size = 1e4
    assert math.exp(-log_size) * 0.05 == 0.0
    assert bounds.log_inv_delta(0.05, statements=2, log_class_size=log_size) == pytest.approx(
        1e4 + math.log(40)
    )
    assert bounds.log_inv_delta(5e-324) == pytest.approx(744.44, abs=0.01)


@pytest.mark.parametrize(
    ("delta", "options", "said"),
    [
        (0.0, {}, "delta is 0.0"),
        (1.0, {}, "delta is 1.0"),
        (math.nan, {}, "delta is nan"),
        (0.05, {"statements": 0}, "statements is 0"),
        (0.05, {"log_class_size": -1.0}, "log_class_size is -1.0"),
        (0.05, {"log_class_size": math.nan}, "log_class_size is nan"),
    ],
)
def test_union_refuses(delta, options, said):
    with pytest.raises(UsageError, match=said):
        bounds.log_inv_delta(delta, **options)


def test_reported_interval_keeps_the_raw_one():
    raw = bounds.Interval(-13.3, 1.7)
    assert raw.reported() == bounds.Interval(0.0, 1.0)
    assert (raw.lower, raw.upper) == (-13.3, 1.7)
    assert raw.says_nothing_below()
    assert raw.says_nothing_above()
    assert bounds.Interval(-0.2, 0.5).reported(-1.0, 1.0) == bounds.Interval(-0.2, 0.5)
    assert not bounds.Interval(0.1, 0.9).says_nothing_below()
    assert not bounds.Interval(0.1, 0.9).says_nothing_above()


def test_contradiction_stays_visible():
    assert bounds.Interval(1.4, None).reported() == bounds.Interval(1.4, None)
    assert bounds.Interval(1.4, None).says_nothing_above()


def test_normal_interval_by_hand():
    interval = bounds.normal_interval(0.657895, 0.247231, 0.05)
    assert interval.lower == pytest.approx(0.657895 - 1.959963985 * 0.247231, abs=1e-8)
    assert interval.upper == pytest.approx(0.657895 + 1.959963985 * 0.247231, abs=1e-8)
    assert interval.guarantee == "asymptotic"


@pytest.mark.parametrize("undefined", [None, math.nan])
def test_normal_interval_of_one_row_is_none_not_nan(undefined):
    assert bounds.normal_interval(0.5, undefined, 0.05) == bounds.Interval(None, None, "asymptotic")


def test_normal_interval_narrows_with_delta_and_keeps_tiny_ones():
    widths = [bounds.normal_interval(0.0, 1.0, delta).upper for delta in (0.5, 0.05, 1e-20, 1e-300)]
    assert widths == sorted(widths)
    assert widths[-1] == pytest.approx(37.06, abs=0.01)
    assert bounds.normal_interval(0.5, 0.0, 0.05) == bounds.Interval(0.5, 0.5, "asymptotic")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((0.5, 0.1, 0.0), "delta is"),
        ((math.nan, 0.1, 0.05), "mean is nan"),
        ((0.5, -0.1, 0.05), "standard_error is -0.1"),
        ((0.5, math.inf, 0.05), "standard_error is inf"),
    ],
)
def test_normal_interval_refuses(arguments, said):
    with pytest.raises(UsageError, match=said):
        bounds.normal_interval(*arguments)


def test_importing_bounds_loads_no_scipy():
    code = (
        "import sys, piwo.bounds; sys.exit(any(name.split('.')[0] == 'scipy' for name in "
        "sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_an_interval_is_empty_if_no_possible_value_is_in_it():
    outside = [(1.1, 4.3), (-2.0, -0.1), (0.7, 0.6), (1.1, None), (None, -0.1)]
    inside = [(-2.0, 0.1), (0.9, 4.3), (0.6, 0.7), (0.5, None), (None, 0.5), (None, None)]
    for guarantee in ("finite-sample", "asymptotic"):
        for ends in outside:
            assert bounds.Interval(*ends, guarantee).empty()
            # right propensities and few rows can do it, where nothing is proved
            assert bounds.Interval(*ends, guarantee).contradicts() == (guarantee == "finite-sample")
        for ends in inside:
            assert not bounds.Interval(*ends, guarantee).empty()
    assert not bounds.Interval(7.0, 9.0).empty(math.inf)
    assert not bounds.Interval(1.1, 4.3).empty(2.0)


def test_rounding_empties_no_interval():
    for ends in ((1.0 + 1e-15, 1.5), (-1.0, -1e-15), (0.3 + 1e-16, 0.3 - 1e-16)):
        raw = bounds.Interval(*ends)
        assert not raw.empty()
        shown = raw.reported()
        assert 0.0 <= shown.lower <= shown.upper <= 1.0
    assert bounds.Interval(0.5 + 1e-15, 0.5).reported() == bounds.Interval(0.5, 0.5 + 1e-15)
