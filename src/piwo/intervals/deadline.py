"""Deadline intervals: bets on blocks of rows in turn, narrower than the mixture at a fixed n."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from piwo import bounds
from piwo.bounds import deadline
from piwo.bounds.mixture import planned_size
from piwo.intervals.control_variate import ControlVariateInterval, Quantity
from piwo.intervals.method import Evidence, IntervalMethod
from piwo.intervals.weight_sums import ROUNDING
from piwo.logs.batch import Floats
from piwo.logs.log import Log
from piwo.messages import Note
from piwo.policies import Policy
from piwo.reductions import PolicyState, Reduction
from piwo.reductions.blocks import BLOCK_BETS, Partition
from piwo.reductions.control_variate import BASELINES, BLOCK_BASELINES
from piwo.reductions.model_variate import CUTS, Predictor  # noqa: F401 (type of an inherited field)

__all__ = [
    "IN_TIME",
    "DeadlineInterval",
    "beyond_horizon",
    "blocks_of",
    "mixture_of",
    "plain_bets",
    "plain_blocks",
    "planned_rows",
    "test_levels",
]


def blocks_of(
    rows: Floats,
    forms: Sequence[Floats],
    shifts: Sequence[float] | Floats,
    trend: float,
    numbers: Floats,
) -> deadline.Blocks:
    """Return the forms' sums by block as bounds take them.

    Args:
        rows: (B,) rows of each block.
        forms: of each form (B, 2 + J), see `piwo.reductions.blocks.BetSums.blocks`; the plain one
            first.
        shifts: (F,) k_f.
        trend: of the plain form, see `piwo.reductions.blocks.BetSums.trend`.
        numbers: see `piwo.reductions.blocks.RowBlocks.number_sums`.
    """
    sums = np.stack(forms)
    use: deadline.Use = "all"
    if numbers[1] > 0.0:
        total, squares = sums[0, :, :2].sum(axis=0)
        use = deadline.use_of(float(rows.sum()), total, squares, trend, numbers)
    return deadline.Blocks(
        rows=rows,
        total=sums[:, :, 0],
        squares=sums[:, :, 1],
        sums=sums[:, :, 2:],
        bets=BLOCK_BETS,
        shifts=np.asarray(shifts, np.float64),
        use=use,
    )


IN_TIME = Note(
    "deadline bets on consecutive rows assume that rows are in the order of the decisions, and "
    "that contexts and rewards do not drift",
    kind="assumptions",
)
"""What bets on blocks of consecutive decisions assume."""


@dataclass(frozen=True, kw_only=True)
class DeadlineInterval(ControlVariateInterval):
    """The interval methods "deadline" and "deadline-cv": bets on one block of rows after the other.

    The value, the losses and the improvement each have several forms with control variates if
    `variates` is set; the form to bet on is chosen block by block, and no form costs the others
    anything but for the part of the wealth that the mixture bets.
    """

    allows_learning: bool = False
    """Whether blocks are consecutive decisions of a logger that is declared to have learned."""

    @property
    def assumes_fixed_logger(self) -> bool:
        """Whether it is about one logging policy, as the improvement is unless one is declared."""
        return not self.allows_learning

    def settled(
        self, log: Log, policy: Policy, partition: Partition | None = None
    ) -> IntervalMethod:
        """Return the method with what its blocks assume.

        Args:
            log: the rows.
            policy: over the log's action list.
            partition: the log's blocks.
        """
        super().settled(log, policy, partition)
        if partition is not None and partition.by == "time":
            learned = log.logger == "learning"
            return replace(self, allows_learning=learned, note=IN_TIME)
        return self

    def sums(
        self, log: Log, policy: Policy, partition: Partition | None = None
    ) -> tuple[Reduction[Any], ...]:
        """Return the control variates, if the method has them."""
        if not self.variates:
            return ()
        return super().sums(log, policy, partition)

    def improvement(self, evidence: Evidence) -> float:
        """Return the raw lower bound on v(policy) - v(logging policy), for rewards in [0, 1].

        If the logger learns, its value changes from row to row, and so does the mean of
        w R + 1 - R: only bets of fixed sizes are fair against the average, so the mixture is used.
        """
        if evidence.log.logger == "learning":
            penalty = evidence.log_inv_delta
            _, mixture = self._both("improvement", evidence, penalty)
            return mixture.lower(penalty) - 1.0
        return super().improvement(evidence)

    def log_e_better(self, evidence: Evidence) -> float:
        """Return the log e-value against "not better than the logging policy"."""
        if evidence.log.logger == "learning":
            return super().log_e_better(evidence)
        blocks, mixture = self._both("improvement", evidence, evidence.log_inv_delta)
        return deadline.deadline_log_e_value(
            blocks, mixture, 1.0, test_levels(evidence), planned=planned_rows(evidence.horizon)
        )

    def log_e_above(self, evidence: Evidence, threshold: float) -> float:
        """Return the log e-value against "worth at most the threshold", on the unit scale."""
        if threshold <= 0.0:
            return super().log_e_above(evidence, threshold)
        blocks, mixture = self._both("value", evidence, evidence.log_inv_delta)
        return deadline.deadline_log_e_value(
            blocks,
            mixture,
            threshold,
            test_levels(evidence),
            planned=planned_rows(evidence.horizon),
        )

    def missing_mass(self, evidence: Evidence) -> float:
        """Return the raw upper bound on the mass of actions that the logger never takes."""
        if evidence.log.logger == "learning":
            # the mass depends on the logger's policy, which changes from row to row
            return super().missing_mass(evidence)
        state, penalty = evidence.state, evidence.log_inv_delta
        blocks, mixture = plain_bets(state, "weight", penalty, evidence.horizon)
        # 1 - LB(E w)
        return 1.0 - deadline.deadline_lower(
            blocks, mixture, penalty, planned=planned_rows(evidence.horizon)
        )

    def sees_sorted_rows(self, evidence: Evidence, *, one_sided: bool = False) -> bool:
        """Whether a quantity lies at one end of the file; see `piwo.bounds.deadline.use_of`.

        A quantity that is nearly constant does not: its order in the file is that of the rounding
        of propensities. Bets on blocks are left out all the same, which lowers the bound a little.

        Args:
            evidence: the sums.
            one_sided: whether only lower bounds are stated, so that losses do not matter.
        """
        whats: tuple[Quantity, ...] = ("value",)
        if evidence.bounded:
            whats = ("value", "improvement") if one_sided else ("value", "loss", "improvement")
        return any(_lies_at_one_end(plain_blocks(evidence.state, what)) for what in whats)

    def _pooled(
        self,
        plain: Floats,  # noqa: ARG002
        what: Quantity,
        evidence: Evidence,
        log_inv_delta: float,
    ) -> float:
        """Return the lower bound from the sums of the plain credit and of the variates."""
        blocks, mixture = self._both(what, evidence, log_inv_delta)
        planned = planned_rows(evidence.horizon)
        return deadline.deadline_lower(blocks, mixture, log_inv_delta, planned=planned)

    def _both(
        self, what: Quantity, evidence: Evidence, log_inv_delta: float
    ) -> tuple[deadline.Blocks, deadline.Mixture]:
        """Return the sums of all forms of a quantity by block, and the mixture of these."""
        shifts, weights = self._forms(what)
        state = evidence.state
        bets, forms = [getattr(state.bets, what)], [getattr(state.blocks, what)]
        for own in evidence.own:
            bets += list(getattr(own, what))
            forms += list(getattr(own, f"{what}_blocks"))
        mixture = mixture_of(bets, shifts, weights, evidence.rows, log_inv_delta, evidence.horizon)
        if what == "improvement" and evidence.horizon is None:
            favored = bounds.improvement_bets(evidence.rows, log_inv_delta)
            mixture = replace(mixture, bet_weights=favored)
        sums = state.blocks
        blocks = blocks_of(sums.rows, forms, shifts, sums.trend(what), sums.numbers)
        return blocks, mixture

    def _forms(self, what: Quantity) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Return the shift of each form of a quantity, and its weight in the mixture."""
        # w R; for an improvement also its form with the total variation
        shifts: tuple[float, ...] = (0.0, 0.0) if what == "improvement" else (0.0,)
        if not self.variates:
            return (0.0,), (1.0,)
        shifts += tuple(BASELINES[i][1] for i in BLOCK_BASELINES)
        if self.model is not None:
            shifts += CUTS
        return shifts, (1.0 / len(shifts),) * len(shifts)


