"""Many linear greedy policies, decided together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from piwo.checks import check_kind, check_listed
from piwo.errors import UsageError
from piwo.logs.batch import Floats
from piwo.policies.blocks import spread
from piwo.policies.linear import LinearGreedy

__all__ = ["LinearStack"]

T = TypeVar("T")

# Choices a block: their table stays near the caches.
_CHOICES = 2**19
# Neighbors that a policy is compared with: a path of hyper-parameters for a few scores.
_WINDOW = 128
# Rows that tell where the context lies: enough for single precision to be sharp, whatever they are
# it is right.
_FRAME = 4096


class LinearStack:
    """P linear greedy policies over the same actions and context, decided in one go.

    Prefer it to asking each policy where there are many (a path of gammas, folds, candidates):
    scores are computed in single precision in tiles that stay in cache, on all cores, and every
    decision that rounding could have swayed is made again in double precision, so that the choices
    are those of the policies themselves. Neighbors on a path often agree: where a policy is so
    near to one of the 128 before it that a tile's leads cannot turn, it is not computed again. Give
    paths in their order, then.

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
        check_listed("policies", policies)
        for policy in policies:
            check_kind("a policy", policy, LinearGreedy, " of piwo.policies")
        if not policies:
            raise UsageError("no policies to stack; give at least one")
        first = policies[0]
        if any(p.actions != first.actions or p.coef.shape != first.coef.shape for p in policies):
            raise UsageError(
                "the policies differ in their actions or context columns; stack policies of one log"
            )
        self.policies = tuple(policies)
        self.coef = np.stack([p.coef for p in policies])
        self.intercept = np.stack([p.intercept for p in policies])

    def __len__(self) -> int:
        return len(self.policies)

    def each(self, X: Any, use: Callable[[slice, npt.NDArray[np.int32]], T]) -> list[T]:
        """Return what a function makes of the choices, block of rows by block of rows; they are never all in memory.

        Args:
            X: (n, d) context matrix.
            use: called with the rows of a block and the (P, m) action codes that every policy takes
                in them, from several threads at once. The codes are its own to keep.

        Returns:
            One result a block, in the order of the rows.

        >>> up = LinearGreedy([[1.0], [-1.0]], [0.0, 0.0], ["a", "b"])
        >>> LinearStack([up]).each(
        ...     np.array([[2.0], [-3.0]]), lambda rows, codes: codes.sum(axis=1).tolist()
        ... )
        [[1]]
        """
        context = self.policies[0].context(X)
        assert context is not None
        single = _SinglePrecision.of(self.coef, self.intercept, context)
        step = max(256, _CHOICES // len(self))
        return spread(
            len(context), step, lambda rows: use(rows, self._choices(context[rows], single))
        )

    def choose(self, X: Any) -> npt.NDArray[np.int32]:
        """Return the action codes that every policy takes, (P, n).

        Args:
            X: (n, d) context matrix.
        """
        blocks = self.each(X, lambda rows, codes: codes)  # noqa: ARG005
        return np.concatenate(blocks, axis=1) if blocks else np.empty((len(self), 0), np.int32)

    def values(self, X: Any, action: npt.NDArray[np.int32], gains: Floats) -> Floats:
        """Return every policy's mean gain, (P,): mean_t 1{the policy takes A_t in X_t} G[t, A_t].

        Args:
            X: (n, d) context matrix.
            action: (n,) codes of the logged actions.
            gains: (n,) sparse gains of the logged actions.
        """
        from piwo.policies.kernels import add_matched

        action, gains = (
            np.ascontiguousarray(action, np.int32),
            np.ascontiguousarray(gains, np.float64),
        )
        return self._mean(
            X, lambda rows, codes, sums: add_matched(codes, action[rows], gains[rows], sums)
        )

    def mean_rewards(self, X: Any, kinds: npt.NDArray[np.integer[Any]], rewards: Floats) -> Floats:
        """Return every policy's mean of a known reward, (P,): mean_t M[k_t, the action that it takes in X_t].

        Args:
            X: (n, d) context matrix.
            kinds: (n,) which row of M goes with a row of X, such as its class.
            rewards: M, (kinds, K) mean rewards by kind of row and action.

        >>> up = LinearGreedy([[1.0], [-1.0]], [0.0, 0.0], ["a", "b"])
        >>> LinearStack([up]).mean_rewards(
        ...     np.array([[2.0], [-3.0]]), np.array([0, 0]), np.array([[1.0, 0.5]])
        ... ).tolist()
        [0.75]
        """
        from piwo.policies.kernels import add_known

        kinds, rewards = (
            np.ascontiguousarray(kinds, np.int32),
            np.ascontiguousarray(rewards, np.float64),
        )
        return self._mean(X, lambda rows, codes, sums: add_known(codes, kinds[rows], rewards, sums))

    def _mean(
        self, X: Any, add: Callable[[slice, npt.NDArray[np.int32], Floats], object]
    ) -> Floats:
        """Return the mean over rows, (P,), of what a function adds to the sums of a block; blocks in their order."""

        def credit(rows: slice, codes: npt.NDArray[np.int32]) -> Floats:
            sums = np.zeros(len(self))
            add(rows, codes, sums)
            return sums

        total = sum(self.each(X, credit), np.zeros(len(self)))
        return np.asarray(total / max(len(X), 1))

    def _choices(self, x: Floats, single: _SinglePrecision) -> npt.NDArray[np.int32]:
        from piwo.policies.kernels import choose_many

        codes = np.empty((len(self), len(x)), np.int32)
        s = single
        choose_many(
            x,
            self.coef,
            self.intercept,
            s.size,
            s.shift,
            s.scale,
            s.coef,
            s.intercept,
            s.slack,
            s.drift,
            codes,
        )
        if codes.size and codes.min() < 0:
            p, row = (int(place[0]) for place in np.nonzero(codes < 0))
            self.policies[p].decide(x[row : row + 1], 1)  # says what is wrong with the row
        return codes


@dataclass(frozen=True)
class _SinglePrecision:
    """P policies in coordinates in which single precision neither overflows nor loses what tells actions apart.

    Context columns are shifted and scaled to about [-1, 1], each policy loses what its actions
    share and is divided by its largest coefficient; none of this changes an argmax.
    """

    size: Floats
    shift: Floats
    scale: Floats
    coef: npt.NDArray[np.float32]
    intercept: npt.NDArray[np.float32]
    slack: npt.NDArray[np.float32]
    drift: npt.NDArray[np.float32]

    @classmethod
    def of(cls, coef: Floats, intercept: Floats, context: Floats) -> _SinglePrecision:
        from piwo.policies.kernels import drifts

        shift, scale = _frame(context)
        weights, constant, first = _divided(coef * scale, intercept + coef @ shift)
        weights, constant, second = _divided(*_centered(weights, constant))
        # |fl(w'x + b) - (w'x + b)| <= (d + 2) eps (|w| |x| + |b|), for both of two actions; |b| <=
        # 1 here
        norms = np.sqrt((weights * weights).sum(axis=2)).max(axis=1)
        slack = 2.0 * (len(shift) + 4) * np.finfo(np.float32).eps * np.maximum(norms, 1.0)
        drift = np.full((len(coef), min(_WINDOW, len(coef))), np.inf)
        drifts(weights, constant, drift)
        spare = np.full((len(coef), 1), -np.inf)
        single = (weights, np.hstack([constant, spare]), slack, drift)
        return cls(
            first * second, shift, scale, *(np.ascontiguousarray(x, np.float32) for x in single)
        )


def _divided(coef: Floats, intercept: Floats) -> tuple[Floats, Floats, Floats]:
    """Divide each policy by its largest coefficient; return that too, (P,)."""
    finite = np.where(np.isfinite(intercept), intercept, 0.0)
    size = np.maximum(np.abs(coef).max(axis=(1, 2)), np.abs(finite).max(axis=1))
    size = np.where(size > 0, size, 1.0)
    return coef / size[:, None, None], intercept / size[:, None], size


def _centered(coef: Floats, intercept: Floats) -> tuple[Floats, Floats]:
    """Take from each action what all available ones have on average."""
    available = np.isfinite(intercept)
    share = np.where(available, 1.0, 0.0) / available.sum(axis=1, keepdims=True)
    finite = np.where(available, intercept, 0.0)
    common = np.einsum("pa,paf->pf", share, coef)
    return coef - common[:, None, :], intercept - (share * finite).sum(axis=1, keepdims=True)


def _frame(x: Floats) -> tuple[Floats, Floats]:
    """Return a shift and a scale a column that bring the context near [-1, 1], from some of its rows."""
    if len(x) == 0:
        return np.zeros(x.shape[1]), np.ones(x.shape[1])
    some = x[:: max(1, len(x) // _FRAME)]
    low, high = some.min(axis=0), some.max(axis=0)
    scale = (high - low) / 2.0
    return low / 2.0 + high / 2.0, np.where(scale > 0, scale, 1.0)
