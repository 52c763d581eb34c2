"""What oracles read of a log: its rewarded rows, and the size of its context columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from piwo.errors import NothingToLearnError, UsageError
from piwo.logs.batch import Floats
from piwo.logs.eligible import Eligible
from piwo.logs.log import Log
from piwo.messages import argument
from piwo.reductions.large_contexts import check_squares
from piwo.scores import Score

__all__ = ["Examples", "check_sparse", "first_mean", "rewarded", "standardized"]


@dataclass(frozen=True)
class Examples:
    """The rewarded rows: context (m, d), action codes (m,), gains (S, m)."""

    context: Floats
    action: npt.NDArray[np.int32]
    gains: Floats
    rows: int
    """n: the number of rows of the log, including those without reward."""
    eligible: Eligible | None = None
    """What could be taken in the rewarded rows; None: all actions."""


def first_mean(log: Log) -> Floats:
    """Return the mean context of the first batch, (d,).

    Sums of squares about it lose no digits, as it is near the mean of all rows.
    """
    batch = log.first_batch(context=True)
    if batch is None:
        assert log.features is not None
        return np.zeros(log.features.width)
    assert batch.context is not None
    mean: Floats = batch.context.mean(axis=0)
    return mean


def check_sparse(scores: Sequence[Score]) -> None:
    """Raise for a score whose credits no weights of rewarded rows express.

    Raises:
        UsageError: if a score credits every action of a row.

    >>> import piwo
    >>> check_sparse([piwo.IX(0.1)])
    """
    for score in scores:
        if score.dense_weight != 0.0:
            raise UsageError(
                f"{score.label} credits every action of a row, which classification weights "
                "cannot express; use the ridge or the exhaustive oracle"
            )


def rewarded(log: Log, scores: Sequence[Score]) -> Examples:
    """Return the rewarded rows of a log with their gains under S scores; the log is read once.

    Raises:
        NothingToLearnError: if no row has a reward.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     context=[[1.0], [2.0]], action=[0, 1], reward=[1, 0], propensity=[0.5, 0.5]
    ... )
    >>> rewarded(log, [piwo.IW()]).gains.tolist()
    [[2.0]]
    """
    contexts, actions, gains, rows = [], [], [], 0
    eligible: list[Eligible] = []
    for batch in log.each_batch(context=True):
        # the sparse gains of other rows are 0
        part = batch.take(np.flatnonzero(batch.reward > 0))
        assert part.context is not None
        rows += len(batch)
        contexts.append(part.context)
        actions.append(part.action)
        if part.eligible is not None:
            eligible.append(part.eligible)
        gains.append(np.stack([part.sampled(score.gains(part)) for score in scores]))
    if sum(len(x) for x in actions) == 0:
        raise NothingToLearnError(
            "no row has a reward above the lowest: there is nothing to learn from; check "
            f"{argument('reward_range')}"
        )
    return Examples(
        np.concatenate(contexts),
        np.concatenate(actions),
        np.concatenate(gains, axis=1),
        rows,
        _joined(eligible),
    )


def _joined(parts: Sequence[Eligible]) -> Eligible | None:
    """Return the pairs of all parts, row after row; None without parts."""
    if not parts:
        return None
    sizes = np.concatenate([part.sizes for part in parts])
    starts = np.append(0, np.cumsum(sizes))
    found = Eligible(starts, np.concatenate([part.codes for part in parts]))
    inline = [part.inline for part in parts if part.inline is not None]
    if not inline:
        return found
    together = pa.Table.from_batches(inline).combine_chunks()
    return found.with_inline(
        pa.RecordBatch.from_struct_array(together.to_struct_array().combine_chunks())
    )


def standardized(context: Floats) -> tuple[Floats, Floats, Floats]:
    """Return a context with columns of mean 0 and deviation 1, and the means and deviations.

    Constant columns become 0.

    >>> standardized(np.array([[1.0, 5.0], [3.0, 5.0]]))[0].tolist()
    [[-1.0, 0.0], [1.0, 0.0]]
    """
    check_squares(context, 1e307)
    # a power of two: dividing by it does not round, and squares of huge or tiny numbers stay in
    # range
    unit = np.ldexp(1.0, np.maximum(np.frexp(np.abs(context).max(axis=0))[1] - 1, -1022))
    center, scale = (context / unit).mean(axis=0) * unit, (context / unit).std(axis=0) * unit
    # dividing by less would overflow float64
    scale = np.where(scale > 1e-290, scale, 1.0)
    return (context - center) / scale, center, scale
