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
from itertools import chain, repeat
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from piwo.bounds.control_variate import pool_log_prior, pooled_bounds, pooled_log_wealth
from piwo.checks import check_positive
from piwo.reductions.bets import BETS, bet_sums

__all__ = [
    "DESIGN",
    "Blocks",
    "Design",
    "Mixture",
    "Use",
    "deadline_log_e_value",
    "deadline_lower",
    "log_wealth",
    "use_of",
]

FloatArray = NDArray[np.float64]

_FEWEST = 64
"""Rows for bets on blocks that are made from row numbers: one a block."""
_CLEAR, _FAR, _AT_THE_END, _MOST_ROWS, _FEW_IDLE = 2.6, 0.3, 0.95, 2000, 200.0
"""See `use_of`."""
_CHUNKS = (64, 128)
"""Means that are tested at a time: few at first, as most walks are short."""
_MOST_STEPS = 2**15
"""Means that are tested at most; to stop earlier makes a bound smaller, never wrong."""


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
    prior_rows: float = 0.0
    """0: V as in `log_wealth`; otherwise V is the mean squared deviation of the earlier rows and of
    so many rows that deviate by max(v/4, 1/1000)."""


DESIGN = Design()


Use = Literal["all", "lost", "none"]
"""What of the wealth is bet on blocks: the design's share; this share, but it counts as lost; or
nothing, so that the mixture has all of it."""


def use_of(n: float, total: float, squares: float, trend: float, numbers: FloatArray) -> Use:
    """Return the use of blocks that are made from row numbers, in view of where Y > 0 is.

    In a file that is sorted by what was earned, the same few rows are in early blocks each time. So
    with fewer rows than blocks nothing is bet on them; and their wealth counts as lost if Y lies at
    one end of the file. That makes C(v) smaller, whatever the rows are, so that what was valid
    remains so. With the position t of a row and its mean and standard deviation m, s_t:

        f = |sum Y t / sum Y - m| / (sqrt(3) s_t),   rho = the correlation of Y and t,

    f is 1 if all of Y is at one end. Let k = n - (sum Y)^2/sum Y^2, the number of rows with Y = 0
    if all others are alike, and g = |rho| / sqrt(3 k/n) if it is at most 200, else 0: g is about 1
    if these are at one end. The wealth is lost if f or g is at least .95, or if |rho| sqrt(n) is at
    least 2.6 and f or g at least .3, or |rho| with at most 2,000 rows (with more, blocks are even
    enough).

    Args:
        n: number of rows.
        total: sum of Y.
        squares: sum of Y^2.
        trend: sum of Y t.
        numbers: (2,) sums of t and t^2.

    >>> t = np.arange(1000.0)
    >>> first, spread = (t < 30) * 1.0, (t % 33 == 0) * 1.0
    >>> sums = np.array([t.sum(), t @ t])
    >>> [use_of(1000, y.sum(), y.sum(), y @ t, sums) for y in (first, spread)]
    ['lost', 'all']

    Source: docs/theory.md, section "Deadline bets".
    """
    if n < _FEWEST:
        return "none"
    if not 0.0 < total < math.inf:
        return "all"
    mean = numbers[0] / n
    deviation = math.sqrt(max(numbers[1] / n - mean * mean, 0.0))
    if deviation == 0.0 or not math.isfinite(trend):
        return "all"
    away = abs(trend / total - mean) / deviation
    rest = squares / total * (n / total) - 1.0
    if not math.isfinite(rest):
        # one row has all of Y
        rest = n
    correlation = away / math.sqrt(rest) if rest > 0.0 else 0.0
    far = away / math.sqrt(3.0)
    strength = max(far, correlation) if n <= _MOST_ROWS else far
    # k rows with Y = 0, if all others are alike; rho is at most sqrt(3 k/n)
    idle = n - total * (total / squares)
    apart = 0.0
    if 0.0 < idle <= _FEW_IDLE:
        apart = correlation * math.sqrt(n / (3.0 * idle))
    strength = max(strength, apart)
    clear = correlation * math.sqrt(n) >= _CLEAR and strength >= _FAR
    if clear or max(far, apart) >= _AT_THE_END:
        return "lost"
    return "all"


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
    use: Use = "all"

    def log_shares(self, design: Design) -> tuple[float, float]:
        """Return the logarithms of the shares of the wealth: of bets on blocks, of the mixture."""
        if self.use == "none":
            return -math.inf, 0.0
        won = math.log(design.share) if self.use == "all" else -math.inf
        return won, math.log1p(-design.share)

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
    0.134
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
        return pooled_log_wealth(
            self._sums[None], self.shifts, self._log_prior, self.n, np.log(means)
        )

    def lower(self, log_inv_delta: float) -> float:
        """Return the bound of the mixture alone."""
        found = pooled_bounds(self._sums[None], self.shifts, self._log_prior, self.n, log_inv_delta)
        return float(found[0])

    @property
    def _sums(self) -> FloatArray:
        """(F, m) sums of the bets that have weights."""
        return self.sums[:, : len(self.bet_weights)]

    @property
    def _log_prior(self) -> FloatArray:
        """(F, m) logarithms of the weights."""
        return pool_log_prior(np.log(self.weights), self.bet_weights)


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
    s = lambda / (1 + lambda mu). Before block b, with the wealth W so far, p = W exp(-target - aim)
    and the n_left rows from b on:

        s = min( factor phi(z) / (p sqrt(V n_left)), cap / mu ),   z = Phi^-1(p)

    which is the hedge of a digital option if the variance of Y is V. V is made of the n rows of the
    earlier blocks: a mean of their squared deviations and of mu sum Y^2/sum Y - mu^2, the variance
    if Y > 0 is as rare as mu says. The deviations have the weight N = (sum Y)^2/sum Y^2, the
    effective number of rows with Y > 0:

        V = ( N (sum (Y - mu)^2 + mu^2/4)/(n + 1) + max(0, mu sum Y^2/sum Y - mu^2) )/(N + 1)

    and V = mu before the first Y > 0. The form with the largest growth to be expected of its stake,
    s phi(z)/p sqrt(min V/n_left) - s^2 V/2, is bet on. The wealth is shared between the two bets
    next to the stake, so that their mean is the stake. Betting ends at the target.

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
    [3.8, -342.5]

    Source: docs/theory.md, section "Deadline bets".
    """
    # Imported when first needed: Numba takes over a second.
    from piwo.bounds.kernels import add_log_wealth

    wealth = np.zeros(len(means))
    add_log_wealth(
        np.ascontiguousarray(means, np.float64),
        np.broadcast_to(np.asarray(log_target, np.float64), wealth.shape).copy(),
        blocks.rows,
        np.ascontiguousarray(blocks.total),
        np.ascontiguousarray(blocks.squares),
        np.ascontiguousarray(blocks.sums),
        np.ascontiguousarray(blocks.bets),
        blocks.shifts,
        float(blocks.rows.sum() if planned is None else planned),
        (design.cap, design.factor, design.aim, design.prior_rows, float(not design.skip_first)),
        wealth,
    )
    return wealth


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
    78.0
    """
    check_positive("null", null)
    log_share, log_rest = blocks.log_shares(design)
    safe = log_rest + mixture.log_wealth(np.array([null]))
    if log_share == -math.inf:
        return float(safe[0])
    each = log_share - math.log(len(log_targets))
    means = np.full(len(log_targets), null)
    targets = np.asarray(log_targets, np.float64) - each
    won = log_wealth(blocks, means, targets, planned=planned, design=design)
    return float(np.logaddexp.reduce(np.append(each + won, safe)))


