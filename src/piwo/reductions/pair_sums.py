"""The difference between two policies, on the same rows."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product

import numpy as np
import numpy.typing as npt

from piwo.engines.state import State
from piwo.logs.batch import Batch, Floats
from piwo.policies.blocks import row_blocks
from piwo.policies.policy import Policy
from piwo.reductions.bets import BETS
from piwo.reductions.blocks import (
    BetSums,
    Partition,
    bet_sums_of,
    no_blocks,
    number_sums,
    rows_by_block,
)
from piwo.reductions.model_variate import uncut
from piwo.reductions.reduction import Reduction
from piwo.reductions.vector_sums import Vectors, in_blocks, width_of
from piwo.scores.ratio import log_ratio, over_propensity

__all__ = ["PAIR_BASELINES", "PairState", "PairSums"]

PAIR_BASELINES: tuple[tuple[float, float], ...] = tuple(product((0.0, 0.5, 1.0), (1.0, 4.0, 16.0)))
"""(c, k): the baseline c for actions that the policy plays more often than the other, truncated so
that |pi - pi'| b / mu <= k; and 1 - c, for losses, for actions that it plays less often."""


@dataclass(frozen=True)
class PairState(State):
    """Rows, and bet sums of a quantity whose mean is at most v(policy) - v(other) + 1.

    >>> PairState().bets.shape
    (48,)
    """

    rows: int = 0
    bets: Floats = field(default_factory=lambda: np.zeros(len(BETS)))
    raised: Floats = field(default_factory=lambda: np.zeros((len(PAIR_BASELINES), len(BETS))))
    """Bet sums of the difference with control variates, plus 1 + k, a row for each of
    `PAIR_BASELINES`."""
    block_rows: Floats = field(default_factory=lambda: np.zeros(0))
    """(B,) rows, or units, of each block."""
    blocks: Floats = field(default_factory=no_blocks)
    """(B, 2 + J) the same by block, see `piwo.reductions.blocks.BetSums`."""
    trend: float = 0.0
    """See `piwo.reductions.blocks.BetSums.trend`."""
    numbers: Floats = field(default_factory=lambda: np.zeros(2))
    """See `piwo.reductions.blocks.RowBlocks.number_sums`."""
    raised_blocks: Floats = field(default_factory=lambda: no_blocks(len(PAIR_BASELINES)))


