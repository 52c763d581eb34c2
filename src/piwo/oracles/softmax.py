"""Softmax oracle: gradient ascent on the gains of a linear softmax policy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from piwo.checks import check_count, check_finite, check_non_negative
from piwo.engines.native_threads import native_threads
from piwo.engines.stages import check_time
from piwo.errors import UsageError
from piwo.logs.batch import Floats
from piwo.logs.log import Log
from piwo.oracles.examples import Examples, rewarded, standardized
from piwo.oracles.oracle import Oracle, shared_by_neighbors
from piwo.policies import LinearGreedy
from piwo.policies.blocks import row_blocks
from piwo.scores import Score

__all__ = ["Softmax"]


@dataclass(frozen=True)
class Softmax(Oracle):
    """Linear policies by gradient ascent on the gains themselves, with a penalty on their variance.

    Answers: which linear policy has the highest gains, without the surrogate losses of regression
    and classification? Slower than `Ridge`, and it may stop at a local maximum; good if few actions
    matter. The policy returned plays the most probable action of the softmax.

    Formula: max over W, b of V - penalty sqrt((M - V^2)/n) - ridge mean(G) |W|^2/2, with pi =
    softmax(W x + b) on standardized columns, V = (1/n) sum_t pi(A_t|X_t) G_t and M = (1/n) sum_t
    (pi(A_t|X_t) G_t)^2, n counting the rows without reward; gains are divided by their mean, so
    that the result does not depend on the unit of the reward. By L-BFGS from W = 0, with the
    analytic gradient, block by block. Only rewarded rows are held in memory.
    Source: variance penalty: Swaminathan and Joachims 2015 (arXiv 1502.02362); gains:
    docs/theory.md, "Oracles".

    Args:
        penalty: weight of the standard error, at least 0.
        ridge: weight of |W|^2, at least 0.
        steps: most steps of L-BFGS; stopping early is harmless.

    >>> import numpy as np, piwo
    >>> X = np.array([[0.0], [1.0]] * 50)
    >>> log = piwo.Log.from_arrays(
    ...     context=X, action=[0, 1] * 50, reward=[1, 1] * 50, propensity=[0.5] * 100
    ... )
    >>> Softmax().solve(log, piwo.IX(0.1)).act([[0.0], [1.0]]).actions.tolist()
    [0, 1]
    """

    penalty: float = 1.0
    ridge: float = 1e-3
    steps: int = 100
    name: ClassVar[str] = "softmax"

    def __post_init__(self) -> None:
        for what in ("penalty", "ridge"):
            value = getattr(self, what)
            check_finite(what, value)
            check_non_negative(what, value)
        check_count("steps", self.steps, 1, "how many steps to make at most")

    def needs_rows(self) -> bool:
        """True: sums do not suffice."""
        return True

    def solve_path(self, log: Log, scores: Sequence[Score]) -> list[LinearGreedy]:
        """Return one policy for each score; the log is read once, the rewarded rows many times."""
        self.fit_for(log)
        if any(score.dense_weight != 0 for score in scores):
            raise UsageError("the softmax oracle takes sparse scores; use IX, Clip, LSLinear or IW")
        examples = rewarded(log, scores)
        context, center, scale = standardized(examples.context)
        # with one propensity and one reward the gains, divided by their mean, do not depend on the
        # score
        weights = (gains * (examples.rows / gains.sum()) for gains in examples.gains)
        return shared_by_neighbors(
            weights,
            lambda _, weight: self._policy(examples, context, weight, center, scale, log),
            rtol=1e-12,
        )

    def _policy(
        self,
        examples: Examples,
        context: Floats,
        weight: Floats,
        center: Floats,
        scale: Floats,
        log: Log,
    ) -> LinearGreedy:
        from scipy.optimize import minimize

        seen = np.unique(examples.action)
        climb = SoftmaxObjective(
            context,
            np.searchsorted(seen, examples.action),
            weight,
            examples.rows,
            self.penalty,
            self.ridge,
        )
        start = np.zeros(len(seen) * (context.shape[1] + 1))
        options = {"maxiter": self.steps}
        # blocks of rows are small: threads of BLAS would mostly wait for each other, and spin
        with native_threads(1):
            found = minimize(climb, start, jac=True, method="L-BFGS-B", options=options).x
        weights = found.reshape(len(seen), -1)
        coef = np.zeros((len(log.actions), context.shape[1]))
        # an action that was never rewarded is never played
        offset = np.full(len(log.actions), -np.inf)
        # w'(x - center)/scale + b = (w/scale)'x + b - (w/scale)'center
        coef[seen] = weights[:, :-1] / scale
        offset[seen] = weights[:, -1] - coef[seen] @ center
        return LinearGreedy(coef, offset, log.actions, log.features)


@dataclass(frozen=True)
class SoftmaxObjective:
    """The objective of the softmax oracle, with its gradient; see `Softmax` for the formula.

    Args:
        context: (m, d) standardized, of the rewarded rows.
        action: (m,) positions among the S actions that have coefficients.
        gains: (m,) with sum n.
        rows: n.
        penalty: see `Softmax`.
        ridge: see `Softmax`.

    >>> one = SoftmaxObjective(np.zeros((1, 1)), np.zeros(1, int), np.ones(1), 1, 0.0, 0.0)
    >>> one(np.zeros(4))[0]
    -0.5
    """

    context: Floats
    action: npt.NDArray[np.intp]
    gains: Floats
    rows: int
    penalty: float
    ridge: float

    def __call__(self, parameters: Floats) -> tuple[float, Floats]:
        """Return the negated objective, and its gradient, for flattened (S, d + 1) coefficients."""
        check_time()
        n, width = self.rows, self.context.shape[1] + 1
        weights = parameters.reshape(-1, width)
        value = square = 0.0
        first, second = np.zeros_like(weights), np.zeros_like(weights)
        for block in row_blocks(len(self.action), len(weights)):
            x, action, gains = self.context[block], self.action[block], self.gains[block]
            pi = _softmax(x @ weights[:, :-1].T + weights[:, -1])
            at = np.arange(len(action)), action
            # sums of pi(A) G and of (pi(A) G)^2
            credit = pi[at] * gains
            value, square = value + float(credit.sum()), square + float(credit @ credit)
            # d pi(A) = pi(A) (e_A - pi)
            np.negative(pi, out=pi)
            pi[at] += 1.0
            slopes = ((first, credit), (second, 2.0 * credit * credit))
            for sums, slope in slopes if self.penalty else slopes[:1]:
                moved = pi * slope[:, None]
                sums[:, :-1] += moved.T @ x
                sums[:, -1] += moved.sum(axis=0)
        # V, the standard error sqrt((M - V^2)/n), and the gradient of V - penalty error
        mean = value / n
        error = np.sqrt(max(square / n - mean * mean, 1e-12) / n)
        slope = 0.5 * self.penalty / (n * error)
        gradient = (first - slope * (second - 2.0 * mean * first)) / n
        gradient[:, :-1] -= self.ridge * weights[:, :-1]
        size = 0.5 * self.ridge * float((weights[:, :-1] ** 2).sum())
        return float(self.penalty * error + size - mean), -gradient.ravel()


def _softmax(scores: Floats) -> Floats:
    scores -= scores.max(axis=1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=1, keepdims=True)
    return scores
