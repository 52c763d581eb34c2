"""The deadline bound against golden values, a naive twin row by row, and its laws."""

import dataclasses
import math
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_ndtr

from piwo import bounds
from piwo.bounds.deadline import (
    DESIGN,
    Blocks,
    Design,
    Mixture,
    deadline_log_e_value,
    deadline_lower,
    log_wealth,
)
from piwo.bounds.kernels import _quantile
from piwo.errors import UsageError
from piwo.reductions.bets import BETS
from piwo.reductions.blocks import BLOCK_BETS

LOG20 = math.log(20.0)
MU = np.array([0.5, 0.1, 0.02, 0.8, 0.3, 0.05])
PI = np.array([1.0, 0.0, 0.5, 0.25, 1.0, 1.0])
R = np.array([1.0, 0.4, 0.8, 0.0, 0.5, 1.0])
SIX = np.tile(PI * R / MU, 100).reshape(60, 10)
FIVE = np.tile([1.0, 1.1, 0.9, 1.4, 0.8], 200).reshape(50, 20)


PLAIN = Design(
    share=0.75,
    cap=0.8,
    factor=1.0,
    aim=0.0,
    skip_first=False,
    resolution=32.0,
    prior_rows=4.0,
)


def of_few_bets(y):
    """The sums for the 16 bets that are kept by block."""
    blocks = Blocks.of(y)
    return dataclasses.replace(blocks, sums=blocks.sums[:, :, :32:2], bets=BLOCK_BETS)


def mixture_of(y, penalty=LOG20):
    """The mixture of the bets that are useful for this number of rows."""
    mixture = Mixture.of(y)
    size = bounds.grid_size(mixture.n, penalty)
    return dataclasses.replace(mixture, bet_weights=np.full(size, 1.0 / size))


# --- golden values


def test_golden_wealth_of_the_plain_design():
    target = LOG20 - math.log(0.75)
    means = np.array([1.0, 5.0, 6.5, 7.0])
    assert log_wealth(Blocks.of(SIX), means, target, design=PLAIN) == pytest.approx(
        [4.12406434, 3.28342192, -6.94227301, -39.58966953], abs=1e-8
    )
    assert mixture_of(SIX).log_wealth(means) == pytest.approx(
        [398.32132955, 18.99967872, 0.37029703, -1.77490340], abs=1e-8
    )
    assert log_wealth(Blocks.of(FIVE), np.ones(1), target, design=PLAIN) == pytest.approx(
        [3.28341454], abs=1e-8
    )


@pytest.mark.parametrize(
    ("y", "plain", "shipped", "mixture"),
    [
        (SIX, 6.18302724, 6.27440976, 6.11626306),
        (FIVE, 1.02197871, 1.02349473, 1.02060392),
    ],
)
def test_golden_bounds(y, plain, shipped, mixture):
    assert mixture_of(y).lower(LOG20) == pytest.approx(mixture, abs=1e-8)
    assert deadline_lower(Blocks.of(y), mixture_of(y), LOG20, design=PLAIN) == pytest.approx(
        plain, abs=1e-8
    )
    assert deadline_lower(of_few_bets(y), mixture_of(y), LOG20) == pytest.approx(shipped, abs=1e-8)


def test_golden_wealth_of_the_shipped_design():
    target = LOG20 - math.log(DESIGN.share)
    found = log_wealth(of_few_bets(SIX), np.array([1.0, 5.0, 6.5, 7.0]), target)
    assert found == pytest.approx([3.12445977, 3.12115510, -3.09464093, -48.46623065], abs=1e-8)
    assert log_wealth(of_few_bets(FIVE), np.ones(1), target) == pytest.approx(
        [3.11219745], abs=1e-8
    )
    assert list(BLOCK_BETS) == [32.0 * 4.0**-j for j in range(16)]


# --- a naive twin: row by row, with products


def naive_variance(design, mean, rows):
    """V from the earlier rows themselves."""
    n = len(rows)
    if design is PLAIN:
        around = math.fsum((y - mean) ** 2 for y in rows)
        return max((around + 4 * max(mean / 4, 1e-3)) / (n + 4), 1e-9)
    total, squares = math.fsum(rows), math.fsum(y * y for y in rows)
    if total == 0:
        return mean
    around = math.fsum((y - mean) ** 2 for y in rows)
    effective = total**2 / squares
    rare = max(0.0, mean * squares / total - mean**2)
    found = (effective * (around + mean**2 / 4) / (n + 1) + rare) / (effective + 1)
    return max(found, 1e-12 * mean**2)


