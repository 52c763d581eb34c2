"""Ridge oracle for actions that change from row to row: each is fitted where it is eligible."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from piwo.checks import check_finite, check_non_negative
from piwo.errors import DataError, UsageError
from piwo.logs.batch import Floats
from piwo.logs.log import Log
from piwo.messages import argument
from piwo.oracles.examples import first_mean
from piwo.oracles.oracle import Oracle
from piwo.policies import LinearGreedy
from piwo.policies.blocks import row_blocks
from piwo.reductions.eligible_gram import EligibleGram, EligibleGramState
from piwo.reductions.gram import Gram, sparse_columns
from piwo.reductions.joint_gram import symmetric
from piwo.reductions.large_contexts import check_sums_of_squares
from piwo.reductions.reduce import reduce
from piwo.reductions.reduction import Joint
from piwo.scores import Score

__all__ = ["EligibleRidge"]

_INVERSE_BYTES = 2**23
"""X'X of so many bytes are inverted at a time."""


@dataclass(frozen=True)
class EligibleRidge(Oracle):
    """Linear greedy policies by a ridge regression of each action, where it is eligible.

    As `oracles.Ridge`, whose rows in which an action could not be taken would pull its scores to 0:
    an item that is seldom on offer would be seldom chosen, however good it is. Scores must be
    sparse: they credit the action that was taken.

    Formula: for every action a, min over c, b of sum over the rows t in which a is eligible of
    (G[t, a] - c'X_t - b)^2 + alpha |c|^2; pi(x) = argmax over eligible a of c_a'x + b_a. An action
    that is never eligible has c = 0 and b = 0, as one that is never taken.

    Args:
        alpha: the penalty.

    >>> import piwo
    >>> log = piwo.read(
    ...     {
    ...         "x": [1.0, 3.0],
    ...         "a": ["u", "v"],
    ...         "r": [1, 0],
    ...         "p": [1.0, 0.5],
    ...         "e": [["u"], ["u", "v"]],
    ...     },
    ...     action="a",
    ...     reward="r",
    ...     propensity="p",
    ...     context="x",
    ...     eligible="e",
    ... )
    >>> EligibleRidge().solve(log, piwo.IX(0.1)).intercept.round(3).tolist()
    [1.061, 0.0]
    """

    alpha: float = 1.0
    name: ClassVar[str] = "eligible ridge"

    def __post_init__(self) -> None:
        check_finite("alpha", self.alpha)
        check_non_negative("alpha", self.alpha)

    def takes_eligible(self) -> bool:
        """True: actions are fitted where they are eligible."""
        return True

    def solve_path(self, log: Log, scores: Sequence[Score]) -> list[LinearGreedy]:
        """Return one policy for each score; one pass over the log for all of them.

        Raises:
            DataError: if a sum is beyond float64.
            UsageError: for scores with gains of actions that were not taken, and for sums of more
                than `piwo.policies.DENSE_LIMIT` bytes.
        """
        self.fit_for(log)
        for score in scores:
            if score.dense_weight:
                raise UsageError(
                    f"{score.label} credits actions that were not taken, whose sums are over every "
                    f"action, and {log.name} has eligible actions ({argument('eligible')}); use IX"
                )
        shift = first_mean(log)
        gram = Gram(tuple(scores), len(log.actions), shift)
        gains, sums = reduce(log, Joint((gram, EligibleGram(len(log.actions), shift))))
        places = symmetric(log.features.width if log.features is not None else 0)
        check_sums_of_squares(sums.xx.sum(axis=0)[places])
        column = sparse_columns(scores)
        # of S scores and K actions, then times the d columns
        g, gx = gains.g.T[column], gains.gx.transpose(2, 0, 1)[column]
        if not (np.isfinite(g).all() and np.isfinite(gx).all()):
            raise DataError(
                "sums of gains times context leave float64: propensities are too small or contexts "
                "too large, expected sums below 1e308; use a score with gamma > 0 such as IX, or "
                "divide the context by a constant"
            )
        coef, intercept = np.empty(gx.shape), np.empty(g.shape)
        for some, n, center, inverse in _shared(sums, places, self.alpha):
            right = gx[:, some] - g[:, some, None] * center
            coef[:, some] = np.einsum("kij,skj->ski", inverse, right)
            mean = np.einsum("skj,kj->sk", coef[:, some], center + shift)
            intercept[:, some] = g[:, some] / n - mean
        found = []
        for one, one_intercept in zip(coef, intercept, strict=True):
            found.append(LinearGreedy(one, one_intercept, log.actions, log.features))
        return found


def _shared(
    sums: EligibleGramState, places: npt.NDArray[np.intp], alpha: float
) -> Iterator[tuple[slice, Floats, Floats, Floats]]:
    """Yield what the regressions of all scores share, for some k of the K actions at a time.

    That is which actions, n (k,), m (k, d) and (X'X + alpha I)^-1 (k, d, d), about the mean m of
    the action's rows: X'X - n m m' and X'g - m g', so that b is not penalized.

    Args:
        sums: of all actions.
        places: (d, d) where the entries of X'X are in its upper half.
        alpha: the penalty.
    """
    d = len(places)
    for some in row_blocks(len(sums.rows), max(1, d * d), size=_INVERSE_BYTES):
        n: Floats = np.maximum(sums.rows[some], np.finfo(np.float64).tiny)
        center = sums.x[some] / n[:, None]
        xx = sums.xx[some][:, places]
        penalized = xx - n[:, None, None] * center[:, :, None] * center[:, None, :]
        penalized += alpha * np.eye(d)
        # least squares where X'X + alpha I is singular, which only alpha = 0 allows
        inverse = np.asarray(np.linalg.pinv(penalized, hermitian=True), np.float64)
        yield some, n, center, inverse