def mixture_of(
    bets: Sequence[Floats],
    shifts: Sequence[float],
    weights: Sequence[float],
    rows: int,
    log_inv_delta: float,
    horizon: bounds.Horizon,
) -> deadline.Mixture:
    """Return the mixture of bets of equal weights on some forms.

    Args:
        bets: of each form (48,) bet sums.
        shifts: (F,) k_f.
        weights: (F,) of the forms.
        rows: number of rows.
        log_inv_delta: log(1/delta) of the statement, which says how many bets are useful.
        horizon: see `piwo.bounds.Horizon`.
    """
    size = planned_size(rows, log_inv_delta, horizon)
    return deadline.Mixture(
        sums=np.stack(bets),
        shifts=np.asarray(shifts, np.float64),
        weights=np.asarray(weights, np.float64),
        bet_weights=np.full(size, 1.0 / size),
        n=rows,
    )


def plain_blocks(state: PolicyState, what: Quantity | Literal["weight"]) -> deadline.Blocks:
    """Return the sums of one quantity by block, without control variates.

    Args:
        state: of one policy, with blocks.
        what: the quantity.
    """
    placed = state.blocks
    forms = [getattr(placed, what)]
    return blocks_of(placed.rows, forms, (0.0,), placed.trend(what), placed.numbers)


