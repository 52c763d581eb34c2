"""Ridge oracle for actions that change from row to row: each is fitted where it is eligible."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from piwo.checks import check_finite, check_non_negative
from piwo.errors import DataError, UsageError
from piwo.logs.batch import Floats
from piwo.logs.log import Log
from piwo.messages import argument
from piwo.oracles.examples import first_mean
from piwo.oracles.oracle import Oracle
from piwo.policies import LinearGreedy
from piwo.reductions.eligible_gram import EligibleGram, EligibleGramState
from piwo.reductions.gram import Gram, sparse_columns
from piwo.reductions.large_contexts import check_sums_of_squares
from piwo.reductions.reduce import reduce
from piwo.reductions.reduction import Joint
from piwo.scores import Score

__all__ = ["EligibleRidge"]


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
            UsageError: for scores with gains of actions that were not taken.
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
        check_sums_of_squares(sums.xx.sum(axis=0))
        column = sparse_columns(scores)
        # of S scores and K actions, then times the d columns
        g, gx = gains.g.T[column], gains.gx.transpose(2, 0, 1)[column]
        if not (np.isfinite(g).all() and np.isfinite(gx).all()):
            raise DataError(
                "sums of gains times context leave float64: propensities are too small or contexts "
                "too large, expected sums below 1e308; use a score with gamma > 0 such as IX, or "
                "divide the context by a constant"
            )
        n, center, inverse = _shared(sums, self.alpha)
        found = []
        for one, one_x in zip(g, gx, strict=True):
            coef = np.einsum("kij,kj->ki", inverse, one_x - one[:, None] * center)
            intercept = one / n - (coef * (center + shift)).sum(axis=1)
            found.append(LinearGreedy(coef, intercept, log.actions, log.features))
        return found


def _shared(sums: EligibleGramState, alpha: float) -> tuple[Floats, Floats, Floats]:
    """Return what the regressions of all scores share: n (K,), m (K, d), (X'X + alpha I)^-1.

    About the mean m of the action's rows: X'X - n m m' and X'g - m g', so that b is not penalized.
    """
    n: Floats = np.maximum(sums.rows, np.finfo(np.float64).tiny)
    center = sums.x / n[:, None]
    xx = sums.xx - n[:, None, None] * center[:, :, None] * center[:, None, :]
    penalized = xx + alpha * np.eye(xx.shape[1])
    # least squares where X'X + alpha I is singular, which only alpha = 0 allows
    return n, center, np.asarray(np.linalg.pinv(penalized, hermitian=True), np.float64)