def naive_wealth(parts, mean, delta, design, bets):
    """The wealth of a player who bets on one row after the other."""
    normal = NormalDist()
    target, wealth, earlier = 1 / (delta * design.share), 1.0, []
    left = sum(len(part) for part in parts)
    stakes = [bet / (1 + bet * mean) for bet in bets]
    for part in parts:
        if not part:
            continue
        if wealth < target and (earlier or not design.skip_first):
            p = min(wealth / target * math.exp(-design.aim), 1 - 1e-15)
            hedge = normal.pdf(normal.inv_cdf(p)) / p
            stake = design.factor * hedge
            stake /= math.sqrt(naive_variance(design, mean, earlier) * left)
            stake = min(max(min(stake, design.cap / mean), stakes[-1]), stakes[0])
            j = max(i for i in range(len(bets) - 1) if stakes[i] >= stake)
            larger = (stake - stakes[j + 1]) / (stakes[j] - stakes[j + 1])
            accounts = [larger * wealth, (1 - larger) * wealth]
            for y in part:
                accounts[0] *= 1 + stakes[j] * (y - mean)
                accounts[1] *= 1 + stakes[j + 1] * (y - mean)
            wealth = sum(accounts)
        left -= len(part)
        earlier += part
    return wealth


ys = st.lists(
    st.lists(st.sampled_from([0.0, 0.0, 0.5, 1.0, 1.25, 3.0]) | st.floats(0.0, 9.0), max_size=6),
    min_size=1,
    max_size=7,
).map(lambda parts: [[round(y, 6) for y in part] for part in parts])


@pytest.mark.parametrize("design", [PLAIN, DESIGN], ids=["plain", "shipped"])
@settings(max_examples=150)
@given(parts=ys, mean=st.floats(0.01, 5.0), delta=st.floats(0.001, 0.4))
def test_a_naive_twin_has_the_same_wealth(design, parts, mean, delta):
    target = -math.log(delta) - math.log(design.share)
    found = log_wealth(Blocks.of(parts), np.array([mean]), target, design=design)[0]
    naive = naive_wealth(parts, mean, delta, design, [float(bet) for bet in BETS])
    assert found == pytest.approx(math.log(naive), rel=1e-9, abs=1e-9)


def test_the_normal_quantile_is_exact_from_the_far_tail_to_one():
    logs = -np.geomspace(1e-13, 599.0, 2001)
    found = log_ndtr(np.array([_quantile(one) for one in logs]))
    np.testing.assert_allclose(found, logs, rtol=1e-12)


# --- the walk


def all_of_the_grid(blocks, mixture, penalty, design, least, most):
    """Every value of the grid between two, and log C there, by its definition."""
    step = 1.0 / (design.resolution * math.sqrt(mixture.n))
    exponents = np.arange(math.ceil(math.log(least) / step), math.floor(math.log(most) / step))
    values = np.exp(exponents * step)
    return values, total(blocks, mixture, values, penalty, design)


def total(blocks, mixture, values, penalty, design):
    """Log C."""
    won = log_wealth(blocks, values, penalty - math.log(design.share), design=design)
    safe = mixture.log_wealth(values)
    return np.logaddexp(math.log(design.share) + won, math.log(1 - design.share) + safe)


@pytest.mark.parametrize("design", [PLAIN, DESIGN], ids=["plain", "shipped"])
@pytest.mark.parametrize("n", [6, 40, 300])
def test_the_bound_is_the_last_of_the_values_that_are_all_refuted(design, n):
    random = np.random.default_rng(n)
    for _ in range(6):
        y = np.where(random.random((6, n)) < 0.4, random.exponential(2.0, (6, n)), 0.0)
        blocks, mixture = Blocks.of(y), mixture_of(y)
        lower = deadline_lower(blocks, mixture, LOG20, design=design)
        values, logs = all_of_the_grid(blocks, mixture, LOG20, design, 0.02, 3.0)
        first_kept = int(np.argmax(logs < LOG20))
        assert lower == pytest.approx(values[first_kept - 1], rel=1e-12)
        # M falls, so that below the values tried here everything is refuted
        assert mixture.log_wealth(values[:1])[0] + math.log(1 - design.share) >= LOG20


def islands(design):
    """A log that refutes a value, not a larger one, and again a still larger one."""
    for seed in range(60):
        random = np.random.default_rng(seed)
        # blocks of like rows, in any order: the largest come now early, now late
        y = np.where(random.random((6, 30)) < 0.3, random.exponential(3.0, (6, 30)), 0.0)
        y = -np.sort(-y.ravel()).reshape(6, 30)[random.permutation(6)]
        blocks, mixture = Blocks.of(y), mixture_of(y)
        values = np.geomspace(0.05, 6.0, 800)
        logs = total(blocks, mixture, values, LOG20, design)
        first_kept = int(np.argmax(logs < LOG20))
        beyond = np.flatnonzero(logs[first_kept:] >= LOG20 + 1e-6)
        if len(beyond):
            return blocks, mixture, values[first_kept], values[first_kept + beyond[-1]]
    raise AssertionError("no log has islands")


