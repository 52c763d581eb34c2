"""Bet sums against a twin that adds logarithms exactly, over the whole range of float64."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from piwo.reductions import BETS, bet_sums
from piwo.reductions.bets import bet_sums_of_logs


def twin(y: list[float]) -> list[float]:
    """The definition, one logarithm a row, added without rounding."""
    return [math.fsum(log1p_product(bet, v) for v in y) for bet in BETS.tolist()]


def log1p_product(bet: float, v: float) -> float:
    return math.log1p(bet * v) if v < 1e300 else math.log(bet) + math.log(v)


SIZES = [1e-300, 1e-30, 1e-9, 0.3, 1.0, 7.7, 511.9, 512.1, 1e6, 9.9e11, 1.1e12, 1e100, 1e290, 1e300]


@pytest.mark.parametrize("value", SIZES)
@pytest.mark.parametrize("count", [1, 2, 1000])
def test_one_size_many_times(value: float, count: int) -> None:
    assert bet_sums(np.full(count, value)) == pytest.approx(
        twin([value] * count), rel=1e-12, abs=1e-300
    )


@given(
    st.lists(
        st.sampled_from([0.0, *SIZES])
        | st.floats(0, 1e300, allow_subnormal=False).filter(lambda x: x == 0 or x > 1e-290),
        max_size=60,
    )
)
def test_any_numbers(y: list[float]) -> None:
    assert bet_sums(np.array(y)) == pytest.approx(twin(y), rel=1e-12, abs=1e-300)


def test_many_rows_lose_no_digits() -> None:
    random = np.random.default_rng(0)
    y = np.where(random.random(50_000) < 0.5, 0.0, random.exponential(3.0, 50_000))
    assert bet_sums(y) == pytest.approx(twin(y.tolist()), rel=1e-12, abs=0)
    # what would happen if products were kept instead of their excess over 1: the small bets vanish
    small = np.full(3, 1e-10)
    assert np.log(np.prod(1 + BETS[-1] * small)) == 0.0
    assert bet_sums(small)[-1] == pytest.approx(3e-10 * BETS[-1], rel=1e-12)


def test_numbers_beyond_float64_come_as_logarithms() -> None:
    sums = bet_sums_of_logs(np.array([0.0, 1000.0, -np.inf, 2000.0]))
    assert sums == pytest.approx(np.log1p(BETS) + 3000.0 + 2 * np.log(BETS), rel=1e-14)
    y = np.array([0.0, 1e-9, 0.3, 7.7, 1e13])
    with np.errstate(divide="ignore"):
        assert bet_sums_of_logs(np.log(y)) == pytest.approx(bet_sums(y), rel=1e-12)


def test_nothing_and_zeros_add_nothing() -> None:
    assert bet_sums([]).tolist() == [0.0] * 48
    assert bet_sums(np.zeros(9)).tolist() == [0.0] * 48
    assert (BETS[0], BETS[47]) == (32.0, 32.0 * 2.0**-47)
    with pytest.raises(ValueError, match="read-only"):
        BETS[0] = 1.0


def test_float32_input_is_summed_in_float64() -> None:
    y = np.full(100_000, 1 / 3, np.float32)
    assert bet_sums(y) == pytest.approx(100_000 * np.log1p(BETS * float(y[0])), rel=1e-12)
