"""Deadline bound on a mean: narrower than the mixture bound at a fixed number of rows.

The mixture pays for not knowing which bet is best. If the number of rows is known, the rows are cut
into blocks, and the bet on each block is chosen from the blocks before it so that the wealth
replicates a digital option: 1/delta at the end if the rows refute the mean, else nothing. This is
still a fair bet against every mean up to the one that is tested, so the bound is valid at any
number of rows, and it is nearly as narrow as a normal approximation.

It assumes more than the mixture bound: given the blocks before it, no row of a block may have a
mean above the tested one. docs/theory.md, section "Deadline bets", says which blocks have this
property.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, repeat

import numpy as np
from numpy.typing import NDArray

from piwo.bounds.control_variate import pooled_log_wealth, pooled_lower
from piwo.checks import check_positive
from piwo.reductions.bets import BETS, bet_sums

__all__ = [
    "DESIGN",
    "Blocks",
    "Design",
    "Mixture",
    "blended_variance",
    "deadline_log_e_value",
    "deadline_lower",
    "log_wealth",
]

FloatArray = NDArray[np.float64]

_CHUNKS = (64, 128, 256, 512)
"""Means that are tested at a time: few at first, as most walks are short."""
_MOST_STEPS = 2**15
"""Means that are tested at most; to stop earlier makes a bound smaller, never wrong."""
_TIE = 1e-9
"""Forms whose expected growth differs by less, relatively, are tied: the first is bet on."""


def blended_variance(
    mean: FloatArray, seen: float, total: FloatArray, squares: FloatArray
) -> FloatArray:
    """Return V, by which stakes are chosen: the variance of Y about a mean, from earlier rows.

    A mean of the deviations and of mean sum Y^2 / sum Y - mean^2, which is the variance if Y > 0 is
    as rare as the mean says. The weight of the deviations is N = (sum Y)^2 / sum Y^2, the effective
    number of rows with Y > 0. Any V is valid; a good one makes bounds narrow.

        V = ( N (sum (Y - mean)^2 + mean^2/4) / (n + 1) + max(0, mean sum Y^2/sum Y - mean^2) ) /
        (N + 1)

    Args:
        mean: (G, F) of Y.
        seen: the number n of earlier rows.
        total: (F,) sum of Y over these rows.
        squares: (F,) sum of Y^2.

    Returns:
        (G, F) numbers above 0; the mean itself for forms whose earlier rows all have Y = 0.

    >>> float(blended_variance(np.ones((1, 1)), 4.0, np.array([4.0]), np.array([8.0]))[0, 0])
    0.9...
    """
    around = np.maximum(squares - 2.0 * mean * total + seen * (mean * mean), 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        effective = np.where(squares < np.inf, total * (total / squares), 1.0)
        rare = np.maximum(mean * (squares / total) - mean * mean, 0.0)
        variance = effective * (around + mean * mean / 4.0) / (seen + 1.0) + rare
        variance = np.maximum(variance / (effective + 1.0), 1e-12 * (mean * mean))
    # no Y above 0 yet, or numbers beyond float64
    return np.where(total > 0.0, np.where(np.isnan(variance), np.inf, variance), mean)


@dataclass(frozen=True)
class Design:
    """The constants of the bets, chosen on simulated logs and then fixed.

    >>> DESIGN.share
    0.9
    """

    share: float = 0.9
    """Part of the wealth that the deadline bets have; the rest is bet by the mixture."""
    cap: float = 0.95
    """The largest part of the wealth that a row can lose."""
    factor: float = 1.1
    """Stakes are so many times those of the option."""
    aim: float = 0.1
    """The option pays this much more than the target, as a logarithm."""
    skip_first: bool = True
    """The first block is not bet on: it only shows the variance."""
    resolution: float = 128.0
    """Tested means are apart by the factor exp(1 / (resolution sqrt(n)))."""
    variance: Callable[[FloatArray, float, FloatArray, FloatArray], FloatArray] = blended_variance


DESIGN = Design()


@dataclass(frozen=True)
class Blocks:
    """Block sums of F forms Y_f >= 0 of one quantity: E Y_f = v + k_f, or less.

    >>> Blocks.of([[1.0, 2.0], [0.0, 3.0]]).total.tolist()
    [[3.0, 3.0]]
    """

    rows: FloatArray
    """(B,) n_b, the rows of each block."""
    total: FloatArray
    """(F, B) sums of Y."""
    squares: FloatArray
    """(F, B) sums of Y^2; infinity if they are beyond float64."""
    sums: FloatArray
    """(F, B, J) sums of log(1 + lambda_j Y)."""
    bets: FloatArray
    """(J,) lambda_j, falling by a constant factor."""
    shifts: FloatArray
    """(F,) k_f."""

    @classmethod
    def of(cls, y: Sequence[Sequence[float]] | FloatArray) -> Blocks:
        """Return the sums of one form from its rows, block by block, for all 48 bets.

        Args:
            y: one sequence for each block.
        """
        parts = [np.asarray(part, np.float64) for part in y]
        sums = [np.log1p(BETS * part[:, None]).sum(axis=0) for part in parts]
        return cls(
            rows=np.array([float(len(part)) for part in parts]),
            total=np.array([[part.sum() for part in parts]]),
            squares=np.array([[(part * part).sum() for part in parts]]),
            sums=np.array([sums]),
            bets=BETS,
            shifts=np.zeros(1),
        )


@dataclass(frozen=True)
class Mixture:
    """The mixture of bets on the same forms, over all rows.

    >>> round(Mixture.of([[1.0, 2.0], [0.0, 3.0]]).lower(3.0), 3)
    0.08
    """

    sums: FloatArray
    """(F, m) sums of log(1 + lambda_j Y) for the first m bets."""
    shifts: FloatArray
    """(F,) k_f."""
    weights: FloatArray
    """(F,) of the forms, at most 1 in all."""
    bet_weights: FloatArray
    """(m,) of the bets, at most 1 in all."""
    n: int
    """The number of rows."""

    @classmethod
    def of(cls, y: Sequence[Sequence[float]] | FloatArray) -> Mixture:
        """Return the mixture of all 48 bets on one form, from its rows, block by block."""
        rows = np.concatenate([np.asarray(part, np.float64) for part in y])
        even = np.full(len(BETS), 1.0 / len(BETS))
        return cls(bet_sums(rows)[None], np.zeros(1), np.ones(1), even, len(rows))

    def log_wealth(self, means: FloatArray) -> FloatArray:
        """Return log M(v), (G,); it falls in v."""
        with np.errstate(divide="ignore"):
            log_prior = np.log(self.weights)[:, None] + np.log(self.bet_weights)
        sums = self.sums[None, :, : len(self.bet_weights)]
        return pooled_log_wealth(sums, self.shifts, log_prior, self.n, np.log(means))

    def lower(self, log_inv_delta: float) -> float:
        """Return the bound of the mixture alone."""
        return pooled_lower(
            self.sums,
            self.shifts,
            self.weights,
            self.n,
            log_inv_delta,
            bet_weights=self.bet_weights,
        )


def log_wealth(
    blocks: Blocks,
    means: FloatArray,
    log_target: float | FloatArray,
    *,
    planned: float | None = None,
    design: Design = DESIGN,
) -> FloatArray:
    """Return the logarithm of the wealth of the deadline bets, if v is each of some means.

    A bet lambda against a mean mu wins or loses s (Y - mu) of the wealth in a row, with the stake
    s = lambda / (1 + lambda mu). Before block b, with the wealth W so far and
    p = W exp(-target - aim):

        stake = min( factor phi(z) / (p sqrt(V n_left)), cap / mu ),   z = Phi^-1(p)

    which is the hedge of a digital option if the variance of Y is V: see `blended_variance`. The
    form with the largest growth to be expected of its stake is bet on. The wealth is shared between
    the two bets next to the stake, so that their mean is the stake. Betting ends at the target.

    Args:
        blocks: in the order of the bets.
        means: (G,) values v above 0.
        log_target: log of the wealth to be reached; one number, or (G,).
        planned: number of rows that the bets are planned for; None: those of all blocks.
        design: the constants.

    Returns:
        (G,) float64.

    >>> half = Blocks.of(np.tile([0.0, 1.0], (20, 25)))
    >>> log_wealth(half, np.array([0.3, 0.6]), math.log(40)).round(1).tolist()
    [3.7, -9.6]

    Source: docs/theory.md, section "Deadline bets".
    """
    # Imported here because it is slow, and most uses of the package make no bound.
    from scipy.special import ndtri_exp

    everyone = np.arange(len(means))
    # mu = v + k for each form, and the stakes of all bets against it
    shifted = means[:, None] + blocks.shifts
    stakes = blocks.bets / (1.0 + blocks.bets * shifted[:, :, None])
    wealth = np.zeros(len(means))
    left = blocks.rows.sum() if planned is None else planned
    seen, total, squares = 0.0, np.zeros(len(blocks.shifts)), np.zeros(len(blocks.shifts))
    for b, rows in enumerate(blocks.rows):
        if rows == 0.0:
            continue
        if left > 0.0 and (seen > 0.0 or not design.skip_first):
            # phi(z) / p without forming p, which may underflow
            log_p = np.minimum(wealth - log_target - design.aim, -1e-15)
            z = ndtri_exp(log_p)
            hedge = np.exp(-0.5 * z * z - log_p) / math.sqrt(2.0 * math.pi)
            variances = design.variance(shifted, seen, total, squares)
            stake = design.factor * hedge[:, None] / np.sqrt(variances * left)
            stake = np.minimum(stake, design.cap / shifted)
            stake = np.clip(stake, stakes[:, :, -1], stakes[:, :, 0])
            # growth s d - s^2 V/2 for the drift d that the option expects of the best form
            drift = hedge / np.sqrt(variances.min(axis=1) * left)
            growth = stake * (drift * variances.min(axis=1))[:, None] - stake**2 * variances / 2.0
            form = _first_of_the_largest(growth)
            stake, around = stake[everyone, form], stakes[everyone, form]
            j = np.clip((around > stake[:, None]).sum(axis=1) - 1, 0, len(blocks.bets) - 2)
            most, least = around[everyone, j], around[everyone, j + 1]
            part = np.clip((stake - least) / (most - least), 0.0, 1.0)
            mu, sums = shifted[everyone, form], blocks.sums[form, b]
            larger = sums[everyone, j] - rows * np.log1p(blocks.bets[j] * mu)
            smaller = sums[everyone, j + 1] - rows * np.log1p(blocks.bets[j + 1] * mu)
            with np.errstate(divide="ignore"):
                gain = np.logaddexp(np.log(part) + larger, np.log1p(-part) + smaller)
            wealth = np.where(wealth < log_target, wealth + gain, wealth)
        seen += rows
        left -= rows
        total, squares = total + blocks.total[:, b], squares + blocks.squares[:, b]
    return wealth


def _first_of_the_largest(growth: FloatArray) -> NDArray[np.intp]:
    """Return the first form whose growth is the largest but for rounding, (G,)."""
    most = growth.max(axis=1, keepdims=True)
    found: NDArray[np.intp] = np.argmax(growth >= most - _TIE * np.abs(most), axis=1)
    return found


def deadline_log_e_value(
    blocks: Blocks,
    mixture: Mixture,
    null: float,
    log_targets: Sequence[float],
    *,
    planned: float | None = None,
    design: Design = DESIGN,
) -> float:
    """Return the log e-value against "v is at most `null`": at most 1 on average if that is true.

    Formula: share mean_k W_k + (1 - share) M, W_k the wealth of deadline bets that aim at a test at
    level k, and M that of the mixture.

    Args:
        blocks: see `Blocks`.
        mixture: of the same rows.
        null: above 0.
        log_targets: log(1/level) of the tests that the e-value is made for, which share the wealth.
            It is valid for all tests, but hardly ever above 1/level unless the mixture is.
        planned: see `log_wealth`.
        design: the constants.

    >>> y = np.tile([0.0, 1.0], (20, 25))
    >>> round(deadline_log_e_value(Blocks.of(y), Mixture.of(y), 0.3, [math.log(20)]), 1)
    11.5
    """
    check_positive("null", null)
    each = math.log(design.share) - math.log(len(log_targets))
    means = np.full(len(log_targets), null)
    targets = np.asarray(log_targets, np.float64) - each
    won = log_wealth(blocks, means, targets, planned=planned, design=design)
    safe = math.log1p(-design.share) + mixture.log_wealth(means[:1])
    return float(np.logaddexp.reduce(np.append(each + won, safe)))


def _log_total(
    blocks: Blocks,
    mixture: Mixture,
    means: FloatArray,
    log_inv_delta: float,
    planned: float | None,
    design: Design,
) -> FloatArray:
    """Return log C(v) = log( share W(v) + (1 - share) M(v) ), (G,)."""
    log_share = math.log(design.share)
    won = log_wealth(blocks, means, log_inv_delta - log_share, planned=planned, design=design)
    safe = mixture.log_wealth(means)
    found: FloatArray = np.logaddexp(log_share + won, math.log1p(-design.share) + safe)
    return found


def deadline_lower(
    blocks: Blocks,
    mixture: Mixture,
    log_inv_delta: float,
    *,
    planned: float | None = None,
    design: Design = DESIGN,
) -> float:
    """Lower bound on v that is valid with probability 1 - delta.

    C(v) = share W(v) + (1 - share) M(v) is at most 1 on average for the true v, where W is the
    wealth of the deadline bets and M that of the mixture. W need not fall in v, so values are
    tested on a grid that depends on n alone, from below, up to the first that is not refuted:

        L = max{ g in G : C(g') >= 1/delta for all g' <= g in G },
        G = { exp(-i / (resolution sqrt(n))) : i whole };  0 if there is none

    Args:
        blocks: see `Blocks`; no later block may have a mean above v because of earlier ones.
        mixture: of the same rows.
        log_inv_delta: log(1/delta) of this one statement.
        planned: see `log_wealth`.
        design: the constants.

    Returns:
        The bound, at least 0: a value of the grid.

    >>> y = np.tile([0.0, 1.0], (20, 25))
    >>> round(deadline_lower(Blocks.of(y), Mixture.of(y), math.log(40)), 3)
    0.447

    Source: docs/theory.md, section "Deadline bets".
    """
    check_positive("log_inv_delta", log_inv_delta)
    n = mixture.n
    if n == 0:
        return 0.0
    # M falls in v, so below its own bound at (1 - share) delta everything is refuted.
    start = mixture.lower(log_inv_delta - math.log1p(-design.share))
    if start == 0.0:
        return 0.0
    step = 1.0 / (design.resolution * math.sqrt(n))
    # The largest i with exp(i step) <= start: rounding of the bound must not pass the grid.
    refuted = math.floor(math.log(start) / step)
    last = refuted + _MOST_STEPS
    for size in chain(_CHUNKS, repeat(_CHUNKS[-1])):
        exponents = np.arange(refuted + 1, refuted + 1 + size)
        logs = _log_total(blocks, mixture, np.exp(exponents * step), log_inv_delta, planned, design)
        kept = np.flatnonzero(logs < log_inv_delta)
        refuted = int(exponents[kept[0]] - 1 if len(kept) else exponents[-1])
        if len(kept) or refuted >= last:
            break
    return math.exp(refuted * step)
