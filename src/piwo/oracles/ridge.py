"""Ridge oracle: multi-output ridge regression of the gains on the context, then the argmax."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from piwo.engines.engine import reduce
from piwo.errors import UsageError
from piwo.logs.batch import Floats
from piwo.logs.log import Log
from piwo.oracles.oracle import Oracle
from piwo.policies import LinearGreedy, Policy
from piwo.reductions.gram import Gram, GramState
from piwo.scores import Score

__all__ = ["Ridge", "RidgeSolution", "ridge_solution"]


@dataclass(frozen=True)
class RidgeSolution:
    """Coefficients (S, K, d) and intercepts (S, K) for S scores."""

    coef: Floats
    intercept: Floats


@dataclass(frozen=True)
class Ridge(Oracle):
    """Linear greedy policies by ridge regression of the gains.

    Answers: which linear policy, in one pass, for a whole path of scores? The same answer as
    `sklearn.linear_model.Ridge(alpha, fit_intercept)` on the dense n x K gains (rows without reward and actions not
    taken count as gain 0), without ever forming them. A heuristic oracle, as in the paper's experiments: its
    policies are good, not provably the best of the class, and certificates come from a split.

    Formula: for every action a, min over c, b of sum_t (G[t, a] - c'X_t - b)^2 + alpha |c|^2;
    pi(x) = argmax_a c_a'x + b_a.
    Source: Gabbianelli, Neu, Papini 2024 (arXiv 2309.15771), Section 6.

    Args:
        alpha: the penalty, at least 0; with 0 the minimum-norm least-squares solution.
        intercept: fit b (unpenalised); else b = 0.
        standardize: divide every column by its standard deviation before the penalty is applied. Off by default, as
            in scikit-learn; coefficients are always those of the columns as they are.

    >>> import numpy as np, piwo
    >>> X = np.array([[0.0], [1.0]] * 50)
    >>> log = piwo.Log.from_arrays(context=X, action=[0, 1] * 50, reward=[1, 1] * 50, propensity=[0.5] * 100)
    >>> Ridge().solve(log, piwo.IX(0.1)).act([[0.0], [1.0]]).actions.tolist()
    [0, 1]
    """

    alpha: float = 1.0
    intercept: bool = True
    standardize: bool = False
    name: ClassVar[str] = "ridge"

    def __post_init__(self) -> None:
        if not (np.isfinite(self.alpha) and self.alpha >= 0):
            raise UsageError(f"alpha is {self.alpha!r}, expected a finite number of at least 0")

    def solve_path(self, log: Log, scores: Sequence[Score]) -> list[Policy]:
        """Return one policy a score; one pass over the log for all of them."""
        self.fit_for(log)
        shift = _first_mean(log) if self.intercept else np.zeros(_width(log))
        state = reduce(log, Gram(tuple(scores), len(log.actions), shift))
        solution = ridge_solution(state, scores, shift, self.alpha, self.intercept, self.standardize)
        pairs = zip(solution.coef, solution.intercept, strict=True)
        return [LinearGreedy(coef, intercept, log.actions, log.features) for coef, intercept in pairs]


def _width(log: Log) -> int:
    assert log.features is not None
    return log.features.width


def _first_mean(log: Log) -> Floats:
    """Return the mean context of the first batch: near enough to the mean for centring to lose no digits."""
    for batch in log.each_batch(context=True):
        assert batch.context is not None
        mean: Floats = batch.context.mean(axis=0)
        return mean
    return np.zeros(_width(log))


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
        scores: the S scores that the sums were made for.
        shift: (d,) the shift that they were made with.
        alpha: see `Ridge`.
        intercept: see `Ridge`.
        standardize: see `Ridge`.
    """
    n, d = state.rows, len(shift)
    penalties = np.array([score.penalty for score in scores])
    # dense pseudo-loss gains are the sparse ones minus beta / mu(a|x)
    g = state.g.T - _dense(penalties, state.inverse)
    gx = state.gx.transpose(2, 0, 1) - _dense(penalties, state.inverse_x)
    center = state.x / n if intercept else np.zeros(d)
    xx = state.xx - n * np.outer(center, center)
    xg = (gx - g[:, :, None] * center).reshape(-1, d).T
    scale = _scale(xx, n) if standardize else np.ones(d)
    solved = _solve(xx / np.outer(scale, scale), xg / scale[:, None], alpha) / scale[:, None]
    coef = solved.T.reshape(len(scores), -1, d)
    offset = g / n - coef @ (center + shift) if intercept else np.zeros(g.shape)
    return RidgeSolution(np.ascontiguousarray(coef), offset)


def _dense(penalties: Floats, sums: Floats) -> Floats | float:
    return 0.0 if not len(sums) else penalties.reshape(-1, *([1] * sums.ndim)) * sums


def _scale(xx: Floats, n: float) -> Floats:
    deviation = np.sqrt(np.maximum(np.diag(xx), 0.0) / n)
    return np.where(deviation > 0, deviation, 1.0)


def _solve(xx: Floats, xg: Floats, alpha: float) -> Floats:
    from scipy.linalg import LinAlgError, cho_factor, cho_solve, lstsq

    penalised = xx + alpha * np.eye(len(xx))
    try:
        solved: Floats = cho_solve(cho_factor(penalised), xg)
    except LinAlgError:
        solved = lstsq(penalised, xg)[0]
    return solved