def _refuted(
    blocks: Blocks,
    mixture: Mixture,
    means: FloatArray,
    log_inv_delta: float,
    planned: float | None,
    design: Design,
) -> NDArray[np.bool_]:
    """Return whether C(v) = share W(v) + (1 - share) M(v) is at least 1/delta, (G,)."""
    log_share, log_rest = blocks.log_shares(design)
    won = log_wealth(blocks, means, log_inv_delta - log_share, planned=planned, design=design)
    # C is at least share W, so that M is needed for the other means alone.
    found = log_share + won >= log_inv_delta
    if not found.all():
        safe = log_rest + mixture.log_wealth(means[~found])
        found[~found] = np.logaddexp(log_share + won[~found], safe) >= log_inv_delta
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

        L = max{ g in G : C(g') >= 1/delta for all g' <= g in G },  0 if there is none,
        G = { exp(-i / (resolution sqrt(n))) : i whole }, n the planned number of rows

    Args:
        blocks: see `Blocks`; no later block may have a mean above v because of earlier ones.
        mixture: of the same rows.
        log_inv_delta: log(1/delta) of this one statement.
        planned: see `log_wealth`.
        design: the constants.

    Returns:
        The bound, at least 0: a value of the grid; without bets on blocks (`Blocks.use`), that of
        the mixture with its part of the wealth, or all of it.

    >>> y = np.tile([0.0, 1.0], (20, 25))
    >>> round(deadline_lower(Blocks.of(y), Mixture.of(y), math.log(40)), 3)
    0.453

    Source: docs/theory.md, section "Deadline bets".
    """
    check_positive("log_inv_delta", log_inv_delta)
    if mixture.n == 0:
        return 0.0
    # A grid that is the same at every look, if there are several until the planned number of rows.
    n = mixture.n if planned is None else planned
    # M falls in v, so below its own bound at (1 - share) delta everything is refuted.
    log_share, log_rest = blocks.log_shares(design)
    start = mixture.lower(log_inv_delta - log_rest)
    if start == 0.0 or log_share == -math.inf:
        return start
    step = 1.0 / (design.resolution * math.sqrt(n))
    # The largest i with exp(i step) <= start: rounding of the bound must not pass the grid.
    refuted = math.floor(math.log(start) / step)
    last = refuted + _MOST_STEPS
    for size in chain(_CHUNKS, repeat(_CHUNKS[-1])):
        exponents = np.arange(refuted + 1, refuted + 1 + size)
        means = np.exp(exponents * step)
        kept = np.flatnonzero(~_refuted(blocks, mixture, means, log_inv_delta, planned, design))
        refuted = int(exponents[kept[0]] - 1 if len(kept) else exponents[-1])
        if len(kept) or refuted >= last:
            break
    return math.exp(refuted * step)
