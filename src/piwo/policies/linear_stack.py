"""Many linear greedy policies, decided together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from piwo.errors import UsageError
from piwo.logs.batch import Floats
from piwo.policies.linear_greedy import LinearGreedy

__all__ = ["LinearStack"]

_ROWS = 65_536


class LinearStack:
    """P linear greedy policies over the same actions and context, decided in one go.

    Prefer it to asking each policy where there are many (a path of gammas, folds, candidates): scores are computed
    in single precision in tiles that stay in cache, and every decision that rounding could have swayed is made again
    in double precision, so that the choices are those of the policies themselves.

    Args:
        policies: P policies with the same action list and the same number of context columns.

    Raises:
        UsageError: for none, or for policies that differ in actions or width.

    >>> import numpy as np
    >>> up = LinearGreedy([[1.0], [-1.0]], [0.0, 0.0], ["a", "b"])
    >>> down = LinearGreedy([[-1.0], [1.0]], [0.0, 0.0], ["a", "b"])
    >>> LinearStack([up, down]).choose(np.array([[2.0], [-3.0]])).tolist()
    [[0, 1], [1, 0]]
    """

    def __init__(self, policies: Sequence[LinearGreedy]) -> None:
        if not policies:
            raise UsageError("no policies to stack; give at least one")
        first = policies[0]
        if any(p.actions != first.actions or p.coef.shape != first.coef.shape for p in policies):
            raise UsageError("the policies differ in their actions or context columns; stack policies of one log")
        self.policies = tuple(policies)
        self.coef = np.stack([p.coef for p in policies])
        self.intercept = np.stack([p.intercept for p in policies])

    def __len__(self) -> int:
        return len(self.policies)

    def choose(self, X: Any) -> npt.NDArray[np.int32]:
        """Return the action codes that every policy takes, (P, n).

        Args:
            X: (n, d) context matrix.
        """
        context = self.policies[0].context(X)
        assert context is not None
        codes = np.empty((len(self), len(context)), np.int32)
        for at in range(0, len(context), _ROWS):
            block = context[at : at + _ROWS]
            codes[:, at : at + _ROWS] = self._block(np.ascontiguousarray(block))
        return codes

    def values(self, X: Any, action: npt.NDArray[np.int32], gains: Floats) -> Floats:
        """Return every policy's mean gain, (P,): mean_t 1{the policy takes A_t in X_t} G[t, A_t].

        Args:
            X: (n, d) context matrix.
            action: (n,) codes of the logged actions.
            gains: (n,) sparse gains of the logged actions.
        """
        total = np.zeros(len(self))
        for at in range(0, len(action), _ROWS):
            rows = slice(at, at + _ROWS)
            total += (self.choose(X[rows]) == action[rows]) @ gains[rows]
        return total / max(len(action), 1)

    def _block(self, x: Floats) -> npt.NDArray[np.int32]:
        from piwo.policies.kernels import choose_many

        codes = np.empty((len(self), len(x)), np.int32)
        doubt = np.empty((len(self), len(x)), np.bool_)
        shift, scale = _frame(x)
        # in shifted and scaled columns, and with each policy divided by its largest coefficient, single precision
        # neither overflows nor loses the differences between actions; neither step changes an argmax
        coef = self.coef * scale
        intercept = self.intercept + self.coef @ shift
        finite = np.where(np.isfinite(intercept), intercept, 0.0)
        size = np.maximum(np.abs(coef).max(axis=(1, 2)), np.abs(finite).max(axis=1))
        size = np.where(size > 0, size, 1.0)
        coef /= size[:, None, None]
        intercept = intercept / size[:, None]
        # |fl(w'x + b) - (w'x + b)| <= (d + 2) eps (|w| |x| + |b|), for both of two actions; |b| <= 1 here
        norms = np.sqrt((coef * coef).sum(axis=2)).max(axis=1)
        slack = 2.0 * (x.shape[1] + 3) * np.finfo(np.float32).eps * np.maximum(norms, 1.0)
        single = (coef.astype(np.float32), intercept.astype(np.float32), slack.astype(np.float32))
        choose_many(x, shift, scale, *single, codes, doubt)
        for p, policy in enumerate(self.policies):
            rows = np.flatnonzero(doubt[p])
            if len(rows):
                codes[p, rows] = policy.decide(x[rows], len(rows))
        return codes


def _frame(x: Floats) -> tuple[Floats, Floats]:
    """Return a shift and a scale a column that bring the context near [-1, 1]."""
    if len(x) == 0:
        return np.zeros(x.shape[1]), np.ones(x.shape[1])
    low, high = x.min(axis=0), x.max(axis=0)
    scale = (high - low) / 2.0
    return low / 2.0 + high / 2.0, np.where(scale > 0, scale, 1.0)
