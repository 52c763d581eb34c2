"""Propensities that a declared behavior policy computes: of all actions, or of eligible ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from piwo.errors import DataError
from piwo.logs.batch import Floats
from piwo.logs.eligible import Eligible
from piwo.logs.foreign import RowError, checked_numbers, distributions, pair_probabilities
from piwo.messages import argument

__all__ = ["computed_pairs", "computed_vectors"]

_ENTRIES = 2**20
"""Probabilities of rows x actions that are computed at once for objects that know no lists."""


def computed_vectors(
    behavior: Any, context: Floats | None, rows: npt.NDArray[np.int64], actions: int
) -> tuple[Floats, Floats | None]:
    """Return mu(. | X), (n, K), and its logarithm if the policy gives it (mu may underflow).

    Args:
        behavior: the policy, over the log's action list.
        context: (n, d); None: the log was read without one.
        rows: (n,) row numbers in the log.
        actions: K.

    Raises:
        DataError: for a policy that needs a context, and for what are no probabilities.

    >>> class Even:
    ...     def probabilities(self, X):
    ...         return np.full((len(X), 2), 0.5)
    >>> computed_vectors(Even(), None, np.arange(1), 2)
    (array([[0.5, 0.5]]), None)
    """
    context = _readable(behavior, context, len(rows))
    logarithms = getattr(behavior, "log_probabilities", None)
    called, name = logarithms, "log_probabilities"
    if called is None:
        called, name = behavior.probabilities, "probabilities"
    giver = f"{argument('behavior')}: {type(behavior).__name__}.{name}"
    try:
        found = checked_numbers(called(context), (len(context), actions), giver)
    except RowError as wrong:
        raise wrong.at(rows) from None
    if logarithms is None:
        return found, None
    return np.exp(found), found


def computed_pairs(
    behavior: Any,
    context: Floats | None,
    rows: npt.NDArray[np.int64],
    actions: int,
    eligible: Eligible,
) -> Floats:
    """Return mu(a | X) of the eligible actions of every row, (m,).

    The policy is restricted to them by the rule of target policies: a policy of piwo by its own
    (`Policy.within`); of another object, the probabilities are divided by their sum over the row's
    eligible actions.

    Args:
        behavior: see `computed_vectors`.
        context: see `computed_vectors`.
        rows: see `computed_vectors`.
        actions: see `computed_vectors`.
        eligible: of the n rows.

    Raises:
        DataError: see `computed_vectors`; for rows that are no distribution over all actions; and
            for rows in which it can take no eligible action.

    >>> class Fixed:
    ...     def probabilities(self, X):
    ...         return np.tile([0.5, 0.25, 0.25], (len(X), 1))
    >>> some = Eligible(np.array([0, 2, 3]), np.array([1, 0, 2], np.int32))
    >>> computed_pairs(Fixed(), None, np.arange(2), 3, some).round(4).tolist()
    [0.3333, 0.6667, 1.0]
    """
    context = _readable(behavior, context, len(rows))
    within = getattr(behavior, "within", None)
    owner = f"{argument('behavior')}: {type(behavior).__name__}"
    try:
        if within is not None:
            pairs = within(behavior.context(context), eligible)
            return pair_probabilities(pairs, eligible, f"{owner}.within")
    except RowError as wrong:
        raise wrong.at(rows) from None
    found = np.empty(len(eligible.codes))
    step = max(1, _ENTRIES // actions)
    for start in range(0, len(rows), step):
        block = slice(start, start + step)
        some = eligible.take(block)
        table, _ = computed_vectors(behavior, context[block], rows[block], actions)
        try:
            # The sum over the list alone would divide out whatever is wrong with them.
            table = distributions(table, len(some), actions, owner)
        except RowError as wrong:
            raise wrong.at(rows[block]) from None
        chances = table[some.rows, some.codes]
        sums = np.bincount(some.rows, chances, len(some))
        # No sum is 0 where it can take the logged action, which is compared below.
        share = np.divide(1.0, sums, out=np.zeros(len(some)), where=sums > 0.0)
        first = eligible.starts[start]
        found[first : first + len(chances)] = chances * share[some.rows]
    return found


def _readable(behavior: Any, context: Floats | None, n: int) -> Floats:
    """Return the context for a policy of a user, which cannot write into it."""
    if context is None:
        if getattr(behavior, "needs_context", False):
            raise DataError(
                "the behavior policy needs the context, and the log was read without one; read it "
                f"with {argument('context', '[...]')}"
            )
        # a log without context: a matrix without columns still says how many rows there are
        context = np.empty((n, 0))
    context = context.view()
    context.flags.writeable = False
    return context
