"""Forward fitting: predicted rewards of each row, from earlier rows of the same log."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from piwo.checks import check_kind
from piwo.errors import UsageError
from piwo.logs.batch import Batch, Floats
from piwo.logs.eligible import Eligible
from piwo.logs.log import Log
from piwo.reductions.forward_sums import ForwardSums, RewardSums, chunks_of, designs
from piwo.reductions.reduce import reduce

__all__ = ["ForwardModel", "forward_model"]

FIRST_GUESS = 0.5
"""The prediction for rows without earlier rows, on the unit scale."""
MOST_NUMBERS = 2**21
"""Above this K (d + 1)^2 the context is left out. The sums of one chunk take at most 16 MB."""


@dataclass(frozen=True)
class ForwardModel:
    """Linear regressions on the context, one per action; those of a chunk use earlier chunks.

    Args:
        coef: (C, K, p) coefficients of (1, x) for the rows of each chunk.

    >>> ForwardModel(np.full((1, 2, 1), 0.5)).needs_context
    False
    """

    coef: Floats

    @property
    def needs_context(self) -> bool:
        """Whether it uses the context."""
        return bool(self.coef.shape[2] > 1)

    def of(self, batch: Batch) -> Floats:
        """Return q(X, a) on the unit scale, (n, K), or a table of the eligible actions."""
        z, chunk = designs(batch, self.coef.shape[2]), chunks_of(batch.row_numbers)
        some = batch.eligible
        if some is not None:
            return some.table(self._of_pairs(z, chunk, some))
        found = np.empty((len(batch), self.coef.shape[1]))
        for c in np.unique(chunk):
            found[chunk == c] = z[chunk == c] @ self.coef[c].T
        return found

    def _of_pairs(self, z: Floats, chunk: npt.NDArray[np.int64], some: Eligible) -> Floats:
        """Return q of every pair, (m,)."""
        found, chunks = np.empty(len(some.codes)), chunk[some.rows]
        for c in np.unique(chunk):
            pairs = np.flatnonzero(chunks == c)
            coef, rows = self.coef[c][some.codes[pairs]], some.rows[pairs]
            found[pairs] = np.einsum("mp,mp->m", coef, z[rows])
        return found


def forward_model(log: Log) -> ForwardModel:
    """Return predicted rewards for the rows of a log, from earlier rows alone, in one pass.

    Rows 0-255 get 1/2. Those up to 511, 1023, 2047 and so on get a ridge regression of the reward
    on the context, for each action, on all rows before their chunk; actions without rows get the
    mean reward. The rows must come in the same order in each pass, and in the order of time if the
    logging policy learned from the log.

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
            f"{log.source.name} may give its rows in another order at each pass, and "
            "forward fitting needs one order; read the rows into a data frame or a "
            "Parquet file first"
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
    """Return (K, p) coefficients: ridge regressions that shrink to the mean reward by one row."""
    rows = sums.gram[:, 0, 0].sum()
    if rows == 0:
        return np.column_stack([np.full(len(sums.cross), FIRST_GUESS), sums.cross[:, 1:]])
    mean = sums.cross[:, 0].sum() / rows
    # The ridge is the mean of z z' on the diagonal: one row of average size for each action.
    sizes = np.diagonal(sums.gram, axis1=1, axis2=2).sum(axis=0) / rows
    ridge = np.diag(np.where(sizes > 0, sizes, 1.0))
    # coef = (sum z z' + ridge)^-1 sum z (R - mean), for each action
    residuals = sums.cross - mean * sums.gram[:, 0]
    found = np.linalg.solve(sums.gram + ridge, residuals[:, :, None])[:, :, 0]
    found[:, 0] += mean
    return np.asarray(found)