@pytest.mark.parametrize("design", [PLAIN, DESIGN], ids=["plain", "shipped"])
def test_values_chosen_from_the_data_would_jump_a_gap(design):
    """C is not monotone: a walk over values of one's choice passes values that are not refuted."""
    blocks, mixture, kept, refuted = islands(design)
    assert refuted > kept
    lower = deadline_lower(blocks, mixture, LOG20, design=design)
    chosen = np.array([lower, refuted])
    assert (total(blocks, mixture, chosen, LOG20, design) >= LOG20).all()
    step = math.exp(1.0 / (design.resolution * math.sqrt(mixture.n)))
    assert lower < kept * step
    assert lower < refuted
    assert total(blocks, mixture, np.array([lower * step]), LOG20, design)[0] < LOG20


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_the_grid_is_of_the_number_of_rows_alone(scale):
    y = np.random.default_rng(3).random((20, 30)) * scale
    lower = deadline_lower(of_few_bets(y), mixture_of(y), LOG20)
    place = math.log(lower) * DESIGN.resolution * math.sqrt(600)
    assert place == pytest.approx(round(place), abs=1e-6)


# --- corners


def test_no_rows():
    assert deadline_lower(Blocks.of([[]]), Mixture.of([[]]), LOG20) == 0.0
    assert log_wealth(Blocks.of([[], []]), np.array([0.5, 2.0]), LOG20).tolist() == [0.0, 0.0]


def test_all_zero():
    y = np.zeros((10, 5))
    assert deadline_lower(Blocks.of(y), mixture_of(y), LOG20) == 0.0
    assert (log_wealth(Blocks.of(y), np.array([0.1, 1.0]), LOG20) < 0.0).all()


def test_one_number_again_and_again():
    for value in (1e-6, 0.3, 1.0, 1e6):
        y = np.full((64, 50), value)
        lower = deadline_lower(of_few_bets(y), Mixture.of(y), LOG20)
        assert lower <= value
        if value >= 0.3:
            assert lower > 0.99 * value


@pytest.mark.parametrize("most", [1e10, 1e154, 1e160, 1e300])
def test_huge_numbers(most):
    y = np.random.default_rng(0).random((12, 9))
    y[5, 5] = most
    with np.errstate(over="ignore"):
        blocks = Blocks.of(y)
    for last in (blocks, dataclasses.replace(blocks, squares=np.full((1, 12), np.inf))):
        lower = deadline_lower(last, mixture_of(y), LOG20)
        assert 0.0 <= lower <= float(np.mean(y))
        assert np.isfinite(log_wealth(last, np.array([0.1, 1.0, 1e5]), LOG20)).all()


@pytest.mark.parametrize("position", [0, 3])
def test_infinite_squares_are_bet_on_as_rarely_as_can_be(position):
    y = np.ones((8, 10))
    y[position, 0] = 1e200
    with np.errstate(over="ignore"):
        blocks = Blocks.of(y)
    assert np.isinf(blocks.squares).any()
    assert np.isfinite(log_wealth(blocks, np.array([2.0]), LOG20)).all()


def test_blocks_without_rows_do_not_count():
    y = np.random.default_rng(1).random((9, 20)).tolist()
    gaps = [[], *y[:4], [], [], *y[4:], []]
    means = np.array([0.2, 0.4, 0.5, 0.7])
    assert log_wealth(Blocks.of(gaps), means, LOG20).tolist() == pytest.approx(
        log_wealth(Blocks.of(y), means, LOG20).tolist(), rel=1e-14
    )
    assert deadline_lower(Blocks.of(gaps), mixture_of(y), LOG20) == deadline_lower(
        Blocks.of(y), mixture_of(y), LOG20
    )


def test_one_block_is_not_bet_on():
    y = np.random.default_rng(1).random((1, 200))
    assert log_wealth(Blocks.of(y), np.array([0.1, 0.9]), LOG20).tolist() == [0.0, 0.0]
    lower = deadline_lower(Blocks.of(y), mixture_of(y), LOG20)
    assert 0.0 < lower < mixture_of(y).lower(LOG20)


def test_rows_after_the_plan_are_not_bet_on():
    y = np.random.default_rng(5).random((10, 10))
    means = np.array([0.1, 0.3, 0.45])
    planned = log_wealth(Blocks.of(y), means, LOG20, planned=60.0)
    first = log_wealth(Blocks.of(y[:6]), means, LOG20, planned=60.0)
    assert planned.tolist() == first.tolist()


