"""Forward fitting: predicted rewards for each row of a log, made from earlier rows of the same log alone."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from piwo.checks import check_kind
from piwo.errors import UsageError
from piwo.logs.batch import Batch, Floats
from piwo.logs.log import Log
from piwo.reductions.forward_sums import ForwardSums, RewardSums, chunks_of, designs
from piwo.reductions.reduce import reduce

__all__ = ["ForwardModel", "forward_model"]

FIRST_GUESS = 0.5
"""Predicted where nothing came before, on the unit scale."""
MOST_NUMBERS = 2**21
"""K (d + 1)^2 beyond which the context is left out: the sums of one chunk then take 16 MB."""


@dataclass(frozen=True)
class ForwardModel:
    """Predictions that are linear in the context, one regression an action; those of a chunk rest on earlier chunks.

    Args:
        coef: (C, K, p) coefficients of (1, x) for the rows of each chunk.

    >>> ForwardModel(np.full((1, 2, 1), 0.5)).needs_context
    False
    """

    coef: Floats

    @property
    def needs_context(self) -> bool:
        """Whether it looks at the context."""
        return bool(self.coef.shape[2] > 1)

    def of(self, batch: Batch) -> Floats:
        """Return q(X, a) on the unit scale, (n, K)."""
        z, chunk = designs(batch, self.coef.shape[2]), chunks_of(batch.row_numbers)
        found = np.empty((len(batch), self.coef.shape[1]))
        for c in np.unique(chunk):
            found[chunk == c] = z[chunk == c] @ self.coef[c].T
        return found


def forward_model(log: Log) -> ForwardModel:
    """Return predicted rewards for the rows of a log, each made from earlier rows alone: a pass over the log.

    Rows 0-255 get 1/2; those up to 511, 1023, 2047 and so on a ridge regression of the reward on
    the context, an action at a time, on all rows before their chunk; actions without rows get the
    mean reward. The rows must come in the same order each time the log is read; if the logging
    policy learned from the log, in the order of time.

    Args:
        log: the rows.

    Raises:
        UsageError: for a query whose rows may come in another order at each pass.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     action=["a", "b"] * 256, reward=[1, 0] * 256, propensity=[0.5] * 512
    ... )
    >>> forward_model(log).coef[:, :, 0].round(2).tolist()
    [[0.5, 0.5], [1.0, 0.0]]
    """
    check_kind("log", log, Log, "; piwo.read makes one")
    log.require_order("a forward reward model")
    if not log.source.steady:
        raise UsageError(
            f"{log.source.name} may give its rows in another order at each pass, and forward "
            "fitting needs one order; read the rows into a data frame or a Parquet file first"
        )
    width = 1 if log.features is None else log.features.width + 1
    if len(log.actions) * width * width > MOST_NUMBERS:
        width = 1
    reduction = ForwardSums(len(log.actions), width)
    chunks: tuple[RewardSums, ...] = reduce(log, reduction)
    before = accumulate(chunks, RewardSums.merge)
    first = np.zeros((len(log.actions), width))
    first[:, 0] = FIRST_GUESS
    fitted = [_fit(sums) for sums in before]
    return ForwardModel(np.stack([first, *fitted[:-1]]))


def _fit(sums: RewardSums) -> Floats:
    """Return (K, p) coefficients: each action's own regression, drawn to the mean reward by one row's worth."""
    rows = sums.gram[:, 0, 0].sum()
    if rows == 0:
        return np.column_stack([np.full(len(sums.cross), FIRST_GUESS), sums.cross[:, 1:]])
    mean = sums.cross[:, 0].sum() / rows
    sizes = (
        np.diagonal(sums.gram, axis1=1, axis2=2).sum(axis=0) / rows
    )  # mean z^2: the scale of each column
    ridge = np.diag(np.where(sizes > 0, sizes, 1.0))
    found = np.linalg.solve(sums.gram + ridge, (sums.cross - mean * sums.gram[:, 0])[:, :, None])[
        :, :, 0
    ]
    found[:, 0] += mean
    return np.asarray(found)
