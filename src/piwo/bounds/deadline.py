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
from collections.abc import Sequence
from dataclasses import dataclass

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
    "deadline_log_e_value",
    "deadline_lower",
    "log_wealth",
]

FloatArray = NDArray[np.float64]

_CHUNK = 512
"""Means that are tested at a time."""
_MOST_STEPS = 2**15
"""Means that are tested at most; to stop earlier makes a bound smaller, never wrong."""
_TIE = 1e-9
"""Forms whose variances differ by less, relatively, are tied: the first of them is bet on."""


@dataclass(frozen=True)
class Design:
    """The constants of the bets, chosen on simulated logs and then fixed.

    >>> DESIGN.share
    0.75
    """

    share: float = 0.75
    """Of the wealth; the rest is bet by the mixture."""
    prior_rows: float = 4.0
    """Rows that the prior variance counts for."""
    cap: float = 0.8
    """The largest share of the wealth that a row can lose."""
    resolution: float = 32.0
    """Tested means are apart by the factor exp(1 / (resolution sqrt(n)))."""


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
    log_target: float,
    *,
    planned: float | None = None,
    design: Design = DESIGN,
) -> FloatArray:
    """Return the logarithm of the wealth of the deadline bets, if v is each of some means.

    A bet lambda against a mean mu wins or loses s (Y - mu) of the wealth in a row, with the stake
    s = lambda / (1 + lambda mu). Before block b, with the wealth W so far and p = W exp(-target):

        stake = min( phi(z) / (p sqrt(V n_left)), cap / mu ),   z = Phi^-1(p),

    the derivative of a digital option's price if the variance is V. V is that of the form with the
    smallest one, over the blocks before b and `prior_rows` rows of the prior variance
    max(v/4, 1/1000). The wealth is shared between the two bets next to the stake so that their mean
    is the stake; below the smallest bet, a part is not bet. Betting ends when p >= 1.

    Args:
        blocks: in the order of the bets.
        means: (G,) values v above 0.
        log_target: log of the wealth to be reached.
        planned: number of rows that the bets are planned for; None: those of all blocks.
        design: the constants.

    Returns:
        (G,) float64.

    >>> half = Blocks.of(np.tile([0.0, 1.0], (20, 25)))
    >>> log_wealth(half, np.array([0.3, 0.6]), math.log(40)).round(1).tolist()
    [3.7, -11.1]

    Source: docs/theory.md, section "Deadline bets".
    """
    # Imported here because it is slow, and most uses of the package make no bound.
    from scipy.special import ndtri_exp

    count = len(means)
    everyone = np.arange(count)
    wealth = np.zeros(count)
    left = blocks.rows.sum() if planned is None else planned
    # mu = v + k for each form
    shifted = means[:, None] + blocks.shifts
    # max(v/4, 1/1000), the variance of rewards of 0 and 1 with a small mean
    prior = design.prior_rows * np.maximum(means / 4.0, 1e-3)[:, None]
    largest = blocks.bets[0]
    octave = math.log(blocks.bets[0] / blocks.bets[1])
    seen, total, squares = 0.0, np.zeros(len(blocks.shifts)), np.zeros(len(blocks.shifts))
    for b, rows in enumerate(blocks.rows):
        if rows == 0.0 or left <= 0.0:
            continue
        # sum (Y - mu)^2 of the earlier blocks
        around = squares - 2.0 * shifted * total + seen * (shifted * shifted)
        variances = (np.maximum(around, 0.0) + prior) / (seen + design.prior_rows)
        form = np.argmax(variances <= variances.min(axis=1, keepdims=True) * (1.0 + _TIE), axis=1)
        variance = np.maximum(variances[everyone, form], 1e-9)
        mu = shifted[everyone, form]
        # phi(z) / p without forming p, which may underflow
        log_p = np.minimum(wealth - log_target, 0.0)
        z = ndtri_exp(log_p)
        slope = np.exp(-0.5 * z * z - 0.5 * math.log(2.0 * math.pi) - log_p)
        stake = np.minimum(slope / np.sqrt(variance * left), design.cap / mu)
        # stakes of the bets are lambda / (1 + lambda mu), so lambda = s / (1 - s mu)
        stake = np.minimum(stake, largest / (1.0 + largest * mu))
        bet = stake / (1.0 - stake * mu)
        with np.errstate(divide="ignore"):
            place = np.floor(np.log(largest / bet) / octave)
        j = np.clip(place, 0, len(blocks.bets) - 1).astype(np.intp)
        upper = blocks.bets[j]
        last = j == len(blocks.bets) - 1
        lower = np.where(last, 0.0, blocks.bets[np.minimum(j + 1, len(blocks.bets) - 1)])
        most, least = upper / (1.0 + upper * mu), lower / (1.0 + lower * mu)
        part = np.clip((stake - least) / (most - least), 0.0, 1.0)
        sums = blocks.sums[form, b]
        won = sums[everyone, j] - rows * np.log1p(upper * mu)
        other = sums[everyone, np.minimum(j + 1, len(blocks.bets) - 1)]
        kept = np.where(last, 0.0, other - rows * np.log1p(lower * mu))
        with np.errstate(divide="ignore"):
            gain = np.logaddexp(np.log(part) + won, np.log1p(-part) + kept)
        wealth = np.where(wealth < log_target, wealth + gain, wealth)
        seen += rows
        left -= rows
        total, squares = total + blocks.total[:, b], squares + blocks.squares[:, b]
    return wealth


def deadline_log_e_value(
    blocks: Blocks,
    mixture: Mixture,
    null: float,
    log_inv_delta: float,
    *,
    planned: float | None = None,
    design: Design = DESIGN,
) -> float:
    """Return the log e-value against "v is at most `null`": at most 1 on average if that is true.

    Formula: share W + (1 - share) M, the wealth of the deadline bets and that of the mixture.

    Args:
        blocks: see `Blocks`.
        mixture: of the same rows.
        null: above 0.
        log_inv_delta: log(1/delta) of the test that the bets are made for; the e-value is valid for
            others as well, but hardly ever above 1/delta by more than the mixture is.
        planned: see `log_wealth`.
        design: the constants.

    >>> y = np.tile([0.0, 1.0], (20, 25))
    >>> round(deadline_log_e_value(Blocks.of(y), Mixture.of(y), 0.3, math.log(20)), 1)
    11.5
    """
    check_positive("null", null)
    return float(
        _log_certainty(blocks, mixture, np.array([null]), log_inv_delta, planned, design)[0]
    )


def _log_certainty(
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
    first = math.floor(math.log(start) / step)
    for steps in range(0, _MOST_STEPS, _CHUNK):
        exponents = first + steps + np.arange(1, _CHUNK + 1)
        logs = _log_certainty(
            blocks, mixture, np.exp(exponents * step), log_inv_delta, planned, design
        )
        kept = np.flatnonzero(logs < log_inv_delta)
        if len(kept):
            return math.exp((exponents[kept[0]] - 1) * step)
    return math.exp((first + _MOST_STEPS) * step)