# --- laws


@settings(max_examples=40)
@given(parts=ys, small=st.floats(0.001, 0.3), times=st.floats(1.05, 3.0))
def test_less_confidence_is_a_larger_bound(parts, small, times):
    """Up to the number of the mixture's bets, which is the same here."""
    blocks, mixture = Blocks.of(parts), Mixture.of(parts)
    one = deadline_lower(blocks, mixture, -math.log(small))
    other = deadline_lower(blocks, mixture, -math.log(small * times))
    assert one <= other * (1 + 1e-12) or one == pytest.approx(other, rel=0.2)


@pytest.mark.parametrize("seed", range(5))
def test_bounds_rise_with_delta(seed):
    y = np.random.default_rng(seed).random((64, 20))
    blocks, mixture = of_few_bets(y), Mixture.of(y)
    found = [deadline_lower(blocks, mixture, -math.log(d)) for d in (1e-9, 1e-3, 0.02, 0.1, 0.4)]
    assert found == sorted(found)
    assert found[0] > 0.0


@settings(max_examples=60)
@given(parts=ys, null=st.floats(0.05, 3.0))
def test_an_e_value_is_the_mean_over_its_targets(parts, null):
    blocks, mixture = Blocks.of(parts), Mixture.of(parts)
    targets = [math.log(20), math.log(40), math.log(200)]
    found = deadline_log_e_value(blocks, mixture, null, targets)
    won = [
        math.exp(log_wealth(blocks, np.array([null]), t + math.log(3 / 0.9))[0]) for t in targets
    ]
    safe = math.exp(min(mixture.log_wealth(np.array([null]))[0], 600.0))
    assert found == pytest.approx(math.log(0.9 * sum(won) / 3 + 0.1 * safe), rel=1e-9, abs=1e-9)


def test_an_e_value_of_one_target_is_that_of_the_bound():
    blocks, mixture = Blocks.of(SIX), mixture_of(SIX)
    lower = deadline_lower(blocks, mixture, LOG20)
    step = math.exp(1.0 / (DESIGN.resolution * math.sqrt(600)))
    assert deadline_log_e_value(blocks, mixture, lower, [LOG20]) >= LOG20
    assert deadline_log_e_value(blocks, mixture, lower * step, [LOG20]) < LOG20


def test_an_e_value_is_one_on_average():
    """All logs of six rows that are 0 or 2, exactly."""
    values = []
    for number in range(2**6):
        y = [[2.0 * (number >> i & 1), 2.0 * (number >> (i + 1) & 1)] for i in (0, 2, 4)]
        blocks, mixture = Blocks.of(y), Mixture.of(y)
        values.append(math.exp(deadline_log_e_value(blocks, mixture, 1.0, [LOG20])))
    assert np.mean(values) == pytest.approx(1.0, rel=1e-12)


def test_the_form_of_least_variance_is_bet_on():
    """Two forms of one value: the bound is about that of the better alone."""
    random = np.random.default_rng(2)
    base = random.random((64, 30))
    forms = [np.where(random.random((64, 30)) < 0.1, 10.0 * base, 0.0), base + 1.0]
    alone = [Blocks.of(y) for y in forms]
    both = dataclasses.replace(
        alone[0],
        total=np.concatenate([one.total for one in alone]),
        squares=np.concatenate([one.squares for one in alone]),
        sums=np.concatenate([one.sums for one in alone]),
        shifts=np.array([0.0, 1.0]),
    )
    shifted = dataclasses.replace(alone[1], shifts=np.array([1.0]))
    mixture = Mixture.of(forms[0])
    found, best, plain = (
        deadline_lower(blocks, mixture, LOG20) for blocks in (both, shifted, alone[0])
    )
    assert plain < found
    assert found == pytest.approx(best, rel=0.03)
    # one and the same form twice is that form
    twice = dataclasses.replace(
        both,
        total=np.repeat(alone[0].total, 2, 0),
        squares=np.repeat(alone[0].squares, 2, 0),
        sums=np.repeat(alone[0].sums, 2, 0),
        shifts=np.zeros(2),
    )
    assert deadline_lower(twice, mixture, LOG20) == plain


def test_errors():
    blocks, mixture = Blocks.of(SIX), Mixture.of(SIX)
    for wrong in (0.0, -1.0, math.nan):
        with pytest.raises(UsageError, match="log_inv_delta"):
            deadline_lower(blocks, mixture, wrong)
        with pytest.raises(UsageError, match="null"):
            deadline_log_e_value(blocks, mixture, wrong, [LOG20])