def _lies_at_one_end(blocks: deadline.Blocks) -> bool:
    """Return whether bets count as lost, and the standard deviation of Y is above mean/1000."""
    if blocks.use != "lost":
        return False
    n, total = float(blocks.rows.sum()), float(blocks.total[0].sum())
    # E Y^2 / (E Y)^2 - 1, the square of the ratio
    excess = float(blocks.squares[0].sum()) / total * (n / total) - 1.0
    return not excess <= ROUNDING**2


def plain_bets(
    state: PolicyState,
    what: Quantity | Literal["weight"],
    log_inv_delta: float,
    horizon: bounds.Horizon,
) -> tuple[deadline.Blocks, deadline.Mixture]:
    """Return the sums of one quantity by block, and their mixture, without control variates.

    Args:
        state: of one policy, with blocks.
        what: the quantity.
        log_inv_delta: see `mixture_of`.
        horizon: see `piwo.bounds.Horizon`.
    """
    sums = [getattr(state.bets, what)]
    mixture = mixture_of(sums, (0.0,), (1.0,), state.moments.rows, log_inv_delta, horizon)
    return plain_blocks(state, what), mixture


def beyond_horizon(rows: int, horizon: bounds.Horizon) -> tuple[Note, ...]:
    """Return the note on rows that deadline bets were not planned for, if there are any.

    >>> beyond_horizon(1000, 1000)
    ()
    >>> beyond_horizon(1200, 1000)[0].kind
    'horizon'
    """
    if not isinstance(horizon, int) or rows <= horizon:
        return ()
    return (
        Note(
            f"{rows - horizon:,} rows are beyond the horizon of {horizon}: bounds hold, but "
            "deadline bets end there, and only a tenth of the wealth, that of the mixture, is bet "
            "on them",
            kind="horizon",
        ),
    )


def planned_rows(horizon: bounds.Horizon) -> float | None:
    """Return the number of rows that bets are planned for; None: those of the log.

    >>> planned_rows(1000), planned_rows(None)
    (1000.0, None)
    """
    if isinstance(horizon, int):
        return float(horizon)
    return None


def test_levels(evidence: Evidence) -> list[float]:
    """Return log(1/level) of the tests that an e-value is made for.

    The e-BH procedure rejects the k best of N hypotheses if their e-values are N / (k rate): so the
    wealth is shared between the levels delta/N, 2 delta/N, 4 delta/N, ..., delta.
    """
    levels, last = [evidence.log_inv_delta], -math.log(evidence.delta_of_all)
    while levels[-1] - math.log(2.0) >= last - 1e-9:
        levels.append(levels[-1] - math.log(2.0))
    return levels
