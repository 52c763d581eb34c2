"""The grid of PIWO-Grid and its regret bounds, against numbers worked by hand and against each
other."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from piwo import bounds
from piwo.errors import UsageError

CLASS = math.log(200)
plans = st.tuples(st.integers(1, 10**9), st.floats(0.0, 2e3), st.floats(1e-9, 0.5))
grids = st.sampled_from([bounds.gamma_grid_ix, bounds.gamma_grid_ls])


def test_by_hand():
    # floor(log2 1000) + 1 = 10; mixture: log(2 * 200/.05) = 8.987197, ceil(log2(32 *
    # 1000/8.987197)) + 1 = 13
    grid = bounds.gamma_grid_ix(1000, CLASS, 0.05)
    assert grid.penalty == pytest.approx(8.987197 + math.log(13), abs=1e-6)
    # L/n = .0115: 2^-6 = .0156 is in, 2^-7 = .0078 is not
    assert grid.gammas == (1.0, 0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625)
    # floor(log2 1000) + 6 = 15
    grid = bounds.gamma_grid_ls(1000, CLASS, 0.05)
    assert grid.penalty == pytest.approx(8.987197 + math.log(15), abs=1e-6)
    assert (grid.bets[0], grid.bets[-1]) == (32.0, 2 * 0.015625)


@given(plans, grids)
def test_the_grid_is_every_octave_from_the_largest_to_the_last_that_is_useful(plan, make):
    grid = make(*plan)
    assert all(a == 2 * b for a, b in zip(grid.gammas, grid.gammas[1:], strict=False))
    if not grid.gammas:
        assert grid.largest < grid.penalty / grid.rows
        return
    assert grid.gammas[0] == grid.largest
    assert grid.gammas[-1] / 2 < grid.penalty / grid.rows <= grid.gammas[-1]
    # the union that L pays for: as many gammas as there are, and as many bets as the mixture has
    n, size, delta = plan
    mixture = bounds.grid_size(n, math.log(2 / delta) + size)
    paid = math.exp(grid.penalty - size) * delta / 2
    assert paid * (1 + 1e-9) >= max(len(grid.gammas), mixture)
    # every bet of the grid is one of the mixture's
    assert grid.bets[-1] >= 32.0 * 2.0 ** (1 - mixture)


def test_regret_by_hand():
    grid = bounds.GammaGrid((1.0, 0.5, 0.25), penalty=5.0, rows=100, largest=1.0, smoothing=1.0)
    # 5/100 + 2 * .6 = 1.25;  5/50 + .6 = .7;  5/25 + .5 * .6 = .5
    assert bounds.regret_bound_grid(grid, 0.6) == pytest.approx(0.5)
    assert bounds.regret_bound_grid(grid, 0.01) == 0.01  # no regret exceeds a value, no value C_0
    # C_gamma = .3/(.5 + gamma) = .2, .3, .4 at 1, .5, .25: .45, .4, .4; no more than (1 + gamma)
    # C_gamma is .4, .45, .5
    assert bounds.regret_bound_grid(grid, lambda gamma: 0.3 / (0.5 + gamma)) == pytest.approx(0.4)
    smoothed = bounds.GammaGrid((1.0, 0.5, 0.25), penalty=5.0, rows=100, largest=1.0, smoothing=2.0)
    # C at 2 gamma = .12, .2, .3: .29, .3, .35
    assert bounds.regret_bound_grid(smoothed, lambda gamma: 0.3 / (0.5 + gamma)) == pytest.approx(
        0.29
    )
    assert bounds.regret_bound_grid_root(grid, 0.3) == pytest.approx(3 * math.sqrt(0.3 * 5 / 100))
    # (5 + log(2/.05))/2 = 4.34444: 4.34444/25 + .5 * .6 = .473778
    assert bounds.regret_bound_grid_one_comparator(grid, 0.6, 0.05) == pytest.approx(
        0.473778, abs=1e-6
    )
    # bets 2, 1, .5: 10/200 + .4 = .45, .1 + .2 = .3, .2 + .1 = .3; 2 * .8 * 5/100 = .08
    assert bounds.regret_bound_grid_variance(
        smoothed, 0.2, value=0.8, missing=0.1
    ) == pytest.approx(0.48)


def test_the_figures_of_a_rare_comparator():
    """A comparator of value .9 that the logger plays with probability eps, among 200 policies."""

    def bound(n, eps):
        return bounds.regret_bound_grid(
            bounds.gamma_grid_ix(n, CLASS, 0.05), lambda gamma: 0.9 / (eps + gamma)
        )

    # .592 and .402 with L = log(2|Pi| m/delta) for the grid alone; L also pays for the mixture here
    assert bound(10_000, 0.02) == pytest.approx(0.592, abs=0.01)
    assert bound(100_000, 0.005) == pytest.approx(0.402, abs=0.01)


@given(plans, grids, st.floats(0.0, 1e4, allow_subnormal=False), st.floats(0.0, 1.0))
def test_the_closed_forms_are_never_below(plan, make, coverage, value):
    grid = make(*plan)
    one = bounds.regret_bound_grid_one_comparator(grid, coverage, plan[2])
    assert (
        one
        <= bounds.regret_bound_grid(grid, coverage)
        <= bounds.regret_bound_grid_root(grid, coverage) * (1 + 1e-9)
    )
    if make is bounds.gamma_grid_ls:
        closed = (
            3 * math.sqrt(coverage * grid.penalty / grid.rows)
            + 2 * (1 + value) * grid.penalty / grid.rows
        )
        assert bounds.regret_bound_grid_variance(grid, coverage, value) <= closed * (1 + 1e-9)


@given(plans, grids, st.floats(0.0, 1e3))
def test_regret_falls_with_delta_and_rises_with_coverage_and_class(plan, make, coverage):
    n, size, delta = plan
    bound = bounds.regret_bound_grid(make(n, size, delta), coverage)
    assert 0 <= bound <= 1
    assert bounds.regret_bound_grid(make(n, size, 1.9 * delta), coverage) <= bound * (1 + 1e-9)
    assert bounds.regret_bound_grid(make(n, size, delta), coverage + 1) >= bound
    assert bounds.regret_bound_grid(make(n, size + 1, delta), coverage) >= bound * (1 - 1e-9)


def test_too_few_rows_say_nothing():
    grid = bounds.gamma_grid_ix(5, CLASS, 0.05)
    assert grid.gammas == ()
    assert bounds.regret_bound_grid(grid, lambda gamma: 0.001) == 1.0
    assert bounds.regret_bound_grid_root(grid, 100.0) == 1.0
    assert bounds.gamma_grid_ls(5, CLASS, 0.05).gammas == (16.0, 8.0, 4.0)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: bounds.gamma_grid_ix(0, 1.0, 0.05), "n is 0"),
        (lambda: bounds.gamma_grid_ls(10, -1.0, 0.05), "log_class_size is"),
        (lambda: bounds.gamma_grid_ls(10, 1.0, 0.0), "delta is"),
        (
            lambda: bounds.regret_bound_grid(bounds.gamma_grid_ix(100, 1.0, 0.05), lambda _: -1.0),
            "coverage is -1",
        ),
        (
            lambda: bounds.regret_bound_grid_variance(bounds.gamma_grid_ix(100, 1.0, 0.05), 1.0),
            "gamma_grid_ls",
        ),
    ],
)
def test_refuses(call, said):
    with pytest.raises(UsageError, match=said):
        call()