@dataclass(frozen=True)
class PairSums(Reduction[PairState]):
    """Reduction: bet sums of the difference of two policies, for rewards in [0, 1].

    Formula: with full vectors

        Y = [(pi - pi')_+ R + (pi' - pi)_+ (1 - R)]/mu + 1 - sum_a (pi' - pi)_+,

    from the probabilities of the logged actions alone Y = pi R/mu + pi' (1 - R)/mu. With control
    variates and d = pi - pi', let R' = R and c' = c if d > 0, R' = 1 - R and c' = 1 - c if d < 0:

        Y = |d| R'/mu - min(c' |d|/mu, k) + sum_a min(c'_a |d_a|, k mu_a) + 1
            - sum_a (pi' - pi)_+ + k.

    Args:
        policy: pi, over the log's action list.
        other: pi', likewise.
        full: both give the probability of every action.
        variates: sum the forms with control variates too; needs full, and full propensity vectors.
        partition: into blocks; None: without.

    Source: docs/theory.md, section "Regret certificates".

    >>> import piwo
    >>> log = piwo.Log.from_arrays(action=["a", "b"], reward=[1, 0], propensity=[0.5, 0.5])
    >>> a, b = (piwo.policies.Constant(x, log.actions) for x in log.actions)
    >>> state = piwo.reductions.reduce(log, PairSums(a, b, full=True))  # Y = 2 and 2
    >>> bool(np.isclose(state.bets[5], 2 * np.log(3)))
    True
    """

    policy: Policy
    other: Policy
    full: bool
    variates: bool = False
    partition: Partition | None = None

    @property
    def propensities(self) -> bool:
        """Whether the full propensity vectors are needed."""
        return self.variates

    @property
    def context(self) -> bool:
        """Whether a policy uses the context."""
        return self.policy.needs_context or self.other.needs_context

    @property
    def labels(self) -> bool:
        """Whether a policy needs the logged action."""
        return self.full or self.policy.needs_actions or self.other.needs_actions

    def empty(self) -> PairState:
        """Return the state of no rows."""
        if self.partition is None:
            return PairState()
        shape = (self.partition.count, *no_blocks().shape[1:])
        return PairState(
            block_rows=np.zeros(self.partition.count),
            blocks=np.zeros(shape),
            raised_blocks=np.zeros((len(PAIR_BASELINES), *shape)),
        )

    def update(self, state: PairState, batch: Batch) -> PairState:
        """Return the state with the rows of a batch added."""
        if self.full:
            numerator, rest = self._differences(batch)
        else:
            # pi R + pi' (1 - R)
            earned = self.policy.logged(batch) * batch.reward
            missed = self.other.logged(batch) * (1.0 - batch.reward)
            numerator, rest = earned + missed, np.zeros(len(batch))
        y = over_propensity(numerator, batch) + rest
        # The rest is at most 1: negligible next to a number beyond float64.
        found = bet_sums_of(
            batch, y, lambda lost: log_ratio(numerator, batch, lost), self.partition
        )
        rows = rows_by_block(self.partition, batch)
        added = replace(
            self.empty(),
            rows=batch.count,
            bets=found.bets,
            block_rows=rows,
            blocks=found.blocks,
            trend=found.trend,
            numbers=number_sums(self.partition, batch),
        )
        state = state.merge(added)
        if self.variates:
            for block in in_blocks(batch, width_of(batch, len(self.policy.actions))):
                forms = self._raised(block)
                raised = np.stack([one.bets for one in forms])
                blocks = np.stack([one.blocks for one in forms])
                state = state.merge(replace(self.empty(), raised=raised, raised_blocks=blocks))
        return state

    def _differences(self, batch: Batch) -> tuple[Floats, Floats]:
        """Return the numerator over mu, and 1 - sum_a (pi' - pi)_+, (n,), block by block."""
        numerator, rest = np.empty(len(batch)), np.empty(len(batch))
        for block in row_blocks(len(batch), 2 * width_of(batch, len(self.policy.actions))):
            some = batch.take(block)
            vectors = Vectors(some)
            more = vectors.of(self.policy) - vectors.of(self.other)
            taken = vectors.taken(more)
            # (pi - pi')_+ R + (pi' - pi)_+ (1 - R): one of the two terms is 0
            numerator[block] = np.where(
                taken > 0.0, taken * some.reward, -taken * (1.0 - some.reward)
            )
            rest[block] = np.maximum(0.0, 1.0 - np.maximum(-more, 0.0).sum(axis=1))
        return numerator, rest

    def _raised(self, batch: Batch) -> list[BetSums]:
        """Return the sums of a few rows with control variates, for each of `PAIR_BASELINES`."""
        from piwo.reductions.kernels import truncated_masses

        vectors = Vectors(batch)
        mu, d = vectors.mu, vectors.of(self.policy) - vectors.of(self.other)
        more, less = np.maximum(d, 0.0), np.maximum(-d, 0.0)
        c, k = np.array(PAIR_BASELINES).T.copy()
        shape = (len(PAIR_BASELINES), len(batch))
        gained, lost, scratch = np.zeros(shape), np.zeros(shape), np.zeros(len(batch))
        # sum_a min(c'_a |d_a|, k mu_a), in two parts: d > 0 with c and d < 0 with 1 - c
        truncated_masses(more, mu, c, k, gained, scratch)
        truncated_masses(less, mu, 1.0 - c, k, lost, scratch)
        taken = vectors.taken(d)
        numerator = np.where(taken > 0.0, taken * batch.reward, -taken * (1.0 - batch.reward))
        # |d|/mu and |d| R'/mu
        size, plain = over_propensity(np.abs(taken), batch), over_propensity(numerator, batch)
        rest, found = np.maximum(0.0, 1.0 - less.sum(axis=1)), []
        for i, (rewarded, cut) in enumerate(PAIR_BASELINES):
            # Y = |d| R'/mu + (k - min(c' |d|/mu, k)) + sum_a min(c'_a |d_a|, k mu_a) + rest
            share = np.where(taken > 0.0, rewarded, 1.0 - rewarded)
            added = rest + gained[i] + lost[i] + uncut(size, share, cut)
            logs = partial(_log_sum, numerator, batch, added)
            found.append(bet_sums_of(batch, plain + added, logs, self.partition))
        return found


def _log_sum(numerator: Floats, batch: Batch, added: Floats, rows: npt.NDArray[np.intp]) -> Floats:
    """Return log(numerator/mu + added) of some rows."""
    with np.errstate(divide="ignore"):
        logs: Floats = np.logaddexp(log_ratio(numerator, batch, rows), np.log(added[rows]))
    return logs
