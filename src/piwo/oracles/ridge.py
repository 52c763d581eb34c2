"""Ridge oracle: multi-output ridge regression of the gains on the context, then the argmax."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from piwo.checks import check_finite, check_flag, check_non_negative
from piwo.engines.native_threads import native_threads
from piwo.errors import DataError, UsageError
from piwo.logs.batch import Floats
from piwo.logs.log import Log
from piwo.messages import argument
from piwo.oracles.examples import first_mean
from piwo.oracles.oracle import Oracle, shared_by_neighbors
from piwo.policies import LinearGreedy
from piwo.reductions.folds import Folds
from piwo.reductions.gram import Gram, GramState, dense_columns, sparse_columns
from piwo.reductions.large_contexts import check_sums_of_squares
from piwo.reductions.reduce import reduce
from piwo.scores import Score

# exp(600) times a million rows is far below the largest float64, and gains down to 10^-568 of it
# are still above the smallest.
_LARGEST_LOG = 600.0
# Shares of the largest score that differ by less are equal: rounding is about 1e-14 times the
# condition number.
_ROUNDING = 1e-11

__all__ = ["Ridge", "RidgeSolution", "ridge_solution"]


@dataclass(frozen=True)
class RidgeSolution:
    """Coefficients (S, K, d) and intercepts (S, K) for S scores."""

    coef: Floats
    intercept: Floats


@dataclass(frozen=True)
class Ridge(Oracle):
    """Linear greedy policies by ridge regression of the gains.

    Answers: which linear policy, in one pass, for a whole path of scores? The same result as
    `sklearn.linear_model.Ridge(alpha, fit_intercept)` on the dense n x K gains (rows without reward
    and actions not taken count as gain 0), without ever forming them. A heuristic oracle, as in the
    paper's experiments: its policies are good, not provably the best of the class, and certificates
    come from a split.

    Formula: for every action a, min over c, b of sum_t (G[t, a] - c'X_t - b)^2 + alpha |c|^2;
    pi(x) = argmax_a c_a'x + b_a.
    Source: Gabbianelli, Neu, Papini 2024 (arXiv 2309.15771), Section 6.

    Args:
        alpha: the penalty, at least 0; with 0 the minimum-norm least-squares solution.
        intercept: fit b (unpenalized); else b = 0.
        standardize: divide every column by its standard deviation before the penalty is applied.
            Off by default, as in scikit-learn; coefficients are always those of the unscaled
            columns.

    >>> import numpy as np, piwo
    >>> X = np.array([[0.0], [1.0]] * 50)
    >>> log = piwo.Log.from_arrays(
    ...     context=X, action=[0, 1] * 50, reward=[1, 1] * 50, propensity=[0.5] * 100
    ... )
    >>> Ridge().solve(log, piwo.IX(0.1)).act([[0.0], [1.0]]).actions.tolist()
    [0, 1]
    """

    alpha: float = 1.0
    intercept: bool = True
    standardize: bool = False
    name: ClassVar[str] = "ridge"

    def __post_init__(self) -> None:
        check_finite("alpha", self.alpha)
        check_non_negative("alpha", self.alpha)
        check_flag("intercept", self.intercept)
        check_flag("standardize", self.standardize)

    def solve_path(self, log: Log, scores: Sequence[Score]) -> list[LinearGreedy]:
        """Return one policy for each score; one pass over the log for all of them.

        Neighbors whose coefficients are proportional, but for rounding, share a policy.
        """
        gram = self._gram(log, scores)
        return self._policies(log, gram, reduce(log, gram))

    def solve_folds(
        self, log: Log, scores: Sequence[Score], fold: npt.ArrayLike
    ) -> list[list[LinearGreedy]]:
        """Return one policy for each fold and score, learned on the rows of all other folds.

        The sums of a training set are the merged sums of the other folds: F folds cost one pass.

        Args:
            log: the rows.
            scores: S linear scores.
            fold: (n,) fold number of every row, 0..F-1, chosen without looking at the rows.

        Returns:
            F lists of S policies.

        Raises:
            UsageError: for fold numbers that are not (n,) whole numbers from 0 without a gap, or a
                single fold.

        >>> import numpy as np, piwo
        >>> X = np.array([[0.0], [1.0]] * 50)
        >>> log = piwo.Log.from_arrays(
        ...     context=X, action=[0, 1] * 50, reward=[1, 1] * 50, propensity=[0.5] * 100
        ... )
        >>> [len(some) for some in Ridge().solve_folds(log, [piwo.IX(0.1)], np.arange(100) // 50)]
        [1, 1]
        """
        log.require_order("fold")
        number = np.asarray(fold)
        if number.shape != (len(log),) or number.dtype.kind not in "iu":
            raise UsageError(
                f"{argument('fold')} has shape {number.shape} and type {number.dtype}, expected "
                f"({len(log)},) whole numbers"
            )
        counts = np.zeros(0, np.int64)
        if number.min(initial=0) >= 0 and number.max(initial=0) < len(number):
            counts = np.bincount(number)
        if len(counts) < 2 or not counts.all():
            raise UsageError(
                "fold numbers are not 0, 1, ..., F-1 with F of at least 2; number the folds from 0"
            )
        gram = self._gram(log, scores)
        folds = Folds(gram, number, len(counts))
        states = reduce(log, folds)
        return [self._policies(log, gram, folds.without(states, k)) for k in range(folds.count)]

    def _gram(self, log: Log, scores: Sequence[Score]) -> Gram:
        """Return what must be summed: X'X and X'G about a shift near the mean."""
        self.fit_for(log)
        assert log.features is not None
        if self.intercept:
            shift = first_mean(log)
        else:
            shift = np.zeros(log.features.width)
        return Gram(tuple(scores), len(log.actions), shift)

    def _policies(self, log: Log, gram: Gram, state: GramState) -> list[LinearGreedy]:
        """Return the policies of the sums, one for each score."""
        solution = ridge_solution(
            state, gram.scores, gram.shift, self.alpha, self.intercept, self.standardize
        )
        coef, intercept = solution.coef, solution.intercept
        spread = np.sqrt(np.diag(state.xx) / state.rows)
        shares = [_shares(c, b, gram.shift, spread) for c, b in zip(coef, intercept, strict=True)]
        return shared_by_neighbors(
            shares,
            lambda s, _: LinearGreedy(coef[s], intercept[s], log.actions, log.features),
            atol=_ROUNDING,
        )


def _shares(coef: Floats, intercept: Floats, shift: Floats, spread: Floats) -> Floats:
    """Return the parts of the scores of a typical row, (K, d + 1), as shares of the largest.

    They are equal for proportional coefficients, which decide alike.
    """
    size = np.column_stack([coef * spread, intercept + coef @ shift])
    return size / max(float(np.abs(size).max()), np.finfo(np.float64).tiny)


def ridge_solution(
    state: GramState,
    scores: Sequence[Score],
    shift: Floats,
    alpha: float = 1.0,
    intercept: bool = True,
    standardize: bool = False,
) -> RidgeSolution:
    """Return the ridge regressions of a Gram state, S scores x K actions at once.

    Args:
        state: the sums.
        scores: the S scores of the sums.
        shift: (d,) the shift of the sums.
        alpha: see `Ridge`.
        intercept: see `Ridge`.
        standardize: see `Ridge`.

    Raises:
        DataError: if a sum is beyond float64.
    """
    from scipy.linalg import LinAlgError, cho_factor, cho_solve, lstsq

    n, d = state.rows, len(shift)
    check_sums_of_squares(state.xx)
    g, gx = _gains(state, scores)
    # about the mean m of the rows: X'X - n m m' and X'G - m g', so that b is not penalized
    if intercept:
        center = state.x / n
    else:
        center = np.zeros(d)
    xx = state.xx - n * np.outer(center, center)
    # an overflow is refused below
    with np.errstate(over="ignore", invalid="ignore"):
        xg = (gx - g[:, :, None] * center).reshape(-1, d).T
    if not (np.isfinite(xg).all() and np.isfinite(g).all()):
        raise DataError(
            "sums of gains times context leave float64: propensities are too small or contexts "
            "too large, expected sums below 1e308; use a score with gamma > 0 such as IX, or "
            "divide the context by a constant"
        )
    scale = np.ones(d)
    if standardize:
        # constant columns stay as they are
        deviation = np.sqrt(np.maximum(np.diag(xx), 0.0) / n)
        scale = np.where(deviation > 0, deviation, 1.0)
    # (X'X + alpha I) c = X'G in scaled columns, by Cholesky; by least squares if X'X + alpha I is
    # singular, which only alpha = 0 allows
    penalized = xx / np.outer(scale, scale) + alpha * np.eye(d)
    target = xg / scale[:, None]
    # on these few columns, threads of BLAS wait for each other longer than they work
    with native_threads(1, "blas"):
        try:
            solved = cho_solve(cho_factor(penalized), target)
        except LinAlgError:
            solved = lstsq(penalized, target)[0]
    coef = (solved / scale[:, None]).T.reshape(len(scores), -1, d)
    # b = mean gain - c'(mean context), whose origin is the shift
    if intercept:
        offset = g / n - coef @ (center + shift)
    else:
        offset = np.zeros(g.shape)
    return RidgeSolution(np.ascontiguousarray(coef), offset)


def _gains(state: GramState, scores: Sequence[Score]) -> tuple[Floats, Floats]:
    """Return the sums of gains (S, K) and of gains times context (S, K, d).

    If dense gains are beyond float64, all gains of such a score are in units of exp(unit), which
    does not change the argmax.
    """
    column = sparse_columns(scores)
    g, gx = state.g.T[column], state.gx.transpose(2, 0, 1)[column]
    for s, (score, c) in enumerate(zip(scores, dense_columns(scores), strict=True)):
        if c < 0:
            continue
        unit = max(0.0, float(state.scale[c].max()) - _LARGEST_LOG)
        # sparse + weight dense exp(scale), divided by exp(unit)
        factor = score.dense_weight * np.exp(state.scale[c] - unit)
        g[s] = g[s] * np.exp(-unit) + factor * state.dense[c]
        gx[s] = gx[s] * np.exp(-unit) + factor[:, None] * state.dense_x[c]
    return g, gx
