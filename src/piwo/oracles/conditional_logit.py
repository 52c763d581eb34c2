"""Conditional logit oracle: a softmax over products of context and item, weighted by gains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from piwo.checks import check_count, check_finite, check_non_negative
from piwo.engines.native_threads import native_threads
from piwo.engines.stages import check_time
from piwo.logs.batch import Floats
from piwo.logs.eligible import Eligible
from piwo.logs.log import Log
from piwo.oracles.examples import check_sparse, rewarded, standardized
from piwo.oracles.joint_features import ItemOracle, ItemTable, joint_policy
from piwo.oracles.oracle import shared_by_neighbors
from piwo.policies import JointLinear
from piwo.policies.blocks import row_blocks, spread
from piwo.scores import Score

__all__ = ["ConditionalLogit", "FactoredObjective", "LogitObjective"]

_ROWS = 2**14
"""Rows that a thread takes at a time: sums do not depend on the number of threads."""


@dataclass(frozen=True)
class ConditionalLogit(ItemOracle):
    """Conditional logit on products of context and item, rows weighted by their gains.

    Answers: which policy, if actions have features and change from row to row, and few rows have a
    reward? It generalizes the weighted logistic regression of `Classifier` to items: it learns
    which of the eligible items was right, from the rewarded rows alone. The log needs
    `piwo.read(items=)`. The policy returned takes the most probable item.

    Formula: max over W, v of sum_t g_t log softmax(s(x_t, .))[A_t] - alpha (|W|^2 + |v|^2) / 2, the
    softmax over the eligible items, s(x, a) = x'W z_a + v'z_a on standardized columns, and gains g
    divided by their mean, so that the result does not depend on the unit of the reward. It is
    concave; by L-BFGS, with the analytic gradient. Only rewarded rows are held in memory.
    Source: conditional logit: McFadden 1974; gains: docs/theory.md, "Oracles".

    Args:
        alpha: the penalty, at least 0.
        steps: most steps of L-BFGS; stopping early is harmless.
        rank: W = A B' with so many columns of A and B, penalized by alpha (|A|^2 + |B|^2) / 2, for
            wide context and items (hashed text); L-BFGS may then stop at a local maximum. None: all
            products have weights of their own.

    >>> import numpy as np, piwo
    >>> rng = np.random.default_rng(0)
    >>> X, A = rng.normal(size=(400, 1)), rng.integers(0, 2, 400)
    >>> log = piwo.Log.from_arrays(
    ...     context=X,
    ...     action=A,
    ...     reward=(A == (X[:, 0] > 0)) * 1.0,
    ...     propensity=np.full(400, 0.5),
    ...     items={"action": [0, 1], "heat": [-1.0, 1.0]},
    ... )
    >>> policy = ConditionalLogit().solve(log, piwo.IX(0.1))
    >>> new = {"action": [7, 8], "heat": [-3.0, 2.0]}
    >>> policy.act([[-2.0], [2.0]], items=new).actions.tolist()
    [7, 8]
    """

    alpha: float = 1.0
    steps: int = 100
    rank: int | None = None
    name: ClassVar[str] = "conditional-logit"

    def __post_init__(self) -> None:
        check_finite("alpha", self.alpha)
        check_non_negative("alpha", self.alpha)
        check_count("steps", self.steps, 1, "how many steps to make at most")
        if self.rank is not None:
            check_count("rank", self.rank, 1)

    def needs_rows(self) -> bool:
        """True: sums do not suffice."""
        return True

    def solve_path(self, log: Log, scores: Sequence[Score]) -> list[JointLinear]:
        """Return one policy for each score; the log is read once, the rewarded rows many times."""
        from scipy.optimize import minimize

        self.fit_for(log)
        check_sparse(scores)
        items = ItemTable.of(log, standardize=True)
        examples = rewarded(log, scores)
        context, center, scale = standardized(examples.context)
        wide = np.column_stack([np.ones(len(context)), context])
        action, eligible, table = examples.action, examples.eligible, items.table
        if items.inline and eligible is not None:
            # Each pair is an item of its row alone.
            table = items.of_pairs(eligible)
            action, eligible = eligible.places(action).astype(np.int32), eligible.apart()

        def policy(_: int, gains: Floats) -> JointLinear:
            climb = LogitObjective(wide, action, gains, eligible, table, self.alpha)
            options = {"jac": True, "method": "L-BFGS-B", "options": {"maxiter": self.steps}}
            # blocks of rows are small: threads of BLAS would mostly wait for each other
            with native_threads(1):
                if self.rank is None:
                    start = np.zeros(wide.shape[1] * items.table.shape[1])
                    found = minimize(climb, start, **options).x
                else:
                    factored = FactoredObjective(climb, self.rank)
                    found = factored.weights(minimize(factored, factored.start, **options).x)
            weights = found.reshape(wide.shape[1], -1)
            # w'(x - center) / scale + b = (w / scale)'x + b - (w / scale)'center
            own = weights.copy()
            own[1:] /= scale[:, None]
            own[0] -= center @ own[1:]
            return joint_policy(own, items, log)

        # neighbors with proportional gains share a policy
        weights = (gains / gains.mean() for gains in examples.gains)
        return shared_by_neighbors(weights, policy, rtol=1e-12)


@dataclass(frozen=True)
class LogitObjective:
    """The objective of the conditional logit oracle, with its gradient.

    Args:
        context: (m, d + 1) a constant and the standardized context, of the rewarded rows.
        action: (m,) codes.
        gains: (m,) with mean 1.
        eligible: of these rows; None: all items.
        table: (K, f) features of the items.
        alpha: see `ConditionalLogit`.

    >>> one = LogitObjective(
    ...     np.ones((1, 1)), np.zeros(1, np.int32), np.ones(1), None, np.eye(2), 0.0
    ... )
    >>> round(one(np.zeros(2))[0], 6), one(np.zeros(2))[1].tolist()
    (0.693147, [-0.5, 0.5])
    """

    context: Floats
    action: npt.NDArray[np.int32]
    gains: Floats
    eligible: Eligible | None
    table: Floats
    alpha: float

    def __call__(self, parameters: Floats) -> tuple[float, Floats]:
        """Return the negated objective and its gradient, for flattened (d + 1, f) weights."""
        check_time()
        weights = parameters.reshape(-1, self.table.shape[1])

        def of_rows(rows: slice) -> tuple[float, Floats]:
            context = self.context[rows]
            # s(x, a) = y'z_a, with y = W'x
            loss, slope = self._slopes(rows, context @ weights)
            return loss, context.T @ slope

        loss = 0.5 * self.alpha * float(parameters @ parameters)
        gradient = self.alpha * weights
        for part, slope in spread(len(self.action), _ROWS, of_rows):
            loss += part
            gradient -= slope
        return loss, gradient.ravel()

    def _slopes(self, rows: slice, y: Floats) -> tuple[float, Floats]:
        """Return -sum g log p(A), and g (z_A - sum_a p_a z_a) of each row, (n, f)."""
        from piwo.oracles.kernels import logit_of_pairs

        action, gains = self.action[rows], self.gains[rows]
        found = np.empty(y.shape)
        if self.eligible is not None:
            some = self.eligible.take(rows)
            places = some.places(action)
            most = np.empty(int(some.sizes.max(initial=0)))
            loss = logit_of_pairs(
                some.starts, some.codes, places, y, self.table, gains, most, found
            )
            return float(loss), found
        total = 0.0
        for block in row_blocks(len(y), len(self.table)):
            z = y[block] @ self.table.T
            at = np.arange(len(z)), action[block]
            z -= z.max(axis=1, keepdims=True)
            taken = z[at]
            np.exp(z, out=z)
            sums = z.sum(axis=1)
            # log p(A) = s_A - log sum_a exp(s_a)
            total -= float(gains[block] @ (taken - np.log(sums)))
            mean = (z @ self.table) / sums[:, None]
            found[block] = gains[block, None] * (self.table[action[block]] - mean)
        return total, found


@dataclass(frozen=True)
class FactoredObjective:
    """The same objective for weights of low rank: W = A B'.

    Args:
        full: the objective of all weights.
        rank: r.

    >>> one = LogitObjective(
    ...     np.ones((1, 2)), np.zeros(1, np.int32), np.ones(1), None, np.eye(2), 0.0
    ... )
    >>> factored = FactoredObjective(one, 1)
    >>> factored.start.shape, factored.weights(np.array([5.0, 6.0, 2.0, 3.0, 4.0])).tolist()
    ((5,), [[5.0, 6.0], [6.0, 8.0]])
    """

    full: LogitObjective
    rank: int

    @property
    def start(self) -> Floats:
        """Where to begin: v = 0, A and B small numbers, as at 0 the gradient is 0."""
        d, f = self.full.context.shape[1] - 1, self.full.table.shape[1]
        small = np.random.default_rng(0).normal(scale=0.1, size=(d + f) * self.rank)
        return np.concatenate([np.zeros(f), small])

    def _parts(self, parameters: Floats) -> tuple[Floats, Floats, Floats]:
        """Return v, (f,), A, (d, r), and B, (f, r)."""
        d, f = self.full.context.shape[1] - 1, self.full.table.shape[1]
        v, a, b = np.split(parameters, [f, f + d * self.rank])
        return v, a.reshape(d, self.rank), b.reshape(f, self.rank)

    def weights(self, parameters: Floats) -> Floats:
        """Return v above A B', (d + 1, f)."""
        v, a, b = self._parts(parameters)
        return np.vstack([v, a @ b.T])

    def __call__(self, parameters: Floats) -> tuple[float, Floats]:
        """Return the negated objective and its gradient, for v, A and B, flattened."""
        _, a, b = self._parts(parameters)
        alpha = self.full.alpha
        loss, slope = replace(self.full, alpha=0.0)(self.weights(parameters).ravel())
        loss += 0.5 * alpha * float(parameters @ parameters)
        # dW = dA B' + A dB'
        slope = slope.reshape(-1, len(b))
        parts = [slope[0], (slope[1:] @ b).ravel(), (slope[1:].T @ a).ravel()]
        return loss, np.concatenate(parts) + alpha * parameters
