"""Many linear greedy policies, decided together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from piwo.checks import check_kind, check_listed
from piwo.errors import UsageError
from piwo.logs.batch import Floats
from piwo.logs.foreign import RowError
from piwo.policies.blocks import spread
from piwo.policies.linear import LinearGreedy

__all__ = ["LinearStack"]

T = TypeVar("T")

# Choices in a block: their table stays near the caches.
_CHOICES = 2**19
# Earlier policies that each one is compared with: enough for a path of a few scores.
_WINDOW = 128
# Rows that set the scale of the context. It affects the speed of single precision, not the result.
_FRAME = 4096


class LinearStack:
    """P linear greedy policies over the same actions and context, decided together.

    Use it for many policies (a path of gammas, folds, candidates). Scores are computed in single
    precision, in tiles that stay in cache, on all cores. Every decision that rounding could change
    is made again in double precision, so the choices are those of the policies themselves.
    Neighbors on a path often agree: where the nearest of the 128 policies before one leads by more
    than the two can differ, its decision is taken over, so give paths in their order.

    Args:
        policies: P policies with the same action list and the same number of context columns.

    Raises:
        UsageError: for an empty list, or policies that differ in actions or width.

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
        # Neighbors on a path may be one object; it is decided once.
        kept = {id(policy): policy for policy in policies}
        number = {one: i for i, one in enumerate(kept)}
        self._of = np.array([number[id(policy)] for policy in policies])
        """(P,): the number of each policy among the different ones."""
        self._different = tuple(kept.values())
        self._coef = np.stack([p.coef for p in self._different])
        self._intercept = np.stack([p.intercept for p in self._different])

    def __len__(self) -> int:
        return len(self.policies)

    def each(self, X: Any, use: Callable[[slice, npt.NDArray[np.int32]], T]) -> list[T]:
        """Apply a function to the choices in each block of rows; they are never all in memory.

        Args:
            X: (n, d) context matrix.
            use: called with the rows of a block and the (P, m) action codes of all policies in
                them, from several threads at once. It may keep the codes.

        Returns:
            One result for each block, in row order.

        >>> up = LinearGreedy([[1.0], [-1.0]], [0.0, 0.0], ["a", "b"])
        >>> LinearStack([up]).each(
        ...     np.array([[2.0], [-3.0]]), lambda rows, codes: codes.sum(axis=1).tolist()
        ... )
        [[1]]
        """
        return self._blocks(X, lambda rows, codes: use(rows, codes[self._of]))

    def _blocks(self, X: Any, use: Callable[[slice, npt.NDArray[np.int32]], T]) -> list[T]:
        """Do as `each` does, with the codes of the different policies."""
        context = self.policies[0].context(X)
        assert context is not None
        single = _single_precision(self._coef, self._intercept, context)
        step = max(256, _CHOICES // len(self))
        return spread(
            len(context),
            step,
            lambda rows: use(rows, self._choices(context[rows], single, rows.start)),
        )

    def choose(self, X: Any) -> npt.NDArray[np.int32]:
        """Return the action codes of every policy, (P, n).

        Args:
            X: (n, d) context matrix.
        """
        blocks = self.each(X, lambda rows, codes: codes)  # noqa: ARG005
        if not blocks:
            return np.empty((len(self), 0), np.int32)
        return np.concatenate(blocks, axis=1)

    def values(self, X: Any, action: npt.NDArray[np.int32], gains: Floats) -> Floats:
        """Return every policy's mean gain, (P,): mean_t 1{the policy takes A_t in X_t} G[t, A_t].

        Args:
            X: (n, d) context matrix.
            action: (n,) codes of the logged actions.
            gains: (n,) sparse gains of the logged actions.
        """
        from piwo.policies.kernels import add_matched

        action = np.ascontiguousarray(action, np.int32)
        gains = np.ascontiguousarray(gains, np.float64)

        def add(rows: slice, codes: npt.NDArray[np.int32], sums: Floats) -> None:
            add_matched(codes, action[rows], gains[rows], sums)

        return self._mean(X, add)

    def mean_rewards(self, X: Any, kinds: npt.NDArray[np.integer[Any]], rewards: Floats) -> Floats:
        """Return every policy's mean of a known reward, (P,): mean_t M[k_t, pi(X_t)].

        Args:
            X: (n, d) context matrix.
            kinds: (n,) the row of M for each row of X, such as its class.
            rewards: M, (kinds, K) mean rewards by kind of row and action.

        >>> up = LinearGreedy([[1.0], [-1.0]], [0.0, 0.0], ["a", "b"])
        >>> LinearStack([up]).mean_rewards(
        ...     np.array([[2.0], [-3.0]]), np.array([0, 0]), np.array([[1.0, 0.5]])
        ... ).tolist()
        [0.75]
        """
        from piwo.policies.kernels import add_known

        kinds = np.ascontiguousarray(kinds, np.int32)
        rewards = np.ascontiguousarray(rewards, np.float64)

        def add(rows: slice, codes: npt.NDArray[np.int32], sums: Floats) -> None:
            add_known(codes, kinds[rows], rewards, sums)

        return self._mean(X, add)

    def _mean(
        self, X: Any, add: Callable[[slice, npt.NDArray[np.int32], Floats], object]
    ) -> Floats:
        """Return sums over rows divided by n, (P,); `add` adds a block to them, blocks in order."""

        def credit(rows: slice, codes: npt.NDArray[np.int32]) -> Floats:
            sums = np.zeros(len(self._different))
            add(rows, codes, sums)
            return sums

        total = sum(self._blocks(X, credit), np.zeros(len(self._different)))
        return np.asarray((total / max(len(X), 1))[self._of])

    def _choices(self, x: Floats, single: tuple[Any, ...], start: int) -> npt.NDArray[np.int32]:
        """Return the codes of the different policies, (P', m), of rows from number `start` on."""
        from piwo.policies.kernels import choose_many

        codes = np.empty((len(self._different), len(x)), np.int32)
        arguments = (x, self._coef, self._intercept, *single, codes)
        choose_many(*arguments)
        if codes.size and codes.min() < 0:
            p, row = np.argwhere(codes < 0)[0].tolist()
            try:
                self._different[p].decide(x[row : row + 1], 1)  # raises: a score is no number
            except RowError as wrong:
                raise wrong.after(start + row) from None
        return codes


def _single_precision(coef: Floats, intercept: Floats, context: Floats) -> tuple[Any, ...]:
    """Return P policies in coordinates for single precision: no overflow, little cancellation.

    Context columns get about mean 0 and variance 1; from each policy the mean over its actions is
    subtracted, and it is divided by its largest coefficient. No argmax changes.

    Returns:
        The arguments size, shift, scale, coef, intercept, slack, near and drift of
        `piwo.policies.kernels.choose_many`.
    """
    from piwo.policies.kernels import nearest

    shift, scale = _frame(context)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        weights, constant, first = _divided(coef * scale, intercept + coef @ shift)
        weights, constant, second = _divided(*_centered(weights, constant))
    # Beyond the largest number: such policies are decided in double precision.
    huge = ~np.isfinite(weights).all(axis=(1, 2))
    huge |= (np.isfinite(intercept) & ~np.isfinite(constant)).any(axis=1)
    weights[huge], constant[huge] = 0.0, 0.0
    # |fl(w'x + b) - (w'x + b)| <= (d + 2) eps |(w, b)| |(x, 1)|, for each of two actions, and
    # |b| <= 1
    norms = np.sqrt((weights * weights).sum(axis=2).max(axis=1) + 1.0)
    slack = 2.0 * (len(shift) + 4) * np.finfo(np.float32).eps * norms
    near, drift = np.empty(len(coef), np.int64), np.empty(len(coef))
    nearest(weights, constant, _WINDOW, near, drift)
    slack[huge], drift[huge] = np.inf, np.inf
    spare = np.full((len(coef), 1), -np.inf)
    return (
        first * second,
        shift,
        scale,
        np.ascontiguousarray(weights, np.float32),
        np.ascontiguousarray(np.hstack([constant, spare]), np.float32),
        slack,
        near,
        drift,
    )


def _divided(coef: Floats, intercept: Floats) -> tuple[Floats, Floats, Floats]:
    """Return each policy divided by its largest coefficient, and that coefficient, (P,)."""
    finite = np.where(np.isfinite(intercept), intercept, 0.0)
    size = np.maximum(np.abs(coef).max(axis=(1, 2), initial=0.0), np.abs(finite).max(axis=1))
    size = np.where(size > 0, size, 1.0)
    return coef / size[:, None, None], intercept / size[:, None], size


def _centered(coef: Floats, intercept: Floats) -> tuple[Floats, Floats]:
    """Subtract from each action the mean over the available ones."""
    available = np.isfinite(intercept)
    share = np.where(available, 1.0, 0.0) / available.sum(axis=1, keepdims=True)
    finite = np.where(available, intercept, 0.0)
    common = np.einsum("pa,paf->pf", share, coef)
    return coef - common[:, None, :], intercept - (share * finite).sum(axis=1, keepdims=True)


def _frame(x: Floats) -> tuple[Floats, Floats]:
    """Return each column's mean and standard deviation, estimated from some rows."""
    if len(x) == 0:
        return np.zeros(x.shape[1]), np.ones(x.shape[1])
    some = x[:: max(1, len(x) // _FRAME)]
    with np.errstate(over="ignore", invalid="ignore"):
        shift, scale = some.mean(axis=0), some.std(axis=0)
    # rows with NaN or infinite numbers are decided in double precision
    shift = np.where(np.isfinite(shift), shift, 0.0)
    return shift, np.where((scale > 0) & (scale < np.inf), scale, 1.0)
